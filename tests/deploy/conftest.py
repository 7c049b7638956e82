"""A server with traffic of every kind, and a scrape of its metrics."""

from collections.abc import AsyncIterator

import aiohttp
import grpc
import pytest
import pytest_asyncio

from licorne import AskRejected, TaskGroup
from licorne.v1 import admin_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import load
from licorne_server.testing import FakeRM
from support.core.builders import config
from support.peers.shim import LOOPBACK, serving

CONFIG = """
partitions:
  - name: default
    queues:
      - name: a-b
        submitacl: '*'
        resources: {guaranteed: {vcore: 4}, max: {vcore: 8}}
        limits: [{limit: staff, groups: [staff], maxresources: {vcore: 6}}]
      - {name: a_b, submitacl: '*'}
"""
WIDER = CONFIG.replace("vcore: 8", "vcore: 9")
PLANNED = config(
    "[{name: batch, properties: {budget.vcore-hours: 500/day}}]",
    properties="{backfill: easy, fairshare.half-life: 1h}",
)
BUDGETS = "budgets: [{name: company, limit: {vcore: 100}, members: [{rm: '*'}]}]"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def exposition(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The plain text of a scrape, after asks, a gang, rejections and configurations."""
    journal = tmp_path_factory.mktemp("journal")
    async with (
        serving(http=LOOPBACK, default_config=load(CONFIG), journal=journal) as served,
        FakeRM(served.grpc_address, rm_id="rm1", predicates=lambda *_: None) as rm,
        FakeRM(served.grpc_address, rm_id="rm2", config=PLANNED) as other,
    ):
        await _work(rm)
        await _plan(other)
        async with grpc.aio.insecure_channel(served.grpc_address) as channel:
            await _configure(channel)
        url = f"http://{served.http_address}/metrics"
        async with aiohttp.ClientSession() as client, client.get(url) as answer:
            yield await answer.text()


async def _work(rm: FakeRM) -> None:
    """Submit more asks than fit, a refused application, a refused ask, and a gang."""
    await rm.add_nodes(3)
    await rm.submit("many", queue="root.a-b", groups=("staff",))
    await rm.ask("many", 9, vcore=1000)
    await rm.submit(
        "gang",
        queue="root.a_b",
        task_groups=[TaskGroup(name="workers", members=2, resources={"vcore": 500})],
    )
    await rm.allocated(8)
    await rm.ask("nobody", vcore=1)
    await rm.until(lambda: any(isinstance(e, AskRejected) for e in rm.events), "the rejection")


async def _plan(rm: FakeRM) -> None:
    """Submit an ask that starts before it was planned to."""
    await rm.add_nodes(1, vcore=4000)
    await rm.submit("job", queue="root.batch", tags={"licorne/runtime": "600"})
    first, _ = await rm.ask("job", 2, vcore=4000)
    await rm.allocated(1)
    while not await rm.client.state.calendar():
        pass
    await rm.release([first])
    while await rm.client.state.calendar():
        pass


async def _configure(channel: grpc.aio.Channel) -> None:
    """Apply one configuration that is accepted, and one that is refused."""
    admin = AdminStub(channel)
    await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm1", config=WIDER))
    await admin.UpdateBudgets(pb.UpdateBudgetsRequest(budgets=BUDGETS))
    try:
        await admin.UpdateConfiguration(pb.UpdateConfigurationRequest(rm_id="rm1", config="x: y"))
    except grpc.aio.AioRpcError:
        return
    raise AssertionError("the configuration is none")
