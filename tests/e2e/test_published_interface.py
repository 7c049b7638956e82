"""A stub made from the published `si.v1` interface, by somebody else, works unchanged.

The shim of these tests is a process of its own that has nothing of Licorne; its stubs are made
here from a file that was written from the published tables. Rows 1 to 16, 18 and 161.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from licorne_server.testing import Served, serve
from support.foreign import Ended, ForeignShim, ForeignStream, foreign_shim, generate

CONFIG = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
          - name: small
            resources: {max: {vcore: 2}}
"""
TWO_PARTITIONS = CONFIG + """
  - name: gpu
    queues:
      - {name: root, submitacl: "*", queues: [{name: default}]}
"""


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stubs made from the published interface."""
    folder = tmp_path_factory.mktemp("stubs")
    generate(folder)
    return folder


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    """A server without RMs."""
    async with serve() as server:
        yield server


@pytest.fixture
async def shim(server: Served, stubs: Path) -> AsyncIterator[ForeignShim]:
    """A foreign shim in front of the server."""
    async with foreign_shim(server.target, stubs) as shim:
        yield shim


class Rm:
    """One RM on its three streams."""

    def __init__(self, rm_id: str, shim: ForeignShim) -> None:
        """Not registered yet."""
        self.rm_id = rm_id
        self.shim = shim
        self.nodes: ForeignStream
        self.applications: ForeignStream
        self.allocations: ForeignStream

    async def start(self, config: str = CONFIG) -> "Rm":
        """Register and open the streams."""
        await self.shim.register(self.rm_id, config)
        self.nodes = await self.shim.nodes()
        self.applications = await self.shim.applications()
        self.allocations = await self.shim.allocations()
        return self

    async def add_node(self, node_id: str = "n1", *, vcore: int = 4000, **more: Any) -> None:
        """Bring a node and wait until it is accepted."""
        node = {"nodeID": node_id, "action": "CREATE", "schedulableResource": size(vcore), **more}
        await self.nodes.send(rmID=self.rm_id, nodes=[node])
        assert await self.nodes.next() == {"accepted": [{"nodeID": node_id}]}

    async def submit(self, name: str = "app", queue: str = "root.default", **more: Any) -> None:
        """Submit an application and wait until it is accepted and New."""
        new = {"applicationID": name, "queueName": queue, "ugi": {"user": "ann"}, **more}
        await self.applications.send(rmID=self.rm_id, new=[new])
        assert await self.applications.next() == {"accepted": [{"applicationID": name}]}

    async def ask(self, *keys: str, app: str = "app", vcore: int = 1000, **more: Any) -> None:
        """Ask for one allocation per key."""
        asks = [
            {"allocationKey": key, "applicationID": app, "resourcePerAlloc": size(vcore), **more}
            for key in keys
        ]
        await self.allocations.send(rmID=self.rm_id, allocations=asks)

    async def release(
        self, key: str, app: str = "app", kind: str = "STOPPED_BY_RM", **more: Any
    ) -> None:
        """Release by key."""
        release = {"allocationKey": key, "applicationID": app, "terminationType": kind, **more}
        await self.allocations.send(
            rmID=self.rm_id, releases={"allocationsToRelease": [release]}
        )

    async def new(self, count: int) -> dict[str, dict[str, Any]]:
        """The next so many new allocations by key; anything else in between is a failure."""
        found: dict[str, dict[str, Any]] = {}
        while len(found) < count:
            message = await self.allocations.next()
            assert list(message) == ["new"], message
            found |= {item["allocationKey"]: item for item in message["new"]}
        return found

    async def released(self, count: int = 1) -> list[dict[str, Any]]:
        """The next so many releases."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            message = await self.allocations.next()
            assert list(message) == ["released"], message
            found += message["released"]
        return found


def size(vcore: int) -> dict[str, Any]:
    """An amount of cores, in thousandths."""
    return {"resources": {"vcore": {"value": vcore}}}


async def get(server: Served, path: str) -> Any:
    """What REST says."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://{server.http}/ws/v1/{path}") as response,
    ):
        assert response.status == 200, await response.text()
        return await response.json()


async def leaf(server: Served, rm_id: str, path: str = "root.default") -> dict[str, Any]:
    """A queue of an RM's default partition as REST shows it."""
    queue: dict[str, Any] = await get(server, f"partition/[{rm_id}]default/queue/{path}")
    return queue
