"""The unmodified web UI of the older scheduler finds all fields that it reads, in a browser.

Its build is not ours to store. `page.js` makes the same calls, and reads the same fields as carelessly; each
pitfall of the UI has a test.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from browser.conftest import MILLISECONDS
from browser.older_ui.conftest import FIRST, LEAF, SECOND, Pages

pytestmark = pytest.mark.asyncio(loop_scope="session")

Open = Callable[..., Awaitable[Page]]


@pytest_asyncio.fixture(loop_scope="session")
async def read(browser: Browser, served: Pages) -> AsyncIterator[Open]:
    """Open the page, and wait until it has read everything."""
    async with reading(browser, served) as opened:
        yield opened


@asynccontextmanager
async def reading(browser: Browser, pages: Pages) -> AsyncIterator[Open]:
    """Open the page for these servers; every exception of the page fails the test."""
    page = await browser.new_page()
    page.set_default_timeout(MILLISECONDS)
    failures: list[str] = []
    page.on("pageerror", lambda error: failures.append(str(error)))

    async def opened(query: str = "") -> Page:
        await page.goto(f"{pages.origin}/page.html?{query}")
        await page.wait_for_selector("body[data-read=all]")
        return page

    yield opened
    await page.close()
    assert failures == []


async def lines(page: Page, section: str) -> list[str]:
    """The lines of a section."""
    return await page.locator(f"#{section} p").all_inner_texts()


async def nodes(page: Page) -> list[str]:
    """The rows of the list of nodes."""
    return await page.locator("#nodes li").all_inner_texts()


async def error(page: Page) -> str:
    """The error that the page displays."""
    return await page.locator("#error").inner_text()


@pytest.mark.row(164)
async def test_every_page_finds_its_fields(read: Open) -> None:
    """Dashboard, queues, applications, nodes and status are read to the end without an error."""
    page = await read()
    assert await error(page) == ""
    dashboard = await lines(page, "dashboard")
    assert dashboard[0].startswith(f"cluster {FIRST} ")
    assert dashboard[1].startswith("default, ")
    assert "2 nodes, 2 containers, 2 applications, New 0, Accepted 1, Running 1" in dashboard[1]
    assert any("default vcore: 10 buckets from 0-10%, 2 nodes, 2 names" in x for x in dashboard)
    assert (await lines(page, "status"))[0] == "Healthy true"
    assert (await lines(page, "queues"))[0].startswith("root, Active, parent, max 64 GiB, 17 CPU")
    [first, *_] = await lines(page, "applications")
    assert first.startswith("app-1, Running, used ")
    assert "states New true Accepted true Running true" in first
    assert any(line.startswith("app-2, Accepted") for line in await lines(page, "applications"))
    first, second = await nodes(page)
    assert first.startswith("n1, host-1, rack-1, default, capacity ")
    assert second.startswith("n2, n/a, n/a, default, capacity 1 CPU")


async def test_allocations_have_pod_queue_and_partition(read: Open) -> None:
    """An allocation shows its pod if it has one, its queue and its partition."""
    allocations = [x for x in await lines(await read(), "applications") if x.startswith("allocation")]
    assert allocations[0].startswith(f"allocation space/pod-1 k1 n1 app-1 root.{LEAF} default ")
    assert allocations[0].endswith("priority 7")
    assert allocations[1].startswith(f"allocation <nil> k2 n1 app-1 root.{LEAF} default ")


async def test_usage_ends_at_100_percent(read: Open) -> None:
    """A queue above its maximum can be drawn."""
    [leaf] = [x for x in await lines(await read(), "queues") if x.startswith(f"root.{LEAF},")]
    assert "allocated 8 CPU, 16 GiB" in leaf or "allocated 16 GiB, 8 CPU" in leaf
    assert '"vcore":100' in leaf


async def test_names_need_no_encoding(read: Open) -> None:
    """Queues and partitions with brackets, colons and at signs are found without encoding."""
    page = await read(f"partition=[{SECOND}]default")
    assert await error(page) == ""
    assert any(line.startswith(f"root.{LEAF},") for line in await lines(page, "queues"))
    [node] = await nodes(page)
    assert node.startswith(f"m1, n/a, n/a, [{SECOND}]default, ")


async def test_default_is_the_partition_of_the_first_rm(read: Open) -> None:
    """A page whose only partition name is `default` shows the first RM."""
    page = await read("partition=default")
    assert (await nodes(page))[0].startswith("n1,")


async def test_nodes_can_be_filtered(read: Open) -> None:
    """A node without attributes has an empty object of them."""
    page = await read()
    await page.get_by_label("filter").fill("north")
    assert [x[:3] for x in await nodes(page)] == ["n1,"]
    await page.get_by_label("filter").fill("n2")
    assert [x[:3] for x in await nodes(page)] == ["n2,"]


async def test_the_reason_of_an_error_is_shown(read: Open) -> None:
    """An error has the keys that the page reads, with the reason."""
    shown = await error(await read("partition=nothing"))
    assert shown.startswith("Error: 404 Not Found: ")
    assert "nothing" in shown


async def test_a_server_without_rms_is_an_empty_page(browser: Browser, empty: Pages) -> None:
    """Without RMs every list is empty, and none is null."""
    async with reading(browser, empty) as read:
        page = await read()
        assert await error(page) == ""
        assert await lines(page, "dashboard") == []
        assert (await lines(page, "status"))[0] == "Healthy true"


async def test_a_page_of_an_allowed_origin_reads_directly(read: Open, served: Pages) -> None:
    """Without a proxy the page reads answers and errors if the server allows its origin."""
    page = await read(f"api={served.api}")
    assert await error(page) == ""
    assert (await lines(page, "queues"))[0].startswith("root, Active")
    shown = await error(await read(f"api={served.api}&partition=nothing"))
    assert shown.startswith("Error: 404 Not Found")


async def test_a_page_of_another_origin_reads_nothing(browser: Browser, empty: Pages) -> None:
    """If the server allows no origin, the browser withholds the answer."""
    async with reading(browser, empty) as read:
        shown = await error(await read(f"api={empty.api}"))
        assert "Failed to fetch" in shown
