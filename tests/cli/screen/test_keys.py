"""Effects of keys and mouse on the screen."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from licorne.v1.state_pb2 import Application
from licorne_cli.screen.pieces import bar
from licorne_cli.screen.tree import Inside, Opened, Snapshot
from support.terminal import GI, NOON, Viewer, cluster, queue, root, seen

BLUE = [
    root(50),
    queue("root.a", allocated=10, is_leaf=False, pending=1),
    queue("root.a.deep", allocated=10, applications=9, pending=1),
    queue("root.b", allocated=40, pending=4),
    queue("root.c", allocated={"memory": 300 * GI}, applications=3),
]
CLUSTERS = seen(cluster("blue", BLUE), cluster("green", [root(0), queue("root.a")]))
ALL = ["[blue]default", "a", "deep", "b", "c", "[green]default", "a"]
FOLDED = ["[blue]default", "a", "b", "c", "[green]default", "a"]
DEEP = Opened(partition="[blue]default", path="root.a.deep")


@pytest.fixture
async def viewer() -> AsyncIterator[Viewer]:
    """A screen with two clusters, the first of which has a tree of queues."""
    async with Viewer(CLUSTERS).at() as viewer:
        yield viewer


def names(lines: list[str]) -> list[str]:
    """The names of the visible queues, in the order of their lines."""
    table = lines[lines.index(next(line for line in lines if "USE OF MAX" in line)) + 1 :]
    return [next(word for word in line.split() if word not in "▾▸") for line in table if "%" in line]


async def opened(viewer: Viewer) -> str:
    """The path of the queue under the cursor, found by opening and closing the queue."""
    headline = next(line for line in await viewer.press("enter") if line.startswith("["))
    await viewer.press("escape")
    return headline.split()[1]


async def test_the_cursor_stays_within_the_list(viewer: Viewer) -> None:
    """The cursor moves by one row, by a page, and to the ends, and never beyond."""
    steps = {
        "up": "root",
        "down": "root.a",
        "j": "root.a.deep",
        "k": "root.a",
        "pagedown": "root.a",
        "home": "root",
        "G": "root.a",
        "pageup": "root",
        "end": "root.a",
        "g": "root",
    }
    for key, path in steps.items():
        await viewer.press(key)
        assert await opened(viewer) == path, key


async def test_queues_are_folded_and_unfolded(viewer: Viewer) -> None:
    """Three keys hide and show the descendants of a queue; a folded queue shows their number."""
    lines = await viewer.press("down", "space")
    assert names(lines) == FOLDED
    assert any("▸ a (1)" in line for line in lines)
    assert names(await viewer.press("right")) == ALL
    assert names(await viewer.press("left")) == FOLDED
    await viewer.press("left")
    assert await opened(viewer) == "root"
    assert names(await viewer.press("left")) == ["[blue]default", "[green]default", "a"]
    assert names(await viewer.press("+")) == ALL
    assert names(await viewer.press("-")) == FOLDED


async def test_the_cursor_on_a_folded_queue_moves_to_its_ancestor(viewer: Viewer) -> None:
    """When its queue is hidden, the cursor moves to the nearest visible ancestor."""
    await viewer.press("down", "down", "-")
    assert await opened(viewer) == "root.a"


async def test_siblings_are_sorted(viewer: Viewer) -> None:
    """Sorting changes the order of siblings; a queue stays below its parent, and a root at its place."""
    orders = {
        "use": ["[blue]default", "c", "b", "a", "deep", "[green]default", "a"],
        "pending": ["[blue]default", "b", "a", "deep", "c", "[green]default", "a"],
        "applications": ["[blue]default", "c", "a", "deep", "b", "[green]default", "a"],
    }
    for order, expected in orders.items():
        lines = await viewer.press("s")
        assert f"sorted by {order}" in lines[1]
        assert names(lines) == expected
    assert names(await viewer.press("s")) == ALL


async def test_the_filter_shows_matches_with_their_ancestors(viewer: Viewer) -> None:
    """Matches of the typed filter appear at once with their ancestors, even in folded queues."""
    lines = await viewer.press("-", "/", "D", "E", "e", "P", "x", "backspace")
    assert names(lines) == ["[blue]default", "a", "deep"]
    assert "filter: DEeP" in lines[1]
    await viewer.press("enter")
    assert await opened(viewer) == "root.a.deep"
    assert names(await viewer.press("escape")) == FOLDED
    assert names(await viewer.press("/", *"green", "enter")) == ["[green]default", "a"]
    assert "filter" not in (await viewer.press("/", "escape"))[1]
    assert "no queue has nosuch in its path" in await viewer.press("/", *"nosuch")


async def test_a_key_selects_the_resource(viewer: Viewer) -> None:
    """The key selects the dominant resource of each queue, then each resource, and starts again."""
    row = next(line for line in viewer.lines if " c " in line)
    assert "memory" in row
    assert "75%" in row
    status = [(await viewer.press("m"))[1].partition("bars: ")[2] for _ in range(3)]
    assert status == ["cores, in cores", "memory, in bytes", "dominant resource"]


async def test_the_scroll_position_is_kept() -> None:
    """The scroll position is kept when figures grow, and when queues are added above the visible ones."""
    queues = [root(1), *(queue(f"root.q{number:03}") for number in range(200))]
    async with Viewer(seen(cluster("blue", queues))).at() as viewer:
        before = names(await viewer.press(*["pagedown"] * 3))
        assert "q060" in before
        grown = [root(1), queue("root.a"), *queues[1:-1], queue("root.q199", allocated=100.25)]
        after = names(await viewer.looks_again(seen(cluster("blue", grown))))
        assert set(before) & set(after) >= set(before[1:-1])
        assert "q199" in names(await viewer.press("end"))


async def test_a_queue_is_opened_and_closed(viewer: Viewer) -> None:
    """An opened queue shows its applications, through which keys move; two keys close it."""
    lines = await viewer.press("down", "down", "enter")
    assert "asking for its applications" in lines
    apps = [Application(application_id=f"app-{number:02}") for number in range(60)]
    inside = Inside(opened=DEEP, applications=apps, is_partial=True, explanation=None)
    lines = await viewer.looks_again(replace(viewer.snapshot, inside=inside))
    assert viewer.opened[-1] == DEEP
    assert any("the first 60 of 9 applications" in line for line in lines)
    assert "app-00: no ask waits" in lines
    assert "app-01: no ask waits" in await viewer.press("down")
    assert "app-59: no ask waits" in await viewer.press("end", "down")
    assert any(line.strip().startswith("app-59 ") for line in viewer.lines)
    assert names(await viewer.press("escape")) == ALL
    await viewer.press("enter")
    assert names(await viewer.press("left")) == ALL


async def test_an_opened_queue_may_be_removed(viewer: Viewer) -> None:
    """The page says that its queue was removed, and can be closed."""
    await viewer.press("down", "enter")
    assert "queue root.a is gone" in await viewer.looks_again(Snapshot(time=NOON, clusters=()))
    assert not any("gone" in line for line in await viewer.press("escape", "enter", "left", "right"))


async def test_the_help_scrolls_to_its_end(viewer: Viewer) -> None:
    """The help scrolls to its end, and another key returns to the previous page."""
    await viewer.press("down", "enter")
    assert any(line.startswith("arrows") for line in await viewer.press("?"))
    assert any(line.startswith("on hold") for line in await viewer.press(*["pagedown"] * 9))
    assert any("[blue]default root.a" in line for line in await viewer.press("up", "x"))


async def test_a_click_selects_and_a_second_click_opens(viewer: Viewer) -> None:
    """A click acts like a cursor key, and a second one like Enter."""
    await viewer.click(at=(5, 5))
    assert await opened(viewer) == "root.a.deep"
    lines = await viewer.click(at=(5, 5))
    assert any("[blue]default root.a.deep" in line for line in lines)


def test_the_state_of_a_queue_is_shown_without_colours() -> None:
    """Signs mark guarantees that are kept, exceeded or missed, and a reached maximum."""
    amounts = [(40, 50, 100), (51, 50, 100), (100, 50, 100), (0, 50, 100), (100, 0, 100), (1, 0, 0)]
    bars = [bar(*amount, 10) for amount in amounts]
    assert [text.plain for text in bars] == [
        "████·│····",
        "████▒·····",
        "█████▒▒▒▒▒",
        "·····│····",
        "██████████",
        "██████████",
    ]
    styles = [[str(span.style) for span in text.spans] for text in bars]
    assert styles[0][0] == "green"
    assert styles[1][:2] == ["green", "yellow"]
    assert set(styles[2]) == {"red"}
