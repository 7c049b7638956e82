"""Whole screens, as recorded in `pictures`; `--rewrite` records them again."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.widgets import DataTable, Footer, Input, Static

from licorne.v1.state_pb2 import Application, Check, ExplainResponse
from licorne_cli.failures import NotFoundError
from licorne_cli.screen.table import Table, queue_rows
from licorne_cli.screen.tree import Inside, Opened, Snapshot, Wanted, rows, trees
from support.terminal import GI, NOON, Viewer, cluster, queue, root, seen

PICTURES = Path(__file__).with_name("pictures")
WIDTHS = (60, 80, 100, 140)
HEIGHT = 24


def ordinary() -> Snapshot:
    """Guarantees that are used and unused, an unreached maximum, and pending asks."""
    queues = [
        root(61.5, pending={"vcore": 8000}, running_applications=6),
        queue("root.adhoc", allocated=8.5, applications=2, running_applications=2),
        queue("root.etl", allocated=33, guaranteed=30, max=45, pending=8, applications=4),
        queue("root.prod", allocated=20, guaranteed=40, is_leaf=False, running_applications=3),
        queue("root.prod.api", allocated=20, guaranteed=25, applications=3, running_applications=3),
        queue("root.prod.web", guaranteed=15),
        queue(
            "root.train",
            allocated={"vcore": 2000, "memory": 300 * GI},
            max={"memory": 350 * GI},
            applications=1,
            running_applications=1,
            is_managed=False,
        ),
    ]
    return seen(cluster("blue", queues, pending_asks=4))


def at_maximum() -> Snapshot:
    """Queues that almost reach, reach and exceed a maximum, a guarantee, and a number of applications."""
    queues = [
        root(90, running_applications=9),
        queue("root.a73", allocated=73, max=100, guaranteed=50),
        queue("root.b85", allocated=85, max=100, guaranteed=50),
        queue("root.c99", allocated=99.9, max=100),
        queue("root.d100", allocated=40, max=40, guaranteed=20, pending=12, applications=3),
        queue("root.e100", allocated=40, max=40, applications=1, running_applications=1),
        queue("root.f120", allocated=48, max=40, preempting=8),
        queue("root.g", allocated=4, max_applications=2, running_applications=2, applications=5),
        queue("root.h", allocated=10, max={"vcore": 90_000, "pods": 3}, pending=2),
        queue("root.i", allocated={"vcore": 100, "pods": 3}, max={"vcore": 900, "pods": 3}),
        queue("root.j", pending={"vcore": 1000, "gpu": 1}, max={"gpu": 0}),
        queue("root.p", allocated=30, max=30, is_leaf=False),
        queue("root.p.borrower", allocated=28, pending=5),
        queue("root.p.owner", allocated=2, guaranteed=15),
        queue("root.tiny", allocated=0.05, max=40),
    ]
    return seen(cluster("blue", queues))


def several_rms() -> Snapshot:
    """One RM is lost and one on hold for two reasons; queues drain or are stopped."""
    return seen(
        cluster("blue", [root(30), queue("root.a", allocated=30, state="Draining")]),
        cluster("green", [root(100), queue("root.b", allocated=100)], lost=NOON - 250),
        cluster(
            "red",
            [root(0), queue("root.c", state="Stopped", pending=3)],
            holds=["replay in progress", "outbox full"],
        ),
    )


def many() -> Snapshot:
    """More queues than lines, with the cursor in the middle."""
    queues = [root(50), *(queue(f"root.q{number:03}", allocated=0.5) for number in range(99))]
    return seen(cluster("blue", queues))


def preempting() -> Snapshot:
    """Victims whose stop was requested, and amounts promised to others."""
    queues = [
        root(58, preempting={"vcore": 8000}),
        queue("root.shared", allocated=60, max=60, preempting=8, promised=8, is_leaf=False),
        queue("root.shared.borrower", allocated=46, preempting=8),
        queue("root.shared.owner", allocated=14, guaranteed=30, pending=16, promised=8),
    ]
    return seen(cluster("batch", queues))


def names() -> Snapshot:
    """Names that are long, wide, deep, or contain control characters."""
    deep = "root.one.two.three.four.five.six.seven"
    levels = [deep.rsplit(".", above)[0] for above in range(6, 0, -1)]
    queues = [
        root(10),
        queue("root.analytics-of-the-northern-region-2024", allocated=40, max=40),
        queue("root.analytics-of-the-northern-region-2025", allocated=4),
        queue("root.東京支社の分析部門の夜間処理", allocated=12, guaranteed=10),
        queue("root.evil\x1b[2Jqueue", allocated=1),
        queue("root.café", allocated=3),
        *(queue(path, is_leaf=False) for path in levels),
        queue(deep, allocated=5),
    ]
    return seen(cluster("資源管理者-with-a-long-name-of-its-own", queues))


def opened() -> Snapshot:
    """An opened queue with its applications, the first of which waits."""
    apps = [
        Application(application_id="nightly-0001", state="Running", user="cron", pending_asks=6),
        Application(application_id="report", state="Running", user="ann", allocation_count=20),
    ]
    why = ExplainResponse(
        application_id="nightly-0001",
        allocation_key="nightly-0001-020",
        verdict="pending",
        summary="queue root.d100 would exceed its maximum",
        asks_ahead=0,
        applications_ahead=1,
    )
    why.checks.add(kind="queue", subject="root", passed=True)
    why.checks.append(
        Check(
            kind="queue",
            subject="root.d100",
            code="QUEUE_MAX_EXCEEDED",
            message="vcore=2 wanted, vcore=40 used of vcore=40",
        )
    )
    queue = Opened(partition="[blue]default", path="root.d100")
    inside = Inside(opened=queue, applications=apps, is_partial=False, explanation=why)
    return replace(at_maximum(), inside=inside)


SCENES: dict[str, tuple[Callable[[], Snapshot], tuple[str, ...]]] = {
    "ordinary": (ordinary, ()),
    "at_maximum": (at_maximum, ()),
    "several_rms": (several_rms, ()),
    "many": (many, ("pagedown", "pagedown", "pagedown")),
    "preempting": (preempting, ()),
    "names": (names, ()),
    "one_resource": (ordinary, ("m", "m")),
    "opened": (opened, (*["down"] * 4, "enter")),
    "help": (ordinary, ("question_mark",)),
}


async def drawn(name: str, width: int, height: int = HEIGHT) -> list[str]:
    """The lines of the screen."""
    snapshot, keys = SCENES[name]
    async with Viewer(snapshot()).at(width, height, *keys) as viewer:
        return viewer.lines


@pytest.mark.parametrize("name", SCENES)
async def test_screens_equal_their_recordings(name: str, *, rewrite: bool) -> None:
    """At every width the screen equals its recording."""
    parts = []
    for width in WIDTHS:
        lines = await drawn(name, width)
        parts.append("\n".join((f"{width} columns".ljust(width, "-"), *lines)))
    text = "\n\n".join(parts) + "\n"
    file = PICTURES / f"{name}.txt"
    if rewrite:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.mark.parametrize("size", [(1, 1), (20, 2), (33, 5), (59, 9), (200, 13)])
async def test_a_screen_fills_the_terminal(size: tuple[int, int]) -> None:
    """A screen has as many lines as the terminal, none of which is wider."""
    for name in ("at_maximum", "opened", "help"):
        lines = await drawn(name, *size)
        assert len(lines) == size[1]
        assert all(cell_len(line) <= size[0] for line in lines)


@pytest.mark.parametrize("width", WIDTHS)
async def test_full_and_almost_full_bars_differ(width: int) -> None:
    """73 %, 85 %, 99.9 % and 100 % have different bars, and a full queue has a note."""
    lines = await drawn("at_maximum", width)
    rows = [next(line for line in lines if f"{name} " in line) for name in ("a73", "b85", "c99")]
    full = next(line for line in lines if "e100 " in line)
    bars = [[sign for sign in row if sign in "█▒▏▎▍▌▋▊▉·│"] for row in (*rows, full)]
    assert len({tuple(bar) for bar in bars}) == len(bars)
    assert set(bars[-1]) == {"█"}
    assert "at max" in full
    assert not any("at max" in row for row in rows)


@pytest.mark.parametrize("snapshot", [ordinary, at_maximum, preempting, names])
def test_figures_name_their_resource(snapshot: Callable[[], Snapshot]) -> None:
    """Figures name their resource, however narrow the screen and however long the notes are."""
    nodes = rows(trees(snapshot()), Wanted())
    shown = queue_rows(nodes, "", frozenset())
    for width in range(1, 141):
        columns = {heading.plain for heading, _ in Table.of_queues(shown, width).headings()}
        assert "USED" not in columns or {"RES", "RESOURCE"} & columns, width


async def test_notes_are_cut_before_figures() -> None:
    """At 60 columns a queue's resource, usage and maximum are displayed, and its notes are cut."""
    lines = [line.split() for line in await drawn("at_maximum", 60)]
    over = next(row for row in lines if row[:1] == ["f120"])
    assert over[2:7] == ["120%", "cores", "48", "40", "over"]
    assert over[-1].endswith("…")
    pods = next(row for row in lines if row[:1] == ["i"])
    assert pods[2:] == ["100%", "pods", "3", "3", "at", "max"]


async def test_a_failure_replaces_the_status_line() -> None:
    """A failure is shown in place of the status, and the queues stay unchanged."""
    viewer = Viewer(ordinary(), failure=NotFoundError("no RM blue"))
    async with viewer.at():
        lines = await viewer.looks_again()
        assert re.fullmatch(r"no answer for \d+ s, trying again: no RM blue", lines[1])
        assert any("etl" in line for line in lines)


async def test_a_screen_without_all_its_parts_can_be_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick or a snapshot may arrive while some parts are not mounted yet, or were removed."""
    for kind in (Static, DataTable, Footer, Input):
        for moment in ("on_mount", "on_unmount"):
            monkeypatch.setattr(kind, moment, lambda part: part.app.show(), raising=False)
    assert await drawn("opened", 80)


async def test_a_server_without_rms_is_shown_as_such() -> None:
    """Without RMs the screen says that there are none."""
    async with Viewer(seen()).at() as viewer:
        assert "no RM has registered, so there are no queues" in viewer.lines


async def test_a_cluster_without_nodes_has_no_shares() -> None:
    """A cluster without nodes shows no share of capacity."""
    async with Viewer(seen(cluster("blue", [root(0, {}), queue("root.a", pending=3)]))).at() as viewer:
        row = next(line for line in viewer.lines if "  a " in line)
        assert " - " in row
