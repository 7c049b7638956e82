"""The overview: live trees of queues, operated by mouse and by keys."""

import re

import pytest
from playwright.async_api import Page, expect

from licorne import Application, Ask
from support.page_in_browser import GI, PARTITION, WIDE, Town, opened, row, tree

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_queues_show_usage_and_pending_asks(page: Page, town: Town) -> None:
    """Numbers have units, and a queue at its maximum is marked in words."""
    await opened(page, town)
    batch = row(page, "root.batch")
    await expect(batch).to_contain_text("4 / 4 cores")
    await expect(batch).to_contain_text("+2 cores waiting")
    await expect(batch).to_contain_text("16 / 16 GiB")
    await expect(batch).to_contain_text("at maximum")
    await expect(batch).to_have_attribute(
        "aria-label", re.compile("root.batch, at maximum, vcore 4 cores used")
    )
    await expect(row(page, "root.web")).not_to_contain_text("at maximum")
    await expect(page.get_by_text("connected", exact=True)).to_have_count(3)


async def test_changes_appear_without_a_reload(page: Page, town: Town) -> None:
    """A new application appears in its queue, and disappears again, without a reload."""
    await opened(page, town)
    blue = row(page, "root.teams.blue")
    await expect(blue).to_contain_text("0 cores")
    await town.main.submit_applications(
        [Application(application_id="live", queue="root.teams.blue", user="ann")]
    )
    await town.main.ask([Ask(key="live-1", application_id="live", resources={"vcore": 3000, "memory": GI})])
    await expect(blue).to_contain_text("3 cores")
    await expect(blue).to_contain_text("1 of 1 run")
    await town.main.remove_application("live")
    await expect(blue).to_contain_text("0 cores")


async def test_asks_that_can_never_start_are_counted_separately(page: Page, town: Town) -> None:
    """The reasons have the number of asks that can never start, with both amounts of the first size."""
    await town.main.submit_applications(
        [Application(application_id="vast", queue="root.teams.blue", user="ann")]
    )
    await town.main.ask([Ask(key="vast-1", application_id="vast", resources={"vcore": 9_000_000})])
    await opened(page, town)
    reasons = page.locator(".broad")
    await expect(reasons).to_contain_text("1 of which can never start")
    await expect(reasons).to_contain_text("vcore=9000 of at most vcore=")
    await town.main.remove_application("vast")


async def test_a_click_folds_a_branch(page: Page, town: Town) -> None:
    """A click folds or unfolds a branch, and a click on a name opens the queue."""
    await opened(page, town)
    teams = row(page, "root.teams")
    await expect(teams).to_have_attribute("aria-expanded", "true")
    await teams.click(position={"x": 600, "y": 8})
    await expect(teams).to_have_attribute("aria-expanded", "false")
    await expect(row(page, "root.teams.red")).to_have_count(0)
    await teams.click(position={"x": 600, "y": 8})
    await row(page, "root.teams.red").get_by_role("link").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("root.teams.red")


async def test_keys_move_through_the_tree(page: Page, town: Town) -> None:
    """Arrow keys move, fold and unfold; Enter opens the queue."""
    await opened(page, town)
    await row(page, "root").focus()
    for key, path in (
        ("ArrowDown", "root.batch"),
        ("ArrowDown", "root.teams"),
        ("ArrowRight", "root.teams.blue"),
        ("ArrowLeft", "root.teams"),
        ("Home", "root"),
        ("End", "root.web"),
    ):
        await page.keyboard.press(key)
        await expect(row(page, path)).to_be_focused()
    await page.keyboard.press("ArrowUp")
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await expect(row(page, "root.teams")).to_have_attribute("aria-expanded", "false")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("root.teams")


async def test_only_one_row_of_a_tree_is_a_tab_stop(page: Page, town: Town) -> None:
    """The Tab key passes a tree in one step, instead of a thousand queues."""
    await opened(page, town)
    assert await tree(page).locator('[tabindex="0"]').count() == 1


async def test_every_control_is_reached_by_tab(page: Page, town: Town) -> None:
    """The focus moves through header and navigation to the tree, and has an outline."""
    await opened(page, town)
    await expect(row(page, "root")).to_be_visible()
    seen = []
    for _ in range(60):
        await page.keyboard.press("Tab")
        outline, name = await page.evaluate(
            "[getComputedStyle(document.activeElement).outlineStyle,"
            " document.activeElement.id || document.activeElement.dataset.view"
            " || document.activeElement.getAttribute('role')]"
        )
        assert outline != "none", name
        seen.append(name)
        if name == "treeitem":
            break
    assert {"skip", "q", "partition", "keys", "theme", "overview", "rms", "treeitem"} <= set(seen)


async def test_the_filter_shows_matches_with_ancestors(page: Page, town: Town) -> None:
    """The filtered tree includes the ancestors of matches; the filter is part of the address."""
    await opened(page, town)
    await page.get_by_label("Filter queues").first.fill("red")
    await expect(row(page, "root.teams.red")).to_be_visible()
    await expect(row(page, "root.batch")).to_have_count(0)
    await expect(page).to_have_url(re.compile(r"q=red"))
    await page.reload()
    await expect(row(page, "root.teams.red")).to_be_visible()
    await expect(row(page, "root.batch")).to_have_count(0)


async def test_a_box_selects_queues_with_waiting_asks(page: Page, town: Town) -> None:
    """One box leaves the queues with waiting asks."""
    await opened(page, town)
    await page.get_by_label("only where something waits").check()
    await expect(row(page, "root.web")).to_have_count(0)
    await expect(row(page, "root.batch")).to_be_visible()


async def test_a_thousand_queues_are_shown(page: Page, town: Town) -> None:
    """A thousand queues open at once, the last one is found by name, and the page responds to keys."""
    await opened(page, town)
    wide = "[wide]default"
    await row(page, "root", wide).focus()
    await page.keyboard.press("ArrowLeft")
    await expect(tree(page, wide).get_by_role("treeitem")).to_have_count(1)
    await page.keyboard.press("ArrowRight")
    await expect(tree(page, wide).get_by_role("treeitem")).to_have_count(WIDE + 1)
    await page.keyboard.press("End")
    await expect(row(page, f"root.q{WIDE - 1:04}", wide)).to_be_focused()
    await page.get_by_label("Filter queues").first.fill("q0777")
    await expect(tree(page, wide).get_by_role("treeitem")).to_have_count(2)
    assert wide != PARTITION
