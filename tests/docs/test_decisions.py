"""The page on decisions: its tables have the form of `make decisions`, whatever the figures."""

import re
from collections.abc import Mapping

import pytest

from licorne_server.lab.simulation.loads import LOADS
from licorne_server.lab.simulation.policies import POLICIES
from licorne_server.lab.simulation.traces.opening import FORMATS
from support.docs.pages import Page, code_spans

PAGE = Page("docs/decisions.md")
FEWEST = 5
"""The minimum of policies in each table."""
MADE = re.compile(r"<!-- made: (?P<name>[a-z]+) -->\n(.*?)<!-- end -->", re.DOTALL)
CELL = re.compile(r"[0-9][0-9,.]*( ?(d|h|m|s|%))?( [0-9]+(h|m|s))?")


def tables() -> Mapping[str, list[list[str]]]:
    """The cells of each table that is made, by its mark."""
    text = Page("docs/policies.md").path.read_text("utf-8")
    found = {}
    for made in MADE.finditer(text):
        lines = [line for line in made[0].splitlines() if line.startswith("|")]
        found[made["name"]] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return found


def test_every_load_has_a_table() -> None:
    """The page has a table for each load, and one of the policies."""
    assert [*tables()] == ["policies", *LOADS]


@pytest.mark.parametrize("name", LOADS)
def test_rows_are_policies_with_figures(name: str) -> None:
    """Each table has at least five policies of this core, and in each cell a mean with its spread."""
    header, _, *rows = tables()[name]
    assert header[0] == "Policy"
    assert {"Mean wait", "p50", "p99", "Slowdown", "Used", "Below guarantee", "Lost work", "Makespan"} <= {
        *header
    }
    policies = [row[0].strip("`") for row in rows]
    assert len({*policies}) == len(policies) >= FEWEST
    assert {*policies} <= {*POLICIES}
    for row in rows:
        assert len(row) == len(header)
        for cell in row[1:]:
            mean, _, spread = cell.partition(" ± ")
            assert CELL.fullmatch(mean), cell
            assert not spread or CELL.fullmatch(spread), cell


def test_policies_are_described() -> None:
    """The page describes each policy in the words of the code."""
    rows = {row[0].strip("`"): row[1:] for row in tables()["policies"][2:]}
    assert {*rows} <= {*POLICIES}
    for name, (meaning, properties) in rows.items():
        assert meaning == POLICIES[name].summary
        assert code_spans(properties) == [
            f"{key}: {value}" for key, value in POLICIES[name].properties.items()
        ]


def test_formats_are_described() -> None:
    """The page has every format of traces."""
    assert [code_spans(row[0])[0] for row in PAGE.table("Traces")] == [*FORMATS]
