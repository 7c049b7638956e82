"""The page on decisions: its tables have the form that `make decisions` writes, whatever the figures."""

import re
import sys
from collections.abc import Mapping
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from licorne_server.lab.simulation.figures import Figures
from licorne_server.lab.simulation.loads import LOADS
from licorne_server.lab.simulation.policies import POLICIES
from licorne_server.lab.simulation.traces.opening import FORMATS
from support.docs.pages import ROOT, Page, code_spans

PAGE = Page("docs/decisions.md")


def loaded(path: str) -> ModuleType:
    """A script beside a page, as a module."""
    spec = spec_from_file_location("decisions_of_docs", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


decisions = loaded("docs/decisions.py")
FEWEST = 5
"""Policies of each table."""
CELL = re.compile(r"[0-9][0-9,.]*( ?(d|h|m|s|%))?( [0-9]+(h|m|s))?")


def tables() -> Mapping[str, list[list[str]]]:
    """The cells of each table that is made, by its mark."""
    text = Page("docs/policies.md").path.read_text("utf-8")
    found = {}
    for made in decisions.TABLE.finditer(text):
        lines = [line for line in made[0].splitlines() if line.startswith("|")]
        found[made["name"]] = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return found


def test_every_table_is_there() -> None:
    """The page has a table for each load, and one of the policies."""
    assert [*tables()] == ["policies", *LOADS]


@pytest.mark.parametrize("name", LOADS)
def test_rows_are_policies_with_figures(name: str) -> None:
    """Each table has five policies of this core at least, and in each cell a mean, with its spread."""
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


def test_a_table_is_made_anew() -> None:
    """The text between two marks is replaced, and no other."""
    page = "before\n<!-- made: hpc -->\nold\n<!-- end -->\nafter\n"
    assert decisions.written(page, {"hpc": "| new |"}) == (
        "before\n<!-- made: hpc -->\n\n| new |\n<!-- end -->\nafter\n"
    )


def test_means_and_spreads() -> None:
    """A cell has the mean and the sample standard deviation; equal values have no spread."""
    assert decisions.cell([60.0, 120.0, 180.0], decisions.span) == "2m 00s ± 1m 00s"
    assert decisions.cell([0.0, 0.0], decisions.span) == "0s"
    numbers = dict.fromkeys(Figures.__dataclass_fields__, 1.0) | {"resource": "vcore"}
    one, other = Figures(**numbers), Figures(**{**numbers, "wait_mean": 3.0})  # type: ignore[arg-type]
    assert decisions.mean_of([one, other]).wait_mean == 2.0


def test_a_trace_of_a_user_is_played_beside_easy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each SWF file has a row for each policy on one node and on many; an empty folder is refused."""
    assert decisions.main(["--traces", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"decisions: {tmp_path} has no SWF files (*.swf, *.swf.gz)\n"
    rest = "-1 " * 7
    jobs = [f"{job} {job} -1 {9 - job} 2 -1 -1 2 20 -1 1 {rest}".strip() for job in range(1, 5)]
    (tmp_path / "a.swf").write_text("\n".join(["; MaxProcs: 4", *jobs]), encoding="utf-8")
    assert decisions.main(["--traces", str(tmp_path)]) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert rows == [
        f"| a.swf | `{policy}` | {shape} | 4 | 2.8, 2.8 s | 1.05, 1.05 | 0 |"
        for shape in ("1 × 4", "4 × 1")
        for policy in ("backfill-easy", "backfill-shortest")
    ]
