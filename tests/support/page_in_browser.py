"""The page in a browser: three RMs on one server, and common steps of its tests."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.async_api import Locator, Page, expect

from licorne import Application, Ask, Client, Node
from licorne_core.config import load
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Address, Settings
from support.core.builders import config
from support.peers.shim import eventually

GI = 1 << 30
PARTITION = "[main]default"
SECOND = "[second]default"
EVIL = "<img src=x onerror=alert(1)>"
"""A name that would run a script if it became HTML."""

WIDE = 1_000
"""The number of queues of the large RM."""

MAIN = """\
partitions:
  - name: default
    placementrules: [{name: provided}]
    queues:
      - name: root
        submitacl: "*"
        properties: {topology.levels: "zone,rack"}
        queues:
          - {name: batch, resources: {max: {vcore: 4, memory: 16Gi}}}
          - {name: web, resources: {guaranteed: {vcore: 20}}}
          - name: teams
            queues: [{name: red}, {name: blue}]
"""


PLANNED = config("[{name: batch}]", properties="{backfill: easy}")


def settings(http: int = 0, tokens: tuple[Path, ...] = ()) -> Settings:
    """The settings of a server on loopback, on a given HTTP port or on any."""
    return Settings(
        listen=Address(host="127.0.0.1", port=0),
        http=Address(host="127.0.0.1", port=http),
        default_config=load(""),
        drain=1.0,
        operator_tokens=tokens,
    )


@dataclass
class Town:
    """The server, and the RM that tests drive."""

    server: Server
    main: Client

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://{self.server.http_address}/ui"

    @classmethod
    @asynccontextmanager
    async def built(cls, server: Server) -> AsyncIterator["Town"]:
        """A server with all objects, after all decisions."""
        async with AsyncExitStack() as stack:
            main = await stack.enter_async_context(_client(server, "main", MAIN))
            await main.ready()
            await _fill(main)
            for rm, config in (("second", PLANNED), ("wide", _wide())):
                other = await stack.enter_async_context(_client(server, rm, config))
                await other.ready()
                await other.add_nodes([_node(f"{rm}-{EVIL}")])
                if config == PLANNED:
                    await _plan(other)
            views = server.scheduler.views
            await eventually(lambda: views.partition(views.resolve(PARTITION)).allocations == 7)
            await eventually(lambda: all(partition.nodes for partition in views.partitions()))
            await eventually(lambda: len([*views.listed("calendar", views.resolve(SECOND))]) == 1)
            yield cls(server, main)


def _client(server: Server, rm: str, config: str) -> Client:
    return Client(server.grpc_address, rm_id=rm, config=config, version="7.5")


async def _fill(main: Client) -> None:
    await main.add_nodes([_node(f"node-{n:02}", zone="abc"[n % 3], rack=EVIL) for n in range(1, 13)])
    await main.submit_applications(
        [
            Application(application_id="job-1", queue="root.batch", user="ann"),
            Application(application_id="site-1", queue="root.web", user="bob"),
            Application(application_id=EVIL, queue="root.teams.red", user="eve"),
        ]
    )
    await main.ask([_ask("job-1", f"job-1-{number}") for number in range(1, 7)])
    await main.ask([_ask("site-1", f"site-1-{number}") for number in range(1, 3)])
    await main.ask([_ask(EVIL, EVIL)])


async def _plan(rm: Client) -> None:
    """Place an ask that uses all resources for ten hours, and plan the start of the next one after it."""
    planned = Application(
        application_id="planned", queue="root.batch", user="ann", tags={"licorne/runtime": "36000"}
    )
    await rm.submit_applications([planned])
    whole = {"vcore": 8_000, "memory": 32 * GI}
    await rm.ask([Ask(key=f"planned-{n}", application_id="planned", resources=whole) for n in (1, 2)])


def _node(name: str, **attributes: str) -> Node:
    return Node(node_id=name, capacity={"vcore": 8_000, "memory": 32 * GI}, attributes=attributes)


def _ask(app: str, key: str, **more: Any) -> Ask:
    return Ask(key=key, application_id=app, resources={"vcore": 1000, "memory": 4 * GI}, **more)


def _wide() -> str:
    queues = "".join(f"          - {{name: q{number:04}}}\n" for number in range(WIDE))
    head = MAIN[: MAIN.index("          - {name: batch")]
    return head + queues


async def opened(page: Page, town: Town, where: str = "") -> None:
    """Open a view of the page, and wait until it is live."""
    await page.goto(town.address + where)
    await expect(page.locator("#link")).to_have_text("live")


def tree(page: Page, partition: str = PARTITION) -> Locator:
    """The queues of a partition."""
    return page.get_by_role("tree", name=f"Queues of {partition}", exact=True)


def row(page: Page, path: str, partition: str = PARTITION) -> Locator:
    """One queue."""
    return tree(page, partition).locator(f'[data-path="{path}"]')


async def fits(page: Page) -> bool:
    """True if nothing is wider than the screen."""
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    return bool(await page.evaluate(wide))


async def brightness(page: Page) -> int:
    """The brightness of the page's background, from 0 to 765."""
    script = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
    return sum(map(int, await page.evaluate(script)))
