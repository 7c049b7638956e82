"""The page on a member of a deployment, in a real browser."""

import pytest
from playwright.async_api import Page, expect

from licorne_server.store.coordination.store import Member, MemberId
from support.members import deployment, table_of
from support.page_in_browser import PARTITION, Town, opened, row
from support.peers.shim import Shim, connected


@pytest.mark.asyncio(loop_scope="session")
async def test_every_member_shows_the_rms_of_all(page: Page) -> None:
    """Live queues and the lists of another member's RM are shown, and a lost member is named."""
    async with deployment("a", "b", "c") as servers, Town.built(servers[0]) as town:
        async with connected(servers[1]) as channel:
            await Shim(channel, "beside").register()
        for server in servers[1:]:
            await opened(page, Town(server, town.main))
            await expect(row(page, "root.batch")).to_be_visible()
            await expect(row(page, "root", "[beside]default")).to_be_visible()
            await expect(page.locator("#findings")).to_be_hidden()
            await page.goto(f"http://{server.http_address}/ui#/applications/{PARTITION}")
            await expect(page.get_by_role("link", name="job-1", exact=True)).to_be_visible()
        lost = Member(id=MemberId("lost"), name="lost", address="", http="http://127.0.0.1:9")
        table_of(servers).members[lost.id] = lost
        await expect(page.locator("#findings")).to_contain_text("member lost does not answer")
        del table_of(servers).members[lost.id]
        await expect(page.locator("#findings")).to_be_hidden()
