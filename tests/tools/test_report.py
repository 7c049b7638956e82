"""Figures with their spread, and the tables and data of runs and of pairs."""

from dataclasses import replace

import pytest

from licorne_tools.bench.installation import Build
from licorne_tools.bench.report import (
    Pairs,
    Side,
    Spread,
    as_json,
    brief,
    overview,
    pairs_as_json,
    pairs_table,
    times,
    turns,
)
from licorne_tools.bench.scenarios import SCENARIOS, Asking, Wire

RUN = {"allocations_per_second": 1000.0, "cpu_us_per_allocation": 12.34, "requests": 7.0}


def test_a_line_has_each_figure_with_its_spread() -> None:
    """Empty columns are left out, and a missing figure is a dash."""
    core1, idle = SCENARIOS["core1"], SCENARIOS["idle"]
    runs = [{**RUN, "cpu_us_per_allocation": cpu} for cpu in (9.0, 1.0, 2.0)]
    other = {name: value for name, value in RUN.items() if name != "requests"}
    headers, rows = overview([(core1, runs), (replace(idle, wire=Wire.SI), [other])])
    assert headers == [
        *("SCENARIO", "WIRE", "BATCH", "ASKS", "NODES"),
        *("ALLOCATIONS/S", "CPU US", "REQUESTS"),
    ]
    assert rows == [
        ["core1", "si", "1", "10,000", "5,000", "1,000", "2 (1 to 9)", "7"],
        ["idle", "si", "1,000", "10,000", "1,000", "1,000", "12.3", "-"],
    ]


def test_lines_of_predicates_have_the_kind_of_answer() -> None:
    """A scenario with checks has the kind of its answers, and others have dashes."""
    late = replace(SCENARIOS["predicates"], asking=Asking(tagged=False, delay=0.05))
    headers, rows = overview([(late, [RUN]), (SCENARIOS["core"], [RUN])])
    assert headers[5:8] == ["TAGGED", "REFUSED", "ANSWER AFTER"]
    assert [row[5:8] for row in rows] == [["no", "0%", "50 ms"], ["-", "-", "-"]]


def test_data_have_the_options_of_the_scenario() -> None:
    """Data have batch and protocol of all scenarios, and the kind of answers of predicates."""
    plain = as_json(SCENARIOS["shim1"], [RUN])
    assert (plain["batch"], plain["wire"]) == (1, "si")
    assert "tagged" not in plain
    asked = as_json(SCENARIOS["predicates"], [RUN])
    assert (asked["batch"], asked["wire"]) == (1000, "session")
    assert (asked["tagged"], asked["refused_percent"], asked["answer_after_seconds"]) == (
        True,
        10,
        0.0,
    )


def test_a_quoted_figure_has_its_spread() -> None:
    """The median precedes the minimum and the maximum."""
    assert Spread.of([30.12, 28.94, 29.4]).quoted() == "29.4 (28.9 to 30.1)"
    assert Spread.of([1.8, 2.0, 1.9, 1.9]).quoted(times) == "1.90 (1.80 to 2.00)"


def test_a_single_run_has_no_spread() -> None:
    """A single run is quoted as it is."""
    assert Spread.of([12.34]).quoted() == "12.3"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0"), (0.14449, "0.144"), (421.3, "421"), (1234.5, "1,234"), (50_000.0, "50,000")],
)
def test_figures_have_three_digits(value: float, shown: str) -> None:
    """Whole numbers are printed whole, and others to the digits above noise."""
    assert brief(value) == shown


THIS, OTHER = Side
BUILD = Build(version="0.1.0", form="pure", python="CPython", optimized=True, folder="core", commit="abc")


def pairs() -> Pairs:
    """Two pairs, and half of a third one."""
    return Pairs(
        this=[
            {"allocations_per_second": 200.0, "victims": 0.0, "mine": 1.0},
            {"allocations_per_second": 90.0, "victims": 3.0, "mine": 1.0},
            {"allocations_per_second": 1.0, "victims": 3.0, "mine": 1.0},
        ],
        other=[
            {"allocations_per_second": 100.0, "victims": 0.0},
            {"allocations_per_second": 60.0, "victims": 0.0},
        ],
    )


def test_builds_take_turns_in_coming_first() -> None:
    """A steady change of the machine affects both alike."""
    assert list(turns(3)) == [
        *((1, THIS), (1, OTHER)),
        *((2, OTHER), (2, THIS)),
        *((3, THIS), (3, OTHER)),
    ]


def test_a_ratio_is_that_of_a_pair() -> None:
    """Each run is divided by the one beside it, and a single run is left out."""
    assert pairs().ratios("allocations_per_second") == [2.0, 1.5]


def test_a_line_has_both_sides_and_the_ratio() -> None:
    """Each side has its spread; figures of one side only are left out, and a missing ratio is a dash."""
    headers, rows = pairs_table([(SCENARIOS["core"], pairs())])
    assert headers == ["MEASURE", "THIS", "OTHER", "RATIO"]
    assert rows == [
        ["allocations per second", "145 (90 to 200)", "80 (60 to 100)", "1.75 (1.50 to 2.00)"],
        ["victims", "1.50 (0 to 3)", "0", "-"],
    ]


def test_lines_of_several_scenarios_have_names() -> None:
    """The lines have the measures of an overview."""
    headers, rows = pairs_table([(SCENARIOS["core"], pairs()), (SCENARIOS["shim"], pairs())])
    assert headers[:5] == ["SCENARIO", "WIRE", "BATCH", "ASKS", "NODES"]
    assert [(row[0], row[5]) for row in rows] == [
        (name, "allocations per second") for name in ("core", "shim")
    ]


def test_data_have_every_pair() -> None:
    """Data have both builds, the runs by pair, and each ratio with its spread."""
    data = pairs_as_json(SCENARIOS["core"], pairs(), BUILD, BUILD)
    assert data["this"]["build"]["commit"] == "abc"
    assert [run["allocations_per_second"] for run in data["other"]["runs"]] == [100, 60]
    assert data["ratios"] == {
        "allocations_per_second": {"pairs": [2, 1.5], "min": 1.5, "median": 1.75, "max": 2}
    }
