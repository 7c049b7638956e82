"""What operators do on the page, and others do not."""

from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from licorne import Client, Node
from licorne_server.services.server import running
from support.page_in_browser import PARTITION, settings

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")


async def test_a_viewer_has_no_actions(page: Page, tmp_path: Path) -> None:
    """What a visitor may not do is not offered."""
    names = ("operator", "viewer", "main")
    files = {name: tmp_path / name for name in names}
    for name in names:
        files[name].write_text(f"a-token-of-the-{name}")
    options = replace(
        settings(tokens=(files["operator"],)),
        viewer_tokens=(files["viewer"],),
        rm_tokens={"main": (files["main"],)},
    )
    async with (
        running(options) as server,
        Client(server.grpc_address, rm_id="main", config="", token=files["main"]) as client,
    ):
        await client.ready()
        await client.add_nodes([Node(node_id="node-01", capacity={"vcore": 1})])
        await page.goto(f"http://{server.http_address}/ui#/node/{OF}/node-01")
        for name, buttons in (("operator", 2), ("viewer", 0)):
            await page.get_by_label("Token", exact=True).fill(f"a-token-of-the-{name}")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("table", name="Resources")).to_be_visible()
            await expect(page.locator("#actions button")).to_have_count(buttons)
            await page.get_by_role("button", name="Forget the token").click()
