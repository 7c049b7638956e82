"""Reserved nodes on the page, with beneficiary and reason; and victims under notice."""

import re
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from licorne import Application, Ask, Client, Node
from licorne_core.values.ids import PartitionName
from licorne_server.assembly.server import Server, running
from support.core.steps import listed
from support.page_in_browser import PARTITION, fits, settings
from support.peers.shim import eventually

if TYPE_CHECKING:
    from licorne_core.views import Views

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")
CONFIG = """\
partitions:
  - name: default
    placementrules: [{name: provided}]
    queues:
      - name: root
        submitacl: "*"
        properties:
          reservation.max.nodes: "2"
          application.reservation.max.nodes: "2"
          reservation.idle.timeout: 1h
        queues:
          - {name: etl}
          - {name: nightly, resources: {max: {vcore: 8}}}
  - name: shared
    placementrules: [{name: provided}]
    queues:
      - name: root
        submitacl: "*"
        queues:
          - {name: guest, properties: {preemption.notice: 1h}}
          - {name: owner, resources: {guaranteed: {vcore: 8}}, properties: {preemption.delay: 1ms}}
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address() -> AsyncIterator[str]:
    """One node is reserved for etl, which waits for room, and one for nightly, at its maximum.

    In another partition a guest is under notice for an owner.
    """
    async with (
        running(settings()) as server,
        Client(server.grpc_address, rm_id="main", config=CONFIG, version="7.5") as main,
    ):
        await main.ready()
        await _reserve(server, main)
        await _notify(server, main)
        yield f"http://{server.http_address}/ui"


async def _reserve(server: Server, main: Client) -> None:
    views, partition = server.scheduler.views, PartitionName(PARTITION)
    await main.add_nodes([Node(node_id=f"n{n}", capacity={"vcore": 8_000}) for n in (1, 2, 3)])
    apps = (("busy", "etl"), ("load", "etl"), ("night", "nightly"))
    await main.submit_applications(
        [Application(application_id=app, queue=f"root.{leaf}", user="ann") for app, leaf in apps]
    )
    await main.ask([_ask("busy", f"b{number}", 5_000) for number in range(3)])
    await eventually(lambda: views.partition(partition).allocations == 3)
    await main.ask([_ask("load", "large", 6_000), _ask("night", "late", 6_000)])
    await eventually(lambda: len(listed(views.reservations(partition))) == 2)
    await main.ask([_ask("night", "small", 3_000)])
    await eventually(lambda: _idle(views, partition) == 1)
    await main.ask([_ask("busy", "waits", 3_000)])
    await eventually(lambda: views.partition(partition).pending_asks == 3)


async def _notify(server: Server, main: Client) -> None:
    views, name = server.scheduler.views, "shared"
    partition = PartitionName("[main]shared")
    await main.add_nodes([Node(node_id="s1", capacity={"vcore": 8_000}, partition=name)])
    await main.submit_applications(
        [
            Application(application_id=app, queue=f"root.{app}", user="bob", partition=name)
            for app in ("guest", "owner")
        ]
    )
    size = {"vcore": 4_000}
    for key in ("g1", "g2"):
        await main.ask([Ask(key=key, application_id="guest", resources=size, partition=name)])
    await eventually(lambda: views.partition(partition).allocations == 2)
    ask = Ask(key="wants", application_id="owner", resources=size, partition=name, allow_preempt_other=True)
    await main.ask([ask])
    await eventually(
        lambda: any(found.stay is not None for found in listed(views.allocations(partition, "guest")))
    )


def _idle(views: "Views", partition: PartitionName) -> int:
    return sum(found is not None and found.idle_since > 0 for found in views.reservations(partition))


def _ask(app: str, key: str, vcore: int) -> Ask:
    return Ask(key=key, application_id=app, resources={"vcore": vcore})


async def test_an_ask_shows_the_queues_with_reserved_nodes(page: Page, address: str) -> None:
    """The check of the nodes has a line for each queue, with amounts and reason."""
    await page.goto(f"{address}#/ask/{OF}/busy/waits")
    rows = page.get_by_role("table", name="Reserved nodes by queue").get_by_role("row")
    await expect(rows).to_have_count(3)
    cells = rows.filter(has_text="root.etl").get_by_role("cell")
    await expect(cells).to_have_text(
        ["root.etl", "1", "0", "6 cores", "waits for room on the node, lacks vcore 3 cores"]
    )
    cells = rows.filter(has=page.get_by_role("link", name="root.nightly")).get_by_role("cell")
    await expect(cells.nth(2)).to_have_text("1")
    await expect(cells.last).to_have_text("exceeds the maximum of queue root.nightly by vcore 1 core")
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)


async def test_a_node_shows_its_reservation(page: Page, address: str) -> None:
    """The view of the node, and the list of nodes, name queue, amounts and reason."""
    await page.goto(f"{address}#/nodes/{OF}?state=reserved")
    listed = page.get_by_role("table", name="Nodes").get_by_role("row")
    await expect(listed.filter(has_text="root.")).to_have_count(2)
    line = listed.filter(has_text="late of root.nightly, 6 cores")
    await expect(line).to_contain_text("exceeds the maximum of queue root.nightly by vcore 1 core")
    await line.get_by_role("link").first.click()
    table = page.get_by_role("table", name="Reservations")
    await expect(table).to_contain_text("late")
    await expect(table).to_contain_text("6 cores")
    await expect(table).to_contain_text("exceeds the maximum of queue root.nightly by")
    await expect(table).to_contain_text("cannot run since")
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)


@pytest.mark.parametrize("where", ["application/{}/guest", "node/{}/s1"])
async def test_a_victim_under_notice_shows_its_beneficiary(page: Page, address: str, where: str) -> None:
    """The allocations of application and node name the ask that gets the room, and the deadline."""
    await page.goto(f"{address}#/{where.format(quote('[main]shared', safe=''))}")
    rows = page.get_by_role("table", name="Allocations").get_by_role("row")
    marks = rows.filter(has_text="under notice").get_by_role("cell").last
    await expect(marks).to_have_text(
        re.compile(r"under notice\s*for wants, stops at (\d+ \w+ \d{4}, )?\d\d:\d\d")
    )
    await expect(rows.filter(has_text="under notice")).to_have_count(1)
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)
    await page.set_viewport_size({"width": 1280, "height": 900})
    await marks.get_by_role("link", name="wants").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("wants")
