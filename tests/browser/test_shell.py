"""The frame of all views: keys, search, navigation, order of lists, accessibility."""

import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from support.page_in_browser import PARTITION, Town, opened, row

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")


async def test_the_listed_keys_work(page: Page, town: Town) -> None:
    """The keys listed under ? move through lists and between views; Escape returns the focus."""
    await opened(page, town, f"#/nodes/{OF}")
    await expect(page.get_by_role("link", name="node-02", exact=True)).to_be_visible()
    await page.locator("#keys").focus()
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("next row")
    assert await page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(page.locator("#keys")).to_be_focused()
    for key, name in (("j", "node-01"), ("j", "node-02"), ("k", "node-01")):
        await page.keyboard.press(key)
        await expect(page.get_by_role("link", name=name, exact=True)).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("node-01")
    await page.keyboard.press("g")
    await page.keyboard.press("o")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    await expect(row(page, "root.batch")).to_be_visible()
    await page.keyboard.press("j")
    await expect(row(page, "root")).to_be_focused()


async def test_search_hits_appear_while_typing(page: Page, town: Town) -> None:
    """Arrow keys select a hit, Enter opens it, and Escape closes the list."""
    await opened(page, town)
    field = page.get_by_role("combobox", name=re.compile("^Search"))
    await field.press_sequentially("job")
    hits = page.get_by_role("listbox").get_by_role("option")
    await expect(hits.filter(has_text="job-1").first).to_be_visible()
    await field.press("Escape")
    await expect(hits).to_have_count(0)
    await field.fill("node-0")
    await expect(hits).to_have_count(5)
    await field.press("ArrowDown")
    await field.press("ArrowDown")
    await expect(hits.nth(1)).to_have_attribute("aria-selected", "true")
    chosen = await hits.nth(1).locator(".name").text_content()
    await field.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text(str(chosen))


async def test_the_navigation_has_counts(page: Page, town: Town) -> None:
    """Applications and nodes of the selected partition are counted, unless all partitions are shown."""
    await opened(page, town, f"#/nodes/{OF}")
    entries = page.get_by_role("navigation", name="Views")
    await expect(entries.locator("[data-view=applications] .count")).to_have_text("3")
    await expect(entries.locator("[data-view=rms] .count")).to_have_text("3")
    await entries.locator("[data-view=overview]").click()
    await expect(entries.locator("[data-view=applications] .count")).to_be_empty()
    await expect(entries.locator("[data-view=rms] .count")).to_have_text("3")


async def test_the_order_of_a_list_is_in_the_address(page: Page, town: Town) -> None:
    """A click on a heading sorts, another one reverses the order, and a reload keeps it."""
    await opened(page, town, f"#/applications/{OF}")
    head = page.get_by_role("columnheader", name="User")
    await head.get_by_role("button").click()
    await expect(head).to_have_attribute("aria-sort", "ascending")
    await expect(page).to_have_url(re.compile(r"sort=user"))
    await head.get_by_role("button").click()
    await expect(head).to_have_attribute("aria-sort", "descending")
    await expect(page).to_have_url(re.compile(r"sort=-user"))
    await page.reload()
    await expect(head).to_have_attribute("aria-sort", "descending")


async def test_applications_are_found_by_their_reason(page: Page, town: Town) -> None:
    """A reason on the overview leads to the applications that wait for it, with the text of the check."""
    await opened(page, town)
    await page.get_by_role("link", name="a queue is at its maximum").click()
    await expect(page.get_by_label("Waits because")).to_have_value("QUEUE_MAX_EXCEEDED")
    rows = page.get_by_role("table", name="Applications").get_by_role("row")
    await expect(rows).to_have_count(2)
    await expect(rows.last).to_contain_text(
        "exceeds the maximum of queue root.batch by memory 4 GiB, vcore 1 core"
    )
    await page.get_by_label("Waits because").select_option("NO_NODE_FITS")
    await expect(page.locator("#view")).to_contain_text("There is no such application.")
    await expect(page).to_have_url(re.compile("reason=NO_NODE_FITS"))


async def test_a_list_on_a_phone_is_short(page: Page, town: Town) -> None:
    """Rows are cards, and a page has no more of them than one scrolls through."""
    await page.set_viewport_size({"width": 390, "height": 844})
    await opened(page, town, f"#/applications/{OF}")
    await expect(page.get_by_role("link", name="job-1", exact=True)).to_be_visible()
    box = await page.get_by_role("table", name="Applications").locator("tbody tr").first.bounding_box()
    assert box is not None
    assert box["height"] < 130
