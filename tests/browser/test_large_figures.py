"""The overview of a very large cluster: no figure is cut, broken or covered."""

from collections.abc import AsyncIterator
from typing import Literal

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect

from licorne import Application, Ask, Client, Node
from licorne_server.assembly.server import Server, running
from support.page_in_browser import GI, fits, row, settings
from support.peers.shim import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOKENS = "example.com/tokens"
PARTITION = "[huge]default"
SIZE = {"vcore": 4_000_000_000, "memory": 48_765 * GI, TOKENS: 2_987_654_321_098}
HALF = {"vcore": 1_200_000_000, "memory": 20_345 * GI, TOKENS: 1_234_567_890_123}
CONFIG = f"""\
partitions:
  - name: default
    placementrules: [{{name: provided}}]
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: all
            resources: {{max: {{memory: 40000Gi, {TOKENS}: {SIZE[TOKENS]}}}}}
            queues:
              - name: one
                queues: [{{name: two, queues: [{{name: three}}]}}]
"""
LEAF = "root.all.one.two.three"

HIDDEN_FIGURES = """() => {
  const wrong = [];
  const inside = (box, frame) => box.left >= frame.left - 1 && box.right <= frame.right + 1
    && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
  const boxes = (node, from, to) => {
    const range = document.createRange();
    range.setStart(node, from);
    range.setEnd(node, to);
    return [...range.getClientRects()].filter((box) => box.width > 0);
  };
  for (const row of document.querySelectorAll("[role=treeitem]")) {
    const seen = [];
    const walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      for (const { 0: figure, index } of node.data.matchAll(/[0-9][0-9.,]*/g)) {
        const found = boxes(node, index, index + figure.length);
        if (!found.length) continue;
        if (found.length > 1) wrong.push(`${figure} is broken`);
        for (let frame = node.parentElement; frame !== document.body; frame = frame.parentElement)
          if (frame === row || getComputedStyle(frame).overflow !== "visible")
            if (!inside(found[0], frame.getBoundingClientRect())) wrong.push(`${figure} is cut`);
        if (getComputedStyle(node.parentElement).textOverflow !== "clip"
            && node.parentElement.scrollWidth > node.parentElement.clientWidth)
          wrong.push(`${figure} has dots`);
      }
      for (const box of boxes(node, 0, node.data.length)) {
        for (const [other, text] of seen)
          if (other.left < box.right - 1 && box.left < other.right - 1
              && other.top < box.bottom - 4 && box.top < other.bottom - 4)
            wrong.push(`${text} is covered by ${node.data}`);
        seen.push([box, node.data]);
      }
    }
  }
  return wrong;
}"""
"""The faults of figures in trees: each figure has to be unbroken and in its own place."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def address() -> AsyncIterator[str]:
    """The address of a server with one RM of a very large cluster."""
    async with running(settings()) as server, _client(server) as huge:
        await huge.ready()
        await huge.add_nodes([Node(node_id="giant", capacity=SIZE)])
        await huge.submit_applications([Application(application_id="model", queue=LEAF, user="ann")])
        await huge.ask(
            [Ask(key=key, application_id="model", resources=HALF) for key in ("m-1", "m-2", "m-3")]
        )
        views = server.scheduler.views
        await eventually(lambda: views.partition(views.resolve(PARTITION)).allocations == 1)
        yield f"http://{server.http_address}/ui"


def _client(server: Server) -> Client:
    return Client(server.grpc_address, rm_id="huge", config=CONFIG, version="7.5")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 1024, 390])
async def test_every_figure_is_shown_whole(
    page: Page, address: str, width: int, theme: Literal["light", "dark"]
) -> None:
    """Used, maximum and pending amounts are shown completely, in bytes and of a custom resource."""
    await page.emulate_media(color_scheme=theme)
    await page.set_viewport_size({"width": width, "height": 900})
    await page.goto(f"{address}#/?a=memory&b={TOKENS}")
    await expect(page.locator("#link")).to_have_text("live")
    queue = row(page, "root.all", PARTITION)
    await expect(queue).to_contain_text("1,234,567,890,123 / 2,987,654,321,098")
    await expect(queue).to_contain_text("+2,469,135,780,246 waiting")
    assert await page.evaluate(HIDDEN_FIGURES) == []
    assert await fits(page)
