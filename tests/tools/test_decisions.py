"""`make decisions`: the script that measures the policies and writes the tables of their page."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from licorne_server.lab.simulation.figures import Figures
from support.docs.pages import ROOT


def loaded(path: str) -> ModuleType:
    """A script beside a page, as a module."""
    spec = spec_from_file_location("decisions_of_docs", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


decisions = loaded("docs/decisions.py")


def test_a_table_is_replaced() -> None:
    """The text between two marks is replaced, and no other text."""
    page = "before\n<!-- made: hpc -->\nold\n<!-- end -->\nafter\n"
    assert decisions.written(page, {"hpc": "| new |"}) == (
        "before\n<!-- made: hpc -->\n\n| new |\n<!-- end -->\nafter\n"
    )


def test_means_and_spreads() -> None:
    """A cell has the mean and the sample standard deviation; equal values have no deviation."""
    assert decisions.cell([60.0, 120.0, 180.0], decisions.span) == "2m 00s ± 1m 00s"
    assert decisions.cell([0.0, 0.0], decisions.span) == "0s"
    numbers = dict.fromkeys(Figures.__dataclass_fields__, 1.0) | {"resource": "vcore"}
    one, other = Figures(**numbers), Figures(**{**numbers, "wait_mean": 3.0})  # type: ignore[arg-type]
    assert decisions.mean_of([one, other]).wait_mean == 2.0


def test_a_trace_of_a_user_is_compared_with_easy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each SWF file has rows, in which its job of 50 s is stopped after 20; an empty folder is refused."""
    assert decisions.main(["--traces", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"decisions: {tmp_path} has no SWF files (*.swf, *.swf.gz)\n"
    rest = "-1 " * 7
    jobs = [f"{at} {at} -1 {ran} 2 -1 -1 2 20 -1 1 {rest}".strip() for at, ran in enumerate((8, 7, 6, 50, 0))]
    (tmp_path / "a.swf").write_text("\n".join(["; MaxProcs: 4", *jobs]), encoding="utf-8")
    assert decisions.main(["--traces", str(tmp_path)]) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert rows == [
        f"| a.swf | `{policy}` | {shape} | 4 | 2.8, 2.8 s | 1.11, 1.11 | - | 0 |"
        for shape in ("1 × 4", "4 × 1")
        for policy in ("backfill-easy", "backfill-shortest")
    ]
