"""Mistakes of an operator on the page have no effect: only a confirmed act is sent."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Locator, Page, Request, expect
from structlog.testing import capture_logs

from licorne import Client
from licorne_server.assembly.server import running
from support.page_in_browser import PARTITION, Town, opened, settings
from support.peers.town import Shell
from support.server.reports import audited

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")
NODE, JOB, BLUE = f"#/node/{OF}/node-11", f"#/application/{OF}/job-1", f"#/queue/{OF}/root.teams.blue"
ACTS = [(NODE, "cordon"), (NODE, "drain"), (JOB, "hold"), (JOB, "priority"), (JOB, "kill"), (BLUE, "stop")]
"""A view, and an act that it offers."""

every_act = pytest.mark.parametrize(("view", "act"), ACTS, ids=[act for _, act in ACTS])


def asked(page: Page) -> list[dict[str, Any]]:
    """The acts that the page sends to the server from now on."""
    found: list[dict[str, Any]] = []

    def heard(request: Request) -> None:
        if request.url.endswith("/ui/api/act"):
            found.append(json.loads(request.post_data or "null"))

    page.on("request", heard)
    return found


async def dialog_of(page: Page, act: str) -> Locator:
    """The dialog that the button of an act opens."""
    await page.locator(f"#actions [data-act={act}]").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_be_visible()
    return dialog


def confirming(dialog: Locator) -> Locator:
    """The button that confirms the act."""
    return dialog.locator("form .buttons button:not([type=button])")


@every_act
async def test_a_dialog_closes_with_its_view(page: Page, town: Town, view: str, act: str) -> None:
    """Neither Back, nor another address, nor a reload leaves a button that acts on a hidden object."""
    done = asked(page)
    await opened(page, town, "#/")
    await page.goto(town.address + view)
    dialog = await dialog_of(page, act)
    await page.go_back()
    await expect(page.locator("#title")).to_have_text("Overview")
    await expect(dialog).to_have_count(0)
    await page.go_forward()
    dialog = await dialog_of(page, act)
    await page.evaluate("location.hash = '#/no-such-page'")
    await expect(dialog).to_have_count(0)
    await page.go_back()
    await dialog_of(page, act)
    await page.reload()
    await expect(page.locator(f"#actions [data-act={act}]")).to_be_visible()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert done == []


@every_act
async def test_a_double_click_confirms_nothing(page: Page, town: Town, view: str, act: str) -> None:
    """The button of an act opens one dialog, wherever its second click is."""
    done = asked(page)
    await opened(page, town, view)
    button = page.locator(f"#actions [data-act={act}]")
    await expect(button).to_be_visible()
    # The confirming button appears where the first click was.
    await page.evaluate(
        "rules => { const sheet = new CSSStyleSheet(); sheet.replaceSync(rules); "
        "document.adoptedStyleSheets = [sheet]; }",
        "dialog .buttons button:not([type=button]) { position: fixed; inset: 0; }",
    )
    await button.dblclick()
    await expect(page.get_by_role("dialog")).to_have_count(1)
    assert done == []


@pytest.mark.parametrize(("view", "act"), [(JOB, "kill"), (BLUE, "stop")])
async def test_enter_confirms_no_stop(page: Page, town: Town, view: str, act: str) -> None:
    """Enter in the reason field does not press a red button; an act that stops no work is sent."""
    done = asked(page)
    await opened(page, town, view)
    dialog = await dialog_of(page, act)
    await dialog.get_by_label(re.compile("^Why")).press_sequentially("over")
    await page.keyboard.press("Enter")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    assert done == []


async def test_a_drain_without_a_choice_stops_nothing(page: Page, town: Town) -> None:
    """A drain waits until the node is empty; an empty or wrong deadline disables button and command."""
    done = asked(page)
    await opened(page, town, NODE)
    dialog = await dialog_of(page, "drain")
    command, button = dialog.locator(".command"), confirming(dialog)
    await expect(command).to_have_text("licorne nodes drain node-11 --rm main --yes")
    await expect(button).to_have_class("main")
    choice, minutes = dialog.get_by_label("What runs there"), dialog.get_by_label("Deadline in minutes")
    await expect(minutes).to_be_hidden()
    await choice.select_option("deadline")
    for wrong in ("", "-5", "1e", "0", "2.5", "10081"):
        await minutes.fill("")
        await minutes.press_sequentially(wrong)
        await expect(button).to_be_disabled()
        await expect(command).to_be_empty()
        await expect(dialog.get_by_text("a whole number from 1 to 10,080")).to_be_visible()
        await page.keyboard.press("Enter")
    await minutes.fill("1e1")
    await expect(command).to_have_text("licorne nodes drain node-11 --rm main --deadline 10m --yes")
    await choice.select_option("now")
    await expect(command).to_have_text("licorne nodes drain node-11 --rm main --now --yes")
    await expect(button).to_have_class("danger")
    await expect(button).to_have_text("Drain the node at once")
    assert done == []


async def test_an_empty_priority_resets_nothing(page: Page, town: Town) -> None:
    """An empty or wrong number disables the act; a reset is chosen explicitly."""
    done = asked(page)
    await opened(page, town, JOB)
    dialog = await dialog_of(page, "priority")
    command, number = dialog.locator(".command"), dialog.get_by_label("Priority", exact=True)
    for wrong in ("", "1e", "1.5", "2147483648"):
        await number.fill("")
        await number.press_sequentially(wrong)
        await expect(confirming(dialog)).to_be_disabled()
        await expect(command).to_be_empty()
    await number.fill("-7")
    await expect(command).to_have_text("licorne apps set job-1 --rm main --priority -7")
    await dialog.get_by_label("All asks have").select_option("each its own")
    await expect(number).to_be_hidden()
    await expect(command).to_have_text("licorne apps set job-1 --rm main --reset-priority")
    assert done == []


async def test_an_act_is_sent_once(page: Page, town: Town) -> None:
    """A double click confirms once; then button and fields disappear, and Enter closes the dialog."""
    done = asked(page)
    await opened(page, town, NODE)
    dialog = await dialog_of(page, "cordon")
    await confirming(dialog).dblclick()
    await expect(dialog.get_by_role("status")).to_have_class(re.compile("good"))
    await expect(confirming(dialog)).to_have_count(0)
    await expect(dialog.get_by_label(re.compile("^Why"))).to_have_count(0)
    await page.keyboard.press("Enter")
    await expect(dialog).to_have_count(0)
    assert [one["act"] for one in done] == ["cordon"]
    await town.main.admin.set_node_schedulable("node-11", True)


async def test_an_act_without_effect_is_reported(page: Page, town: Town) -> None:
    """A dialog that is older than the state reports that there was nothing to do."""
    await opened(page, town, NODE)
    dialog = await dialog_of(page, "cordon")
    await town.main.admin.set_node_schedulable("node-11", False, message="mine")
    await confirming(dialog).click()
    await expect(dialog.get_by_role("status")).to_have_text("Nothing was changed: it was so already.")
    await page.keyboard.press("Escape")
    await expect(page.locator("#view")).to_contain_text("“mine”")
    await town.main.admin.set_node_schedulable("node-11", True)


async def test_a_failed_act_may_be_repeated(page: Page, town: Town) -> None:
    """The reason is shown, the fields keep their text, and the button works again."""
    await opened(page, town, NODE)
    dialog = await dialog_of(page, "cordon")
    why = dialog.get_by_label(re.compile("^Why"))
    await why.fill("disk")
    await page.route("**/ui/api/act", lambda route: route.abort(), times=1)
    await confirming(dialog).click()
    await expect(dialog.get_by_role("status")).to_have_text("the server does not answer")
    await expect(why).to_have_value("disk")
    await confirming(dialog).click()
    await expect(dialog.get_by_role("status")).to_have_class(re.compile("good"))
    await town.main.admin.set_node_schedulable("node-11", True)


CHOICES: Sequence[tuple[str, str, dict[str, str], str]] = [
    (NODE, "cordon", {"Why": "-- it's bad"}, "uncordon"),
    (NODE, "drain", {"Why": "-"}, "uncordon"),
    (NODE, "drain", {"What runs there": "is stopped by a deadline", "Deadline in minutes": "90"}, "uncordon"),
    (NODE, "drain", {"What runs there": "is stopped at once", "Why": "$(reboot) `x`"}, "uncordon"),
    (JOB, "hold", {"Why": "data is late"}, "resume"),
    (JOB, "priority", {"Priority": "-7"}, ""),
    (JOB, "priority", {"All asks have": "each its own", "Why": "over"}, ""),
    (BLUE, "stop", {"Why": "a move"}, "start"),
]
"""A view, an act, the values of its fields, and the act that undoes it."""


@pytest.mark.parametrize(("view", "act", "given", "back"), CHOICES)
async def test_the_command_equals_the_act(
    page: Page,
    town: Town,
    capsys: pytest.CaptureFixture[str],
    view: str,
    act: str,
    given: dict[str, str],
    back: str,
) -> None:
    """The line in the dialog, run in a shell, makes the same change with the same reason."""
    await opened(page, town, view)
    shell = Shell(town.server.grpc_address, capsys)
    told: list[tuple[dict[str, Any], str]] = []
    for does in filter(None, (act, back)):
        dialog = await dialog_of(page, does)
        for label, value in given.items() if does == act else ():
            field = dialog.get_by_label(re.compile(f"^{label}"))
            is_choice = await field.evaluate("field => field.tagName === 'SELECT'")
            await (field.select_option(value) if is_choice else field.fill(value))
        command = await dialog.locator(".command").inner_text()
        with capture_logs() as lines:
            await confirming(dialog).click()
            await expect(dialog.get_by_role("status")).to_have_class(re.compile("good"))
        told.append((audited(lines)[-1], command))
        await page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
    for line, command in told:
        words = shlex.split(command)
        assert words[0] == "licorne"
        with capture_logs() as lines:
            assert (await shell(*words[1:])).code == 0, command
        # The command does not check whether the state was the same before.
        aside = {"peer": "", "changed": True}
        assert {**audited(lines)[-1], **aside} == {**line, **aside}


async def test_an_empty_configuration_is_no_plan(page: Page, town: Town) -> None:
    """An empty text would be the built-in configuration, so nothing is offered for it."""
    await opened(page, town, "#/configuration/main")
    text = page.get_by_label("Configuration to check")
    buttons = [
        page.get_by_role("button", name=name) for name in ("Validate", "Plan", "Compare with the running one")
    ]
    for typed, enabled in (("", False), ("partitions: []", True), (" \n", False)):
        await text.fill(typed)
        for button in buttons:
            await expect(button).to_be_enabled(enabled=enabled)
    await page.get_by_role("button", name="Begin with the running one").click()
    await expect(buttons[1]).to_be_enabled()


async def test_a_plan_is_for_the_revision_in_force(page: Page) -> None:
    """If another revision came into force meanwhile, no change is made, and the page says so."""
    text = "partitions: [{name: default, queues: [{name: root, submitacl: '*', queues: [{name: a}]}]}]"
    async with (
        running(settings()) as server,
        Client(server.grpc_address, rm_id="main", config="") as client,
    ):
        await client.ready()
        await page.goto(f"http://{server.http_address}/ui#/configuration/main")
        await page.get_by_label("Configuration to check").fill(text)
        await page.get_by_role("button", name="Plan").click()
        await page.get_by_role("button", name="Apply …").click()
        dialog = page.get_by_role("dialog")
        await client.admin.update_configuration(text.replace("name: a", "name: b"))
        await confirming(dialog).click()
        await expect(dialog.get_by_role("status")).to_have_class(re.compile("bad"))
        await expect(dialog.get_by_role("status")).to_contain_text("revision")
        assert "name: b" in (await client.admin.configuration()).config
