"""The page when the server stops, returns, or requires a token."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from licorne import Client
from licorne_server.assembly.server import running
from support.page_in_browser import PARTITION, Town, row, settings
from support.peers.tls import tls

pytestmark = pytest.mark.asyncio(loop_scope="session")

TOKEN = "a-token-of-an-operator"


async def test_the_page_reconnects_to_a_restarted_server(page: Page) -> None:
    """The page marks its data as old, reconnects by itself, and drops the previous data."""
    async with running(settings()) as server, Town.built(server) as town:
        port = int(server.http_address.rpartition(":")[2])
        await page.goto(town.address)
        await expect(row(page, "root.batch")).to_contain_text("4 / 4 cores")
    await expect(page.locator("#link")).to_have_text("connection lost")
    await expect(page.get_by_role("alert")).to_contain_text(re.compile(r"What is shown is of \d\d:\d\d"))
    await expect(page.locator("#view")).to_have_attribute("aria-disabled", "true")
    async with running(settings(port)):
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#restarted")).to_contain_text("The server was started again")
        await expect(page.locator("#banner")).to_be_hidden()
        await expect(page.get_by_text("No resource manager is registered")).to_be_visible()
        await expect(row(page, "root.batch")).to_have_count(0)


async def test_a_server_with_tokens_requests_one(page: Page, tmp_path: Path) -> None:
    """The page asks for a token, reports a wrong one, and keeps it for this tab only."""
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
        await expect(page.locator("#server")).to_contain_text("as an operator")
        await page.goto(f"{address}#/configuration")
        await expect(page.get_by_role("button", name="Plan")).to_be_visible()
        await page.reload()
        await expect(page.locator("#link")).to_have_text("live")
        stored = "Object.keys(localStorage).concat(document.cookie).join().includes('token')"
        assert not await page.evaluate(stored)
        other = await page.context.new_page()
        await other.goto(address)
        await expect(other.get_by_text("This server wants a token.")).to_be_visible()
        await other.close()
    assert PARTITION


async def test_a_missing_certificate_is_reported(browser: Browser) -> None:
    """The page asks for no token, which would not help; on a plain HTTP port it shows all data."""
    context = await browser.new_context(ignore_https_errors=True)
    page = await context.new_page()
    mutual = replace(settings(), tls=tls())
    async with running(mutual) as server:
        await page.goto(f"https://{server.http_address}/ui")
        await expect(page.locator("#refused")).to_contain_text("a client certificate is needed")
        await expect(page.locator("#link")).to_have_text("refused")
        await expect(page.locator("#token")).to_be_hidden()
    async with running(replace(mutual, http_insecure=True)) as server:
        await page.goto(f"http://{server.http_address}/ui")
        await expect(page.locator("#link")).to_have_text("live")
        await expect(page.locator("#refused")).to_be_hidden()
        await expect(page.locator("#server")).not_to_contain_text("as an")
    await context.close()


@pytest.mark.parametrize("view", ["", "nodes", "users", "events", "preemptions", "rms"])
async def test_a_server_without_rms_explains_the_next_step(page: Page, view: str) -> None:
    """Every view of RM data says that there is no RM yet, and is filled when one registers."""
    async with running(settings()) as server:
        await page.goto(f"http://{server.http_address}/ui#/{view}")
        empty = page.get_by_role("heading", name="No resource manager is registered yet")
        await expect(empty).to_be_visible()
        await expect(page.locator("#view")).to_contain_text("licorne fake-rm")
        await expect(page.locator("#view")).not_to_contain_text("no such path")
        async with Client(server.grpc_address, rm_id="first", config="") as client:
            await client.ready()
            await expect(empty).to_have_count(0)
            await expect(page.locator("#view")).not_to_contain_text("not found")


async def test_a_token_of_an_rm_shows_no_total_of_rms(page: Page, tmp_path: Path) -> None:
    """The page does not claim that no other RM is registered."""
    files = {name: (tmp_path / name,) for name in ("mine", "others")}
    for name, [file] in files.items():
        file.write_text(f"a-token-of-the-rm-{name}")
    async with running(replace(settings(), rm_tokens=files)) as server:
        token = files["others"][0]
        async with Client(server.grpc_address, rm_id="others", config="", token=token) as client:
            await client.ready()
            address = f"http://{server.http_address}/ui"
            await page.goto(address)
            await page.get_by_label("Token", exact=True).fill("a-token-of-the-rm-mine")
            await page.keyboard.press("Enter")
            words = "No resource manager that you may see is registered"
            await expect(page.get_by_role("heading", name=f"{words} yet")).to_be_visible()
            await expect(page.locator("#view")).to_contain_text("You see one RM only.")
            await expect(page.locator("#view")).not_to_contain_text("licorne fake-rm")
            await page.goto(f"{address}#/configuration")
            await expect(page.get_by_text(f"{words}.")).to_be_visible()


async def test_a_lost_rm_is_marked(page: Page) -> None:
    """The data of a lost RM remain, and the page shows since when it is disconnected."""
    async with running(settings()) as server, Town.built(server) as town:
        await page.goto(town.address)
        await expect(row(page, "root.batch")).to_be_visible()
        await town.main.close()
        await expect(page.get_by_text(re.compile("connection lost at")).first).to_be_visible()
