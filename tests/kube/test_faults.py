"""Faults of an API server: watches that end or are too old, and binds refused, lost or late."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from licorne_tools.kube.programs import API_SERVER
from support.kube.cluster import Cluster
from support.kube.etcd import compact
from support.kube.proxy import Fault, Proxy, running_proxy
from support.kube.workloads import deployment, pod

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

Spoilt = tuple[Cluster, Proxy]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spoilt(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Spoilt]:
    """The control plane with Licorne, whose shim is behind a proxy."""
    async with (
        running_proxy(cluster.plane, tmp_path_factory.mktemp("proxy")) as proxy,
        cluster.scheduled(kubeconfig=proxy.kubeconfig),
    ):
        yield cluster, proxy


async def test_ended_watches_are_started_again(spoilt: Spoilt) -> None:
    """When all watches of the shim end early, it still gets all later changes."""
    cluster, proxy = spoilt
    async with cluster.namespace("cut") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        await cluster.api.create(path, deployment("first", 8))
        await cluster.ledger.until(lambda: len(cluster.ledger.of(name)) == 8, "the pods are there")
        assert proxy.cut() >= 5
        await cluster.api.create(path, deployment("second", 8))
        await cluster.ledger.until(lambda: len(cluster.running(name)) == 16, "all pods run")
        await cluster.check()


async def test_a_shim_with_old_watches_lists_again(spoilt: Spoilt) -> None:
    """A shim whose watches are too old (410) lists all objects again, and handles pods changed meanwhile."""
    cluster, proxy = spoilt
    ledger = cluster.ledger
    async with cluster.namespace("compacted") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        for one in ("stays", "goes"):
            await cluster.api.create(path, deployment(one, 6))
        await ledger.until(lambda: len(cluster.running(name)) == 12, "all pods run")
        proxy.shut()
        await cluster.api.delete(f"{path}/goes")
        await cluster.api.create(path, deployment("comes", 8))
        await ledger.until(lambda: not ledger.of(name, "goes"), "the pods have gone")
        await ledger.until(lambda: len(ledger.of(name, "comes")) == 8, "the pods are there")
        # The cache of the API server would still have these versions.
        await cluster.plane.processes.stop(API_SERVER, kill=True)
        await compact(cluster.plane)
        await cluster.plane.processes.restart(API_SERVER)
        proxy.is_shut = False
        await ledger.until(lambda: len(cluster.running(name)) == 14, "all pods run")
        assert proxy.expired > 0
        await cluster.check()


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
async def test_pods_whose_binds_fail_are_placed(spoilt: Spoilt, fault: Fault) -> None:
    """Whatever happens to a bind, the pod runs in the end, is bound once, and its room is its own."""
    cluster, proxy = spoilt
    async with cluster.namespace(f"bind-{fault.name.lower().replace('_', '-')}") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        before = proxy.ended
        proxy.spoil(*[fault] * 3)
        # Two pods fill a node, so a pod that Licorne had on another node would not fit.
        await cluster.api.create(path, deployment("large", 8, cpu="2"))
        await cluster.ledger.until(lambda: len(cluster.running(name)) == 8, "all pods run")
        assert proxy.ended == before + 3
        await cluster.api.create(path, deployment("more", 2, cpu="2"))
        await cluster.api.patch(f"{path}/large", {"spec": {"replicas": 6}})
        await cluster.ledger.until(lambda: len(cluster.running(name, "more")) == 2, "others have the room")
        await cluster.check()


async def test_a_pod_is_deleted_while_it_is_bound(spoilt: Spoilt) -> None:
    """A pod that is deleted while its bind is in progress leaves nothing, and its room is free."""
    cluster, proxy = spoilt
    async with cluster.namespace("allocated") as name:
        path = f"/api/v1/namespaces/{name}/pods"
        proxy.spoil(Fault.LATE)
        await cluster.api.create(path, pod("goes", "2"))
        await proxy.until(lambda: proxy.begun > proxy.ended)
        await cluster.api.delete(f"{path}/goes")
        await proxy.until(lambda: proxy.begun == proxy.ended)
        await cluster.api.create(
            f"/apis/apps/v1/namespaces/{name}/deployments", deployment("comes", 8, cpu="2")
        )
        await cluster.ledger.until(lambda: len(cluster.running(name)) == 8, "all nodes are full")
        await cluster.check()
