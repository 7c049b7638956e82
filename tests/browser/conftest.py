"""A real headless browser, and a server with fixed contents.

All tests of a process share one browser, one server and one loop, because starting them takes longer than a
test.
"""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright, expect

from licorne_server.assembly.server import Server, running
from support.page_in_browser import Town, settings
from support.patience import PATIENCE

BROWSER = "chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
MILLISECONDS = 1_000 * PATIENCE
"""The timeout of each step, for a busy machine."""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The system's own browser."""
    path = shutil.which(BROWSER)
    if path is None:
        pytest.fail(f"{BROWSER} is not installed: the tests of the page need it", pytrace=False)
    expect.set_options(timeout=MILLISECONDS)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def server() -> AsyncIterator[Server]:
    """A server on loopback."""
    async with running(settings()) as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def town(server: Server) -> AsyncIterator[Town]:
    """Three RMs with queues, nodes and applications, the same for every test."""
    async with Town.built(server) as town:
        yield town


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    """A blank page of 1280 × 900 pixels, whose reported errors fail the test."""
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(MILLISECONDS)
    page = await context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(f"a dialog: {dialog.message}"))
    page.on(
        "console",
        lambda line: errors.append(line.text) if "Content Security" in line.text else None,
    )
    yield page
    await context.close()
    assert errors == []
