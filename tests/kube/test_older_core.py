"""For comparison, the older core with the same fault: refused binds."""

import pytest

from licorne_tools.kube.programs import OLDER_SHIM
from licorne_tools.kube.schedulers import SchedulerKind
from support.kube.cluster import Cluster
from support.kube.proxy import Fault, running_proxy
from support.kube.workloads import pod

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]


async def test_the_older_core_gives_up_refused_binds(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The published shim gives up a pod whose bind is refused, and keeps its room; later pods are bound."""
    folder = tmp_path_factory.mktemp("proxy")
    async with (
        running_proxy(cluster.plane, folder) as proxy,
        cluster.scheduled(kind=SchedulerKind.OLDER, kubeconfig=proxy.kubeconfig),
        cluster.namespace("older") as name,
    ):
        path = f"/api/v1/namespaces/{name}/pods"
        proxy.spoil(Fault.REFUSED)
        await cluster.api.create(path, pod("refused", "4"))
        await proxy.until(lambda: proxy.ended == 1)
        for number in range(4):
            await cluster.api.create(path, pod(f"later-{number}", "4"))
        await cluster.ledger.until(lambda: len(cluster.running(name, "later")) == 3, "three have room")
        await cluster.settle(name)
        assert len(cluster.running(name)) == 3
        await cluster.check()
        # An orderly end takes its time, whatever its pods are.
        await cluster.plane.processes.stop(OLDER_SHIM, kill=True)
