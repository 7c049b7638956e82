"""Acts of operators on the page: the equivalent command is shown, and the reason is stored."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from licorne import Client, Node
from licorne_server.assembly.server import running
from support.page_in_browser import PARTITION, Town, opened, settings

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")


async def act(
    page: Page, name: str, command: str, message: str = "", *, priority: str = "", whose: str = ""
) -> None:
    """Press the button of an act, and confirm it in the dialog, which shows the command."""
    await page.locator("#actions").get_by_role("button", name=name, exact=True).click()
    dialog = page.get_by_role("dialog")
    if whose:
        await dialog.get_by_label("All asks have").select_option(whose)
    if priority:
        await dialog.get_by_label("Priority", exact=True).fill(priority)
    if message:
        await dialog.get_by_label(re.compile("^Why")).fill(message)
    await expect(dialog.locator(".command")).to_contain_text(command)
    await dialog.locator("form button:not([type=button])").click()
    await expect(dialog.get_by_role("status")).to_have_class(re.compile("good"))
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_a_queue_is_stopped_and_started(page: Page, town: Town) -> None:
    """The views of the queue and of the overview show its stop with the reason, until it is started."""
    await opened(page, town, f"#/queue/{OF}/root.teams.blue")
    await act(
        page, "Stop", "licorne queues stop root.teams.blue --rm main --message 'a test' --yes", "a test"
    )
    await expect(page.locator("#view")).to_contain_text("“a test”")
    await page.goto(f"{town.address}#/")
    first = page.locator(".attention")
    await expect(first).to_contain_text("root.teams.blue stopped")
    await expect(first).to_contain_text("“a test”")
    await page.goto(f"{town.address}#/queue/{OF}/root.teams.blue")
    await act(page, "Start", "licorne queues start root.teams.blue --rm main")
    await expect(page.locator("#view")).not_to_contain_text("“a test”")


MARKED = [
    ("node/{of}/node-11", "Cordon", "Uncordon", "nodes", "Nodes", "cordoned"),
    ("application/{of}/job-1", "Hold", "Resume", "apps", "Applications", "held"),
]
"""A view, the act that marks its object and the act that ends the mark, the list, and the mark there."""


@pytest.mark.parametrize(("view", "mark", "unmark", "noun", "title", "marked"), MARKED)
async def test_an_object_is_marked_and_unmarked(
    page: Page, town: Town, view: str, mark: str, unmark: str, noun: str, title: str, marked: str
) -> None:
    """The object's view and list show the mark, and its reason."""
    where = view.format(of=OF)
    name = where.rpartition("/")[2]
    await opened(page, town, f"#/{where}")
    await act(page, mark, f"licorne {noun} {mark.lower()} {name} --rm main --message 'a look'", "a look")
    await expect(page.locator("#view")).to_contain_text("“a look”")
    await page.goto(f"{town.address}#/{title.lower()}/{OF}?q={name}")
    await expect(page.get_by_role("table", name=title)).to_contain_text(marked)
    await page.goto(f"{town.address}#/{where}")
    await act(page, unmark, f"licorne {noun} {unmark.lower()} {name} --rm main")
    await expect(page.locator("#view")).not_to_contain_text("“a look”")


async def test_the_priority_of_an_application_is_changed(page: Page, town: Town) -> None:
    """All asks have the new priority, until each has its own again."""
    await opened(page, town, f"#/application/{OF}/job-1")
    await act(page, "Priority", "licorne apps set job-1 --rm main --priority 7", priority="7")
    await opened(page, town, f"#/application/{OF}/job-1")
    await act(page, "Priority", "licorne apps set job-1 --rm main --reset-priority", whose="each its own")


async def test_a_configuration_is_planned_applied_and_rolled_back(page: Page, town: Town) -> None:
    """The plan names the changes; revisions have author and reason, and any two can be compared."""
    await opened(page, town, "#/configuration/main")
    view = page.locator("#view")
    await page.get_by_role("button", name="Begin with the running one").click()
    text = page.get_by_label("Configuration to check")
    running = await text.input_value()
    await text.fill("partitions: 3")
    await page.get_by_role("button", name="Plan").click()
    await expect(view.get_by_text("expected a list")).to_be_visible()
    await text.fill(running.replace("vcore: 4, memory: 16Gi", "vcore: 6, memory: 24Gi"))
    await page.get_by_role("button", name="Plan").click()
    placed = page.get_by_role("table", name="Placed").get_by_role("row")
    await expect(placed.nth(1)).to_contain_text("job-1-5 and 1 like it")
    await expect(placed).to_have_count(2)
    await text.fill(running.replace("{name: blue}", "{name: blue}, {name: green}"))
    await page.get_by_role("button", name="Plan").click()
    queues = page.get_by_role("table", name="Queues")
    await expect(queues.get_by_role("row").nth(1)).to_contain_text("root.teams.green")
    await confirmed(page, "Apply …", "licorne config apply FILE --base 1 --rm main --message 'a test' --yes")
    revisions = page.get_by_role("table", name="Revisions")
    await expect(revisions.get_by_role("row").nth(1)).to_contain_text("in force")
    await expect(revisions.get_by_role("row").nth(1)).to_contain_text("a test")
    await expect(view.locator(".diff .new").first).to_contain_text("green")
    await confirmed(
        page, "Roll back", "licorne config rollback --to 1 --base 2 --rm main --message 'a test' --yes"
    )
    await expect(revisions.get_by_role("row")).to_have_count(4)
    await page.get_by_label("Compare", exact=True).select_option("1")
    await expect(view).to_contain_text("Both have the same text")
    await expect(page).to_have_url(re.compile("from=1"))


async def confirmed(page: Page, button: str, command: str) -> None:
    """Press a button of the view, type a reason, and confirm."""
    await page.locator("#view").get_by_role("button", name=button, exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label(re.compile("^Why")).fill("a test")
    await expect(dialog.locator(".command")).to_contain_text(command)
    await dialog.locator("form button:not([type=button])").click()
    await expect(dialog.get_by_role("status")).to_have_class(re.compile("good"))
    await page.keyboard.press("Escape")


async def test_a_viewer_has_no_acts(page: Page, tmp_path: Path) -> None:
    """Acts that a viewer has no right to are not offered."""
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
            await page.goto(f"http://{server.http_address}/ui#/configuration/main")
            await expect(page.get_by_role("button", name="Validate")).to_be_visible()
            await expect(page.get_by_role("button", name="Plan")).to_have_count(min(buttons, 1))
            await page.goto(f"http://{server.http_address}/ui#/node/{OF}/node-01")
            await page.get_by_role("button", name="Forget the token").click()
