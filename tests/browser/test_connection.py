"""What the page does when the server goes away, comes back, or wants a token."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from licorne_server.app import running
from support.page_actions import row
from support.page_town import PARTITION, Town, settings

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOKEN = "a-token-of-an-operator"


async def test_the_page_finds_a_server_that_was_started_again(page: Page) -> None:
    """It says that what it shows is old, comes back by itself, and forgets what was."""
    async with running(settings()) as server, Town.built(server) as town:
        port = int(server.http_address.rpartition(":")[2])
        await page.goto(town.address)
        await expect(row(page, "root.batch")).to_contain_text("4 / 4 cores")
    await expect(page.locator("#link")).to_have_text("connection lost")
    await expect(page.get_by_role("alert")).to_contain_text(
        re.compile(r"What is shown is of \d\d:\d\d")
    )
    await expect(page.locator("#view")).to_have_attribute("aria-disabled", "true")
    async with running(settings(port)):
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#restarted")).to_contain_text("The server was started again")
        await expect(page.locator("#banner")).to_be_hidden()
        await expect(page.get_by_text("No resource manager is registered")).to_be_visible()
        await expect(row(page, "root.batch")).to_have_count(0)


async def test_a_server_that_knows_tokens_wants_one(page: Page, tmp_path: Path) -> None:
    """The page asks for it, says when it is wrong, and keeps it for this tab only."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    async with running(settings(tokens=(file,))) as server:
        address = f"http://{server.http_address}/ui"
        await page.goto(address)
        field = page.get_by_label("Token", exact=True)
        await expect(page.get_by_text("This server wants a token.")).to_be_visible()
        await field.fill("a-token-of-nobody-here")
        await page.keyboard.press("Enter")
        await expect(page.locator("#token-reason")).to_contain_text("is not taken")
        await field.fill(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#server")).to_contain_text("as an operator, read-only")
        await page.goto(f"{address}#/configuration")
        await expect(page.locator("#view")).to_contain_text("licorne config")
        await page.reload()
        await expect(page.locator("#link")).to_have_text("live")
        stored = "Object.keys(localStorage).concat(document.cookie).join().includes('token')"
        assert not await page.evaluate(stored)
        other = await page.context.new_page()
        await other.goto(address)
        await expect(other.get_by_text("This server wants a token.")).to_be_visible()
        await other.close()
    assert PARTITION


async def test_an_rm_that_is_lost_is_said_to_be(page: Page) -> None:
    """Its books stay, and the page says since when nobody is there."""
    async with running(settings()) as server, Town.built(server) as town:
        await page.goto(town.address)
        await expect(row(page, "root.batch")).to_be_visible()
        await town.main.close()
        await expect(page.get_by_text(re.compile("connection lost at")).first).to_be_visible()
