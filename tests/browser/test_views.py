"""The views besides the overview: links, search, lists, explanations, events and configurations."""

import re
from urllib.parse import quote

import pytest
from playwright.async_api import Browser, Page, expect

from licorne import Application, Ask, Node
from support.accessibility import FAULTS
from support.page_in_browser import EVIL, PARTITION, Town, brightness, fits, opened, row

pytestmark = pytest.mark.asyncio(loop_scope="session")

OF = quote(PARTITION, safe="")
SECOND = quote("[second]default", safe="")
VIEWS = {
    "": "Overview",
    f"#/applications/{OF}": "Applications",
    f"#/application/{OF}/job-1": "job-1",
    f"#/ask/{OF}/job-1/job-1-6": "job-1-6",
    f"#/queue/{OF}/root.batch": "root.batch",
    f"#/nodes/{OF}": "Nodes",
    f"#/node/{OF}/node-01": "node-01",
    f"#/users/{OF}": "Users",
    f"#/groups/{OF}": "Groups",
    f"#/user/{OF}/ann": "ann",
    f"#/preemptions/{OF}": "Preemptions",
    f"#/calendar/{SECOND}": "Calendar",
    "#/events/main": "Events",
    "#/configuration/main": "Configuration",
    "#/rms": "Resource managers",
    "#/search?q=job": "Search: job",
    "#/nothing": "There is no such page",
}


async def heading(page: Page, text: str) -> None:
    """Check that the view of that name is displayed."""
    await expect(page.get_by_role("heading", level=1)).to_have_text(text)


async def test_every_view_has_its_own_address(page: Page, town: Town) -> None:
    """A stored link opens its view without an error, and the view is accessible."""
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    for where, title in VIEWS.items():
        await opened(page, town, where)
        await heading(page, title)
        await expect(page.locator("#view")).not_to_contain_text("Loading")
        await expect(page.locator("#view .bad[role=alert]")).to_have_count(0)
        assert await page.evaluate(FAULTS) == [], where
    assert [error for error in errors if "404" not in error] == []


async def test_every_view_fits_a_narrow_screen(page: Page, town: Town) -> None:
    """Every view fits into a width of 360 pixels."""
    await page.set_viewport_size({"width": 360, "height": 740})
    for where, title in VIEWS.items():
        await opened(page, town, where)
        await heading(page, title)
        await expect(page.locator("#view")).not_to_contain_text("Loading")
        assert await fits(page), where


async def test_the_navigation_shows_the_current_view(page: Page, town: Town) -> None:
    """On a narrow screen the navigation scrolls to the entry of the current view."""
    await page.set_viewport_size({"width": 360, "height": 740})
    for where in ("#/rms", "#/events/main", "#/users", ""):
        await opened(page, town, where)
        entry = page.locator("nav.main a[aria-current]")
        await expect(entry).to_be_in_viewport(ratio=0.95)


OUTSIDE = """() => [...document.querySelectorAll("nav.main a[data-view]")].filter((item) => {
  const count = item.querySelector(".count");
  count.textContent = "12,000";
  return count.getBoundingClientRect().right > item.getBoundingClientRect().right;
}).map((item) => item.dataset.view)"""
"""Views whose large count exceeds the width of its item."""


async def test_large_counts_fit_into_the_navigation(page: Page, town: Town) -> None:
    """The name of the current view is bold, which takes more room."""
    await opened(page, town, f"#/applications/{OF}")
    await heading(page, "Applications")
    for width in (1440, 1024, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        assert await page.evaluate(OUTSIDE) == [], width


async def test_the_views_of_an_rm_follow_the_selected_partition(page: Page, town: Town) -> None:
    """Events and configuration are those of the RM of the selected partition."""
    await opened(page, town, f"#/nodes/{SECOND}")
    for name in ("Events", "Configuration"):
        await page.get_by_role("navigation", name="Views").get_by_role("link", name=name).click()
        await expect(page.get_by_label("RM", exact=True)).to_have_value("second")


async def test_the_back_button_returns(page: Page, town: Town) -> None:
    """Back leads from an ask to its application, to the list, and to the overview."""
    await opened(page, town)
    await page.get_by_role("navigation", name="Views").get_by_role("link", name="Applications").click()
    await heading(page, "Applications")
    await page.get_by_label("Partition").select_option(PARTITION)
    await page.get_by_role("link", name="job-1", exact=True).click()
    await heading(page, "job-1")
    await page.get_by_role("link", name="job-1-5", exact=True).first.click()
    await heading(page, "job-1-5")
    for title in ("job-1", "Applications"):
        await page.go_back()
        await heading(page, title)


async def test_a_waiting_ask_is_explained(page: Page, town: Town) -> None:
    """The page shows the first failing check, with its operands, and the change that would unblock it."""
    await opened(page, town, f"#/ask/{OF}/job-1/job-1-6")
    blocker = page.locator(".checks .first")
    await expect(blocker).to_contain_text("root.batch")
    await expect(blocker).to_contain_text("QUEUE_MAX_EXCEEDED")
    cells = blocker.get_by_role("row").filter(has_text="vcore").get_by_role("cell")
    await expect(cells).to_have_text(["1 core", "4 cores", "4 cores", "1 core"])
    way = page.locator(".wayout")
    told = "On a copy: with the maximum of queue root.batch at memory 24 GiB, vcore 6 cores it starts at once"
    await expect(way).to_contain_text(told)
    kinds = page.locator(".checks > li strong")
    await expect(kinds.first).to_have_text("partition")
    await expect(page.locator("#view")).not_to_contain_text("map[")


async def test_an_application_shows_asks_allocations_and_states(page: Page, town: Town) -> None:
    """The page shows both lists, and the history of the application's states."""
    await opened(page, town, f"#/application/{OF}/job-1")
    await expect(page.locator("#view .lead")).to_contain_text("exceeds the maximum of queue root.batch")
    asks = page.get_by_role("table", name="Asks")
    await expect(asks.get_by_role("row")).to_have_count(3)
    await expect(asks).to_contain_text("exceeds the maximum of queue root.batch")
    await asks.get_by_role("button", name="Ask").click()
    await asks.get_by_role("button", name="Ask").click()
    await expect(asks.get_by_role("row").nth(1)).to_contain_text("job-1-6")
    await expect(page).to_have_url(re.compile("sort=-allocationKey"))
    await page.get_by_label("Waits because").select_option("NO_NODE_FITS")
    await expect(asks).to_have_count(0)
    line = page.get_by_role("table", name="Time line of job-1").get_by_role("row")
    await expect(line).to_have_text([re.compile("job-1-5.*1 like it"), re.compile("job-1-1.*3 like it")])
    await expect(page.get_by_role("table", name="Allocations").get_by_role("row")).to_have_count(5)
    log = page.get_by_role("table", name="State log")
    await expect(log).to_contain_text("New")
    await expect(log).to_contain_text("Running")


async def test_a_queue_shows_all_its_amounts(page: Page, town: Town) -> None:
    """Resource types that the script does not list have a column under their name."""
    await opened(page, town, f"#/queue/{OF}/root.batch")
    limits = page.get_by_role("table", name="Limits and usage")
    await expect(limits.get_by_role("columnheader", name="Headroom")).to_have_count(1)
    await expect(limits.get_by_role("columnheader", name="Fair max")).to_have_count(1)
    await expect(limits.get_by_role("columnheader", name="Abs used capacity")).to_have_count(0)


async def test_a_queue_has_a_chart_of_its_last_hour(page: Page, town: Town) -> None:
    """Arrow keys read out the figures of a time, a table has all, and the address keeps the selection."""
    await opened(page, town, f"#/queue/{OF}/root.batch")
    chart = page.locator(".chart svg")
    await expect(chart).to_have_attribute("aria-label", "vcore of root.batch over the last hour")
    await chart.focus()
    await page.keyboard.press("End")
    await expect(page.locator(".readout")).to_contain_text("maximum4 cores")
    await expect(page.locator(".readout")).to_contain_text("used and waiting6 cores")
    await page.get_by_text("As a table").click()
    figures = page.get_by_role("table", name="vcore of root.batch over the last hour")
    await expect(figures.get_by_role("row").nth(1)).to_contain_text("4 cores")
    await page.get_by_label("Show").select_option("memory")
    await page.get_by_role("button", name="Day").click()
    await expect(page).to_have_url(re.compile("resource=memory&span=day"))


async def test_axes_are_in_utc(browser: Browser, town: Town) -> None:
    """Times below a chart are in UTC, and those of the reader's zone are shown on hover."""
    context = await browser.new_context(timezone_id="Asia/Kolkata")
    page = await context.new_page()
    await opened(page, town, f"#/queue/{OF}/root.batch")
    tick = page.locator(".chart svg .tick").first
    text = await tick.text_content() or ""
    found = re.fullmatch(r"(\d\d:\d\d)(?::\d\d)?Z(.*, \1:\d\dZ) · (.*) GMT\+5:30", text)
    assert found is not None, text
    utc, day, local = found.groups()
    assert (int(local[:2]) * 60 + int(local[3:5]) - int(utc[:2]) * 60 - int(utc[3:])) % 1440 == 330, (
        day,
        text,
    )
    await page.locator(".chart svg").focus()
    await page.keyboard.press("End")
    await expect(page.locator(".readout")).to_contain_text("GMT+5:30 here")
    await context.close()


async def test_planned_starts_are_a_picture_and_a_list(page: Page, town: Town) -> None:
    """With backfill on, the navigation has the view; an entry leads to its ask, which shows its start."""
    await opened(page, town)
    await page.get_by_label("Partition").select_option("[second]default")
    await page.keyboard.press("g")
    await page.keyboard.press("s")
    await heading(page, "Calendar")
    picture = page.get_by_role("table", name="Planned starts")
    await expect(picture.locator(".phase.expected")).to_contain_text(
        re.compile(r"is expected to wait for 9 h \d+ min")
    )
    line = page.get_by_role("region", name="Calendar").get_by_role("row").nth(1)
    await expect(line).to_contain_text(re.compile("planned-2.*declared.*root.batch.*8 cores"))
    await line.get_by_role("link", name="planned-2").click()
    await heading(page, "planned-2")
    start = page.locator("#view dl").filter(has_text="Expected to start")
    await expect(start).to_contain_text(re.compile(r"in 9 h \d+ min.*declared"))


async def test_the_search_finds_all_kinds(page: Page, town: Town) -> None:
    """A key moves the focus into the search, Enter searches, and a hit is a link."""
    await opened(page, town)
    await page.keyboard.press("/")
    await page.keyboard.type("NODE-07")
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="node-07").click()
    await heading(page, "node-07")
    await page.locator("#q").fill("nobody has this name")
    await page.locator("#q").press("Enter")
    await expect(page.locator("#view")).to_contain_text("Nothing has")


async def test_keys_move_through_the_picture_of_nodes(page: Page, town: Town) -> None:
    """The node under the cursor is described in words, and Enter opens it."""
    await opened(page, town, f"#/nodes/{OF}?order=name")
    picture = page.locator("canvas")
    await expect(picture).to_have_attribute("aria-label", re.compile("12 nodes"))
    await picture.focus()
    await page.keyboard.press("ArrowRight")
    await page.keyboard.press("ArrowRight")
    await expect(page.locator("#heat-at")).to_contain_text("node-03 · vcore")
    await page.keyboard.press("Enter")
    await heading(page, "node-03")


async def test_free_slots_are_shown_by_level(page: Page, town: Town) -> None:
    """The view of nodes has each domain with its slots for the waiting shape, by a selected level."""
    await opened(page, town, f"#/nodes/{OF}")
    panel = page.locator("section").filter(has=page.get_by_role("heading", name="By topology"))
    await expect(panel).to_contain_text("The largest gang of members of 1 core · 4 GiB")
    rows = panel.get_by_role("row")
    await expect(rows).to_have_count(7)
    await expect(rows.nth(2)).to_contain_text(f"a/{EVIL}")
    await panel.get_by_label("Level").select_option("zone")
    await expect(rows).to_have_count(4)
    await expect(page).to_have_url(re.compile("level=zone"))


async def test_names_are_texts_and_never_html(page: Page, town: Town) -> None:
    """A name with tags is shown verbatim, wherever it appears, and runs nothing."""
    name = quote(EVIL, safe="")
    views = (
        f"#/applications/{OF}",
        f"#/application/{OF}/{name}",
        f"#/ask/{OF}/{name}/{name}",
        f"#/nodes/{SECOND}",
        f"#/node/{SECOND}/second-{name}",
        f"#/search?q={name}",
        "#/events/main?q=onerror",
        f"#/queue/{OF}/{name}",
    )
    for where in views:
        await opened(page, town, where)
        await expect(page.locator("body")).to_contain_text(EVIL)
        assert await page.locator("img, #view script").count() == 0, where


@pytest.mark.parametrize("name", [".", "..", "~."])
async def test_names_that_are_dots_are_shown(page: Page, town: Town, name: str) -> None:
    """A node and an application with such names have their views, and an ask its explanation."""
    await town.main.add_nodes([Node(node_id=name, capacity={"vcore": 1})])
    application = Application(application_id=name, queue="root.web", user="bob")
    await town.main.submit_applications([application])
    await town.main.ask([Ask(key="dot", application_id=name, resources={"vcore": 99_000})])
    for where in (f"node/{OF}/{name}", f"application/{OF}/{name}", f"ask/{OF}/{name}/dot"):
        await opened(page, town, f"#/{where}")
        await heading(page, "dot" if where.endswith("/dot") else name)
        await expect(page.locator("#view")).not_to_contain_text("Loading")
        await expect(page.locator("#view .bad[role=alert]")).to_have_count(0)
    await town.main.remove_application(name)
    await town.main.remove_node(name)


async def test_events_are_live_and_filtered(page: Page, town: Town) -> None:
    """Events of one decision form one sentence with links; a search covers the stored events."""
    await opened(page, town, "#/events/main")
    events = page.get_by_role("log")
    line = events.locator("li").filter(
        has_text=re.compile(r"bob: \+1 core · 4 GiB in root\.web, site-1-2 runs on node")
    )
    await expect(line.first).to_contain_text("events")
    await expect(line.get_by_role("link", name="site-1-2", exact=True).first).to_have_attribute(
        "href", f"#/ask/{OF}/site-1/site-1-2"
    )
    await expect(events).not_to_contain_text("map[")
    await page.get_by_label("Look in ids and messages").first.fill("job-1-3")
    await expect(events).not_to_contain_text("site-1-2")
    await expect(events).to_contain_text("job-1-3")
    await page.get_by_label("About").select_option("NODE")
    await expect(events.locator("li").first).to_contain_text("node")


async def test_a_configuration_is_checked_and_compared(page: Page, town: Town) -> None:
    """The text is first that in force; problems name and mark their lines, and differences are marked."""
    await opened(page, town, "#/configuration/main")
    await expect(page.get_by_role("region", name="Running configuration")).to_contain_text("batch")
    text, wrong = page.get_by_label("Configuration to check"), page.locator(".gutter .wrong")
    await expect(text).to_have_value(re.compile("batch"))
    running = await text.input_value()
    await page.get_by_role("button", name="Validate").click()
    await expect(page.get_by_text("It is what runs already")).to_be_visible()
    await text.fill(running.replace("vcore: 20", "vcore: many"))
    await page.get_by_role("button", name="Validate").click()
    await expect(page.get_by_text("refused", exact=True)).to_be_visible()
    await expect(wrong).to_have_text("10")
    await page.get_by_role("button", name=re.compile(r"line \d")).first.click()
    chosen = "(({value, selectionStart: from, selectionEnd: to}) => value.slice(from, to))"
    assert "many" in await page.evaluate(f"{chosen}(document.activeElement)")
    await text.press("End")
    await text.press("x")
    await expect(wrong).to_have_count(0)
    await text.press("Backspace")
    await page.get_by_role("button", name="Compare").click()
    differences = page.get_by_role("region", name="Differences")
    await expect(differences.locator(".gone")).to_contain_text("vcore: 20")
    await expect(differences.locator(".new")).to_contain_text("vcore: many")


async def test_light_and_dark_follow_the_system_and_the_visitor(
    browser: Browser, page: Page, town: Town
) -> None:
    """The page follows the system until the visitor selects a theme, which is stored."""
    await page.emulate_media(color_scheme="dark")
    await opened(page, town)
    assert await brightness(page) < 200
    await page.emulate_media(color_scheme="light")
    assert await brightness(page) > 600
    await page.locator("#theme").click()
    await page.locator("#theme").click()
    await expect(page.locator("#theme")).to_have_attribute("aria-label", "Theme: dark")
    assert await brightness(page) < 200
    await page.reload()
    await expect(row(page, "root")).to_be_visible()
    assert await brightness(page) < 200


async def test_users_and_victims_are_summed(page: Page, town: Town) -> None:
    """A user has bars and its own applications, and a partition without victims has no sums."""
    await opened(page, town, f"#/users/{OF}")
    users = page.get_by_role("table", name="Users")
    await expect(
        users.get_by_role("img", name=re.compile("vcore 4 cores used.*2 cores waiting"))
    ).to_have_count(1)
    await users.get_by_role("link", name="bob").click()
    await heading(page, "bob")
    apps = page.get_by_role("table", name="Applications")
    await expect(apps.get_by_role("row")).to_have_count(2)
    await expect(apps).to_contain_text("site-1")
    await page.goto(f"{town.address}#/preemptions/{OF}")
    await expect(page.locator("#view")).to_contain_text("Nothing was preempted")
    await expect(page.get_by_role("heading", name="Who lost to whom")).to_be_hidden()
