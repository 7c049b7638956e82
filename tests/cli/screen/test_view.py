"""What keys change of a view."""

from dataclasses import replace

import pytest

from licorne.v1.state_pb2 import Application
from licorne_cli.screen.pieces import UNICODE, bar
from licorne_cli.screen.tree import Inside, Snapshot
from licorne_cli.screen.view import LONGEST_FILTER, View
from support.terminal import GI, NOON, cluster, drawn, queue, root, seen


@pytest.fixture
def view() -> View:
    """Two clusters; the first has a tree."""
    blue = [
        root(50),
        queue("root.a", allocated=10, is_leaf=False, pending=1),
        queue("root.a.deep", allocated=10, applications=9, pending=1),
        queue("root.b", allocated=40, pending=4),
        queue("root.c", allocated={"memory": 300 * GI}, applications=3),
    ]
    return seen(cluster("blue", blue), cluster("green", [root(0), queue("root.a")]))


def names(view: View) -> list[str]:
    """What is to be seen, line by line."""
    return [node.name for node in view.rows()]


def press(view: View, *keys: str) -> None:
    """One after the other."""
    for key in keys:
        view.press(key)


def chosen(view: View) -> str:
    """Where the cursor is."""
    seen = view.rows()
    return seen[view.position(seen)].queue.path


ALL = ["[blue]default", "a", "deep", "b", "c", "[green]default", "a"]


def test_the_cursor_moves_and_stays_within(view: View) -> None:
    """By a row, by many, to the ends; never beyond."""
    steps = {
        "up": "root",
        "down": "root.a",
        "j": "root.a.deep",
        "k": "root.a",
        "page-down": "root.a",
        "home": "root",
        "G": "root.a",
        "page-up": "root",
    }
    for key, path in steps.items():
        press(view, key)
        assert chosen(view) == path


def test_folding(view: View) -> None:
    """What is below a queue is hidden and shown, by three keys; a hidden queue says how many."""
    press(view, "down", " ")
    assert names(view) == ["[blue]default", "a", "b", "c", "[green]default", "a"]
    assert any("▸ a (1)" in line for line in drawn(view))
    press(view, "right")
    assert names(view) == ALL
    press(view, "left")
    assert "deep" not in names(view)
    press(view, "left")
    assert chosen(view) == "root"
    press(view, "left")
    assert names(view) == ["[blue]default", "[green]default", "a"]
    press(view, "+")
    assert names(view) == ALL
    press(view, "-")
    assert names(view) == ["[blue]default", "a", "b", "c", "[green]default", "a"]


def test_a_cursor_on_a_hidden_queue_goes_to_the_one_above(view: View) -> None:
    """Of its own tree."""
    press(view, "down", "down", "-")
    assert chosen(view) == "root.a"


def test_sorting(view: View) -> None:
    """Siblings change places; no queue leaves its parent, no root its place."""
    orders = {
        "use": ["[blue]default", "c", "b", "a", "deep", "[green]default", "a"],
        "pending": ["[blue]default", "b", "a", "deep", "c", "[green]default", "a"],
        "applications": ["[blue]default", "c", "a", "deep", "b", "[green]default", "a"],
        "name": ALL,
    }
    for order, expected in orders.items():
        press(view, "s")
        assert (view.wanted.order, names(view)) == (order, expected)


def test_filtering(view: View) -> None:
    """What is typed is shown at once with the queues above it, whatever is folded."""
    press(view, "-", "/", "D", "E", "e", "P", "x", "backspace")
    assert names(view) == ["[blue]default", "a", "deep"]
    assert chosen(view) == "root.a.deep"
    assert drawn(view)[-1].startswith("filter: DEeP_")
    press(view, "enter", "q")
    assert view.is_done
    press(view, "escape")
    assert names(view) == ["[blue]default", "a", "b", "c", "[green]default", "a"]
    press(view, "/", *"green", "enter")
    assert names(view) == ["[green]default", "a"]
    press(view, "/", "escape")
    assert view.wanted.text == ""
    press(view, "/", *"nosuch")
    assert any("no queue has nosuch in its path" in line for line in drawn(view))
    press(view, *("x" * LONGEST_FILTER))
    assert len(view.wanted.text) == LONGEST_FILTER


def test_resources(view: View) -> None:
    """The dominant one of each queue, then each that there is for all, and back."""
    row = next(line for line in drawn(view) if " c " in line)
    assert "memory" in row
    assert "75%" in row
    headings = []
    for _ in range(3):
        press(view, "m")
        headings.append(drawn(view)[3].split()[:2])
    assert headings == [["cores", "cores"], ["memory", "bytes"], ["▾", "[blue]default"]]


def test_a_viewer_who_scrolled_stays_there(view: View) -> None:
    """The cursor is on the screen, wherever it goes, and lines that are missing are counted."""
    queues = [root(1), *(queue(f"root.q{number:03}") for number in range(200))]
    view = seen(cluster("blue", queues))
    press(view, *["page-down"] * 3)
    lines = drawn(view)
    assert any("q029" in line for line in lines)
    top = next(line for line in lines if "q0" in line)
    view.saw(replace(view.snapshot))
    assert top in drawn(view)
    assert lines[-3] == "in [blue]default  ↓ 170 more below  ↑ 13 more above  of 201 queues"
    press(view, "end")
    lines = drawn(view)
    assert any("q199" in line for line in lines)
    assert lines[-3].startswith("in [blue]default  ↑ 183 more above  of 201 queues")


def test_opening(view: View) -> None:
    """An opened queue asks for its own; its applications are gone through; two ways lead back."""
    press(view, "down", "down", "enter")
    assert view.opened is not None
    assert (view.opened.partition, view.opened.path) == ("[blue]default", "root.a.deep")
    assert any("asking for its applications" in line for line in drawn(view))
    apps = [Application(application_id=f"app-{number:02}") for number in range(60)]
    inside = Inside(opened=view.opened, applications=apps, is_partial=True, explanation=None)
    view.saw(replace(view.snapshot, inside=inside))
    assert any("1 of the first 60 of 9 applications" in line for line in drawn(view))
    press(view, "page-down", "down")
    assert view.opened.application == "app-11"
    assert any("app-11: no ask waits" in line for line in drawn(view))
    press(view, "end", "down")
    assert view.opened.application == "app-59"
    assert any(line.startswith("app-59") for line in drawn(view))
    press(view, "escape")
    assert drawn(view)[-1].startswith("q quit  ? help")
    press(view, "enter", "left")
    assert drawn(view)[-1].startswith("q quit  ? help")


def test_an_opened_queue_may_go(view: View) -> None:
    """Then the page says so, and one can go back."""
    press(view, "down", "enter")
    view.saw(Snapshot(time=NOON, clusters=()))
    assert any("queue root.a is gone" in line for line in drawn(view))
    press(view, "escape", "down", "enter", "s", "m", "-", "left", "right", " ")
    assert view.opened is None


def test_the_help_is_read_to_its_end(view: View) -> None:
    """It scrolls; another key leads back to where one was."""
    press(view, "?")
    assert any("more lines" in line for line in drawn(view))
    press(view, *["page-down"] * 9)
    assert any(line.startswith("on hold") for line in drawn(view))
    press(view, "up")
    press(view, "x")
    assert not view.is_helping
    press(view, "h", "q")
    assert view.is_done


def test_a_bar_says_in_signs_what_it_says_in_colours() -> None:
    """Guarantees that are kept, exceeded and missing, and a maximum that is reached."""
    amounts = [(40, 50, 100), (51, 50, 100), (100, 50, 100), (0, 50, 100), (100, 0, 100), (1, 0, 0)]
    bars = [bar(*amount, 10, UNICODE) for amount in amounts]
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
