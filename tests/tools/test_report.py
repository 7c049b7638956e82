"""Tables and data made of measured runs."""

from dataclasses import replace

from licorne_tools.bench.report import as_json, overview
from licorne_tools.bench.scenarios import SCENARIOS, Asking, Wire

RUN = {"allocations_per_second": 1000.0, "cpu_us_per_allocation": 12.34, "requests": 7.0}


def test_a_line_has_each_figure_with_its_spread() -> None:
    """Columns that nobody fills are left out, and a figure that one lacks is a dash."""
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


def test_lines_say_how_checks_are_answered() -> None:
    """Where checks are answered; a scenario without them has dashes."""
    late = replace(SCENARIOS["predicates"], asking=Asking(tagged=False, delay=0.05))
    headers, rows = overview([(late, [RUN]), (SCENARIOS["core"], [RUN])])
    assert headers[5:8] == ["TAGGED", "REFUSED", "ANSWER AFTER"]
    assert [row[5:8] for row in rows] == [["no", "0%", "50 ms"], ["-", "-", "-"]]


def test_data_say_how_the_scenario_was_run() -> None:
    """Batch and wire of all scenarios, and of predicates how checks were answered."""
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
