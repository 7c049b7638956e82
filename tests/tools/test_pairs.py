"""Two servers measured in turn: whose turn it is, and what is made of the figures."""

from licorne_tools.bench.installation import Build
from licorne_tools.bench.pairs import Pairs, Side, as_json, table, turns
from licorne_tools.bench.scenarios import SCENARIOS

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


def test_each_comes_first_in_turn() -> None:
    """What changes steadily on the machine costs both alike."""
    assert list(turns(3)) == [
        *((1, THIS), (1, OTHER)),
        *((2, OTHER), (2, THIS)),
        *((3, THIS), (3, OTHER)),
    ]


def test_ratios_are_those_of_pairs() -> None:
    """Each run is divided by the one beside it; a run alone is left out."""
    assert pairs().ratios("allocations_per_second") == [2.0, 1.5]


def test_a_line_has_both_sides_and_the_ratio() -> None:
    """Each with its spread; what only one side has is left out, and no ratio is a dash."""
    headers, rows = table([(SCENARIOS["core"], pairs())])
    assert headers == ["MEASURE", "THIS", "OTHER", "RATIO"]
    assert rows == [
        ["allocations per second", "145 (90 to 200)", "80 (60 to 100)", "1.75 (1.50 to 2.00)"],
        ["victims", "1.50 (0 to 3)", "0", "-"],
    ]


def test_lines_of_several_scenarios_name_them() -> None:
    """They have the measures of an overview."""
    headers, rows = table([(SCENARIOS["core"], pairs()), (SCENARIOS["shim"], pairs())])
    assert headers[:5] == ["SCENARIO", "WIRE", "BATCH", "ASKS", "NODES"]
    assert [(row[0], row[5]) for row in rows] == [
        (name, "allocations per second") for name in ("core", "shim")
    ]


def test_data_have_every_pair() -> None:
    """Both builds, the runs in the order of the pairs, and each ratio with its spread."""
    data = as_json(SCENARIOS["core"], pairs(), BUILD, BUILD)
    assert data["this"]["build"]["commit"] == "abc"
    assert [run["allocations_per_second"] for run in data["other"]["runs"]] == [100, 60]
    assert data["ratios"] == {
        "allocations_per_second": {"pairs": [2, 1.5], "min": 1.5, "median": 1.75, "max": 2}
    }
