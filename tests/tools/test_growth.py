"""`licorne bench growth`: the output for given figures, and failures.

Nothing here depends on speed; the tests of the measured worlds are in another file.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from licorne_cli.commands import main
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth import measure
from licorne_tools.bench.growth.catalogue import ALL, LEAST_ROUNDS, MOST_ROUNDS, best
from licorne_tools.bench.growth.measure import Growth, Point, allowed, grown
from licorne_tools.bench.growth.report import FASTER, HEADERS, as_json, section, table
from licorne_tools.bench.growth.world import Cost
from licorne_tools.bench.installation import this_build

FIRST = ALL[0]


def point(size: int, us: float, ask_us: float = 3.0) -> Point:
    """A size with this cost."""
    return Point(size=size, rounds=3, allocations=10, us_per_allocation=us, asks=10, us_per_ask=ask_us)


def growth(*costs: float, asks: tuple[float, ...] = (3.0, 3.0, 3.0)) -> Growth:
    """A dimension with these costs at sizes 100, 1,000 and 10,000."""
    points = zip((100, 1_000, 10_000), costs, asks, strict=True)
    return Growth(FIRST, tuple((point(*each),) for each in points))


@pytest.fixture
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every size of every dimension cost the same."""
    monkeypatch.setattr(measure, "measured", lambda _, size: point(size, 20.0))


@pytest.mark.parametrize(
    ("first", "last", "factor"), [(100, 10_000, 2.0), (1, 10, 1.5), (1, 1_000, 2.5), (7, 7, 1.0)]
)
def test_each_tenfold_may_add_half_of_the_first_cost(first: int, last: int, factor: float) -> None:
    """The allowed growth is that of log n from 100 on."""
    assert allowed(first, last) == pytest.approx(factor)


@pytest.mark.parametrize(
    ("found", "cells"),
    [
        (growth(10.0, 15.0, 20.0), ("2.00", "1.00", "yes")),
        (growth(10.0, 15.0, 20.1), ("2.01!", "1.00", "no")),
        (growth(10.0, 16.0, 12.0), ("1.20!", "1.00", "no")),
        (growth(10.0, 9.0, 8.0, asks=(3.0, 4.0, 7.0)), ("0.80", "2.33!", "no")),
    ],
)
def test_growth_faster_than_log_n_is_marked(found: Growth, cells: tuple[str, ...]) -> None:
    """Allocations and asks have a factor each, and the line says no if any size exceeds it."""
    [line] = table([found])
    assert (line[5], line[9], line[10]) == cells


def test_a_dimension_without_asks_is_judged_by_its_allocations() -> None:
    """The cells of asks of such a dimension are empty."""
    points = tuple(replace(each, asks=0, us_per_ask=0.0) for each in growth(1.0, 1.0, 1.0).points)
    [line] = table([Growth(FIRST, tuple((each,) for each in points))])
    assert line[6:] == ["-", "-", "-", "-", "yes"]


@pytest.mark.usefixtures("_measured")
def test_the_table_has_a_line_for_each_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    """The table has all dimensions in order, and progress is printed meanwhile."""
    assert main(["bench", "growth"]) == 0
    shown = capsys.readouterr()
    title, headers, *rows = shown.out.splitlines()
    assert title.startswith("growth: ")
    assert headers.split()[0] == HEADERS[0]
    assert [row.split()[0] for row in rows] == [dimension.name for dimension in ALL]
    assert f"{FIRST.name} {FIRST.sizes[0]:,}: 20.0 µs per allocation" in shown.err


@pytest.mark.usefixtures("_measured")
def test_json_has_every_dimension(capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON is an array with points, factors and allowed growth."""
    assert main(["bench", "growth", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found] == [dimension.name for dimension in ALL]
    assert [point["size"] for point in found[0]["points"]] == list(FIRST.sizes)
    assert (found[0]["factor"], found[0]["ask_factor"], found[0]["allowed"]) == (1, 1, 2)
    assert found[0]["holds"] is True
    assert found[0]["environment"]["build"]["form"] in ("pure", "compiled")


@pytest.mark.usefixtures("_measured")
def test_selected_dimensions_are_in_the_usual_order(capsys: pytest.CaptureFixture[str]) -> None:
    """The order is that of the whole list, whatever the order of the names."""
    assert main(["bench", "growth", "--only", "gangs,asks", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found] == ["asks", "gangs"]


def test_the_page_explains_its_table() -> None:
    """The meanings of names are below the table, with a note of dimensions that grow faster than log n."""
    noted = replace(FIRST, note="Heaps grow deeper.")
    text = section([Growth(noted, growth(10.0, 20.0, 30.0).runs)], this_build(), "again").text
    assert f"| {FIRST.name} | 100 → 1,000 → 10,000 | 10.0 | 20.0 | 30.0 | 3.00{FASTER} |" in text
    assert f"- `{FIRST.name}`: {FIRST.about}." in text
    assert f"- `{FIRST.name}`: Heaps grow deeper." in text
    assert ".svg" not in text
    assert "the least of all rounds and runs" in " ".join(text.split())
    assert "\nagain\n" in text
    calm = section([Growth(noted, growth(10.0, 10.0, 10.0).runs)], this_build(), "again").text
    assert "Heaps" not in calm


@pytest.mark.slow
@pytest.mark.usefixtures("_measured")
def test_a_report_has_a_page_and_a_picture(tmp_path: Path) -> None:
    """The folder is created; the page has the picture and the name of each dimension."""
    folder = tmp_path / "some" / "where"
    assert main(["bench", "growth", "--report", str(folder), "--pictures"]) == 0
    text = (folder / "performance.md").read_text()
    assert "\n## Growth\n" in text
    assert "(performance-growth.svg)" in text
    picture = (folder / "performance-growth.svg").read_text()
    assert all(dimension.name in picture for dimension in ALL)


@pytest.mark.usefixtures("_measured")
def test_a_report_has_its_command(tmp_path: Path) -> None:
    """The page has the command that writes it again, with the number of runs."""
    assert main(["bench", "growth", "--runs", "2", "--report", str(tmp_path)]) == 0
    text = (tmp_path / "performance.md").read_text()
    assert f"\nlicorne bench growth --runs 2 --report {tmp_path}\n" in text


@pytest.mark.parametrize(
    ("failure", "code"), [(BenchError("the world ended"), 2), (KeyboardInterrupt(), 130)]
)
def test_an_incomplete_report_is_not_written(
    failure: BaseException,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """If a dimension fails, measurements are printed, and the existing section is unchanged."""

    def measured(name: str, size: int) -> Point:
        if name == ALL[-1].name:
            raise failure
        return point(size, 20.0)

    monkeypatch.setattr(measure, "measured", measured)
    page = tmp_path / "performance.md"
    page.write_text("## Growth\n\nmuch\n")
    assert main(["bench", "growth", "--report", str(tmp_path)]) == code
    assert FIRST.name in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == [page.name]
    assert page.read_text() == "## Growth\n\nmuch\n"


def test_a_failure_does_not_stop_other_dimensions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure is printed with the other lines, and with its exit code."""

    def measured(name: str, size: int) -> Point:
        if name == "nodes":
            raise BenchError("nodes 200: 0 of 1 allocations were made")
        return point(size, 20.0)

    monkeypatch.setattr(measure, "measured", measured)
    assert main(["bench", "growth"]) == 2
    shown = capsys.readouterr()
    assert "licorne: nodes 200: 0 of 1 allocations were made\n" in shown.err
    named = [row.split()[0] for row in shown.out.splitlines()[2:]]
    assert named == [dimension.name for dimension in ALL if dimension.name != "nodes"]


def test_the_least_figure_of_several_runs_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each figure is the least of its own runs; the sizes are measured in turn."""
    costs = iter([(9.0, 3.0), (9.0, 3.0), (9.0, 3.0), (8.0, 4.0), (10.0, 2.0), (9.0, 3.0)])
    asked: list[int] = []

    def measured(_: str, size: int) -> Point:
        asked.append(size)
        return point(size, *next(costs))

    monkeypatch.setattr(measure, "measured", measured)
    both = grown(FIRST, runs=2)
    found = both.points
    assert asked == [*FIRST.sizes, *FIRST.sizes]
    assert [(each.us_per_allocation, each.us_per_ask) for each in found] == [
        (8.0, 3.0),
        (9.0, 2.0),
        (9.0, 3.0),
    ]
    assert [each.rounds for each in found] == [6, 6, 6]
    spreads = [each["us_per_allocation_of_runs"] for each in as_json(both)["points"]]
    assert [(spread["min"], spread["max"]) for spread in spreads] == [(8, 9), (9, 10), (9, 9)]


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "rounds"), [(10.0, LEAST_ROUNDS), (0.25, 4), (0.0, MOST_ROUNDS)])
def test_short_rounds_are_repeated_more_often(seconds: float, rounds: int) -> None:
    """Short rounds are repeated until they have taken long enough together, up to a bound."""
    cost = Cost(asks=10, taking=seconds / 2, allocations=10, deciding=seconds / 2)
    assert best(replace(FIRST, measure=lambda _, __: cost), 1, 1)["rounds"] == rounds


@pytest.mark.slow
def test_the_shortest_of_several_rounds_counts() -> None:
    """The shortest round counts separately for allocations and asks."""
    costs = iter(
        Cost(asks=10, taking=taking, allocations=10, deciding=deciding)
        for taking, deciding in ((1.0, 9.0), (2.0, 7.0), (3.0, 8.0))
    )
    found = best(replace(FIRST, measure=lambda _, __: next(costs)), 1, 1)
    assert (found["us_per_ask"], found["us_per_allocation"]) == (1e5, 7e5)


@pytest.mark.slow
def test_each_size_has_a_process() -> None:
    """A size is measured in a process of its own, whose figures are returned."""
    found = measure.measured("gangs", 2)
    assert (found.size, found.allocations, found.asks) == (2, 40, 40)
    assert found.us_per_allocation > 0
    assert found.us_per_ask > 0


@pytest.mark.slow
def test_a_failed_process_is_reported() -> None:
    """An unknown dimension ends the process at once, with a message."""
    with pytest.raises(BenchError, match="nothing 1: the process ended with 1"):
        measure.measured("nothing", 1)


def test_a_slow_process_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the size, and others can be measured."""
    monkeypatch.setattr(measure, "LIMIT_SECONDS", 0.0)
    with pytest.raises(BenchError, match="gangs 1,000: not done after 0 s"):
        measure.measured("gangs", 1000)
