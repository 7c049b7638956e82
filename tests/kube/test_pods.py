"""What makes pods, and what becomes of these: placed once, where there is room, in their queues."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from support.kube.cluster import Cluster
from support.kube.workloads import deployment

pytestmark = [pytest.mark.kube, pytest.mark.asyncio(loop_scope="session")]

QUEUES = """
partitions:
  - name: default
    placementrules: [{name: provided, create: true}, {name: tag, value: namespace, create: true}]
    queues:
      - name: root
        submitacl: '*'
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placing(cluster: Cluster) -> AsyncIterator[Cluster]:
    """The control plane with Licorne."""
    async with cluster.scheduled(QUEUES):
        yield cluster


async def test_deployments_run_and_change_their_size(placing: Cluster) -> None:
    """All pods of Deployments run, also when there are more; what does not fit waits until others end."""
    ledger = placing.ledger
    async with placing.namespace("deployments") as name:
        path = f"/apis/apps/v1/namespaces/{name}/deployments"
        for one in ("first", "second"):
            await placing.api.create(path, deployment(one, 6))
        await ledger.until(lambda: len(placing.running(name)) == 12, "twelve pods run")
        await placing.check()
        await placing.api.patch(f"{path}/first", {"spec": {"replicas": 40}})
        await ledger.until(lambda: len(placing.running(name)) == 32, "as many pods run as have room")
        await placing.check()
        await placing.api.delete(f"{path}/second")
        await ledger.until(lambda: len(placing.running(name, "first")) == 32, "others take their room")
        await placing.check()
