"""Two members of a deployment, each with an RM that has nodes and an application, and their HTTP."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from yarl import URL

from licorne import Application, Ask, Client, Node
from licorne_server.assembly.server import Server
from licorne_server.reads.members import MISSING
from support.core.builders import config
from support.members import deployment, table_of
from support.peers.shim import eventually

CONFIG = config("[{name: runs}]", rest="placementrules: [{name: provided}]")


class Town:
    """Two members, each with an RM, and a client of their HTTP."""

    def __init__(self, servers: list[Server], client: aiohttp.ClientSession) -> None:
        """Two servers; the RM of the first one is `left`, that of the second one `right`."""
        self.left, self.right = servers
        self.table = table_of(servers)
        self._client = client

    async def ask(self, server: Server, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        url = URL(f"http://{server.http_address}{path}", encoded=True)
        names = {"Accept-Encoding": "identity"}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self._client.get(url, headers=names) as answer:
            return answer.status, dict(answer.headers), await answer.read()

    async def get(self, server: Server, path: str, **headers: str) -> Any:
        """The JSON of a complete and successful answer."""
        status, shown, body = await self.ask(server, path, **headers)
        assert status == 200, body
        assert MISSING not in shown
        return json.loads(body)


@asynccontextmanager
async def filled(server: Server, rm: str, **options: Any) -> AsyncIterator[Client]:
    """An RM with two nodes and a running application."""
    async with Client(server.grpc_address, rm_id=rm, config=CONFIG, **options) as client:
        await client.ready()
        for name in (".", f"node-of-{rm}"):
            await client.add_nodes([Node(node_id=name, capacity={"vcore": 4_000, "memory": 1 << 30})])
        await client.submit_applications([Application(application_id="job", queue="root.runs", user="ann")])
        await client.ask([Ask(key="job-1", application_id="job", resources={"vcore": 1000})])
        views = server.scheduler.views
        await eventually(lambda: views.partition(views.resolve(f"[{rm}]default")).allocations == 1)
        yield client


@asynccontextmanager
async def two_members() -> AsyncIterator[Town]:
    """Members without access control: `left` is on the first one, `right` on the second."""
    async with (
        deployment("a", "b") as servers,
        aiohttp.ClientSession(auto_decompress=False) as client,
        filled(servers[0], "left"),
        filled(servers[1], "right"),
    ):
        yield Town(servers, client)
