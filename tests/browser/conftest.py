"""A real headless browser, shared by all tests: to start it takes longer than a test."""

import shutil
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

BROWSER = "chromium"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The system's own browser."""
    path = shutil.which(BROWSER)
    if path is None:
        pytest.fail(f"{BROWSER} is not installed: the tests of pages need it", pytrace=False)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        await browser.close()
