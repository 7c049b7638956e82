"""Every scenario file is played, and the effects of the core are compared with the file."""

from pathlib import Path

import pytest

from licorne_core.extensions import NAMES
from scenarios.stage import Line, Stage
from scenarios.transcript import extensions_of, read, rows_of, sections_of
from scenarios.verbs import VERBS
from support.core.builders import RM

_ALL = sorted(Path(__file__).parent.glob("*.txt"))
FILES = [path for path in _ALL if {*NAMES}.issuperset(extensions_of(path))]
SECTIONS = {*range(1, 14)}
"""Sections of the specification whose behaviour RMs and administrators can observe."""

SILENCE = "(nothing)"

SAID_BY = {"autoscaler": "no node takes "}
"""By extension, the beginning of lines that are printed only if the extension exists."""


def said(stage: Stage, command: str, text: str) -> str:
    """Output of one command; ``as RM`` in front of a verb selects the RM."""
    line = Line.read(command, text)
    if line.words[0] == "as":
        stage.rm = line.words[1]
        del line.words[:2]
    else:
        stage.rm = RM
    verb = line.words.pop(0)
    return "\n".join(VERBS[verb](stage, line)) or SILENCE


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=pytest.mark.row(*rows_of(p))) for p in FILES]
)
def test_scenario(path: Path, *, rewrite: bool) -> None:
    """The effects of the core equal the expected ones, line by line."""
    stage = Stage()
    blocks = read(path)
    played = [
        block.render(said(stage, block.command, block.text) if block.command else "") for block in blocks
    ]
    if rewrite:
        path.write_text("\n\n".join(played) + "\n", encoding="utf-8")
    expected = [block.render(_without_absent(block.expected)) for block in blocks]
    assert "\n\n".join(played) == "\n\n".join(expected)


def _without_absent(expected: str) -> str:
    """The expected text, without lines of missing extensions."""
    absent = tuple(line for name, line in SAID_BY.items() if name not in NAMES)
    kept = [line for line in expected.splitlines() if not (absent and line.startswith(absent))]
    return "\n".join(kept) if kept or not expected else SILENCE


def test_every_section_has_a_scenario() -> None:
    """Each observable section of the specification is shown in at least one file."""
    shown = {path.stem: sections_of(path) for path in FILES}
    assert all(shown.values()), f"no line `# spec:` in {[s for s, found in shown.items() if not found]}"
    assert {section for found in shown.values() for section in found} >= SECTIONS


def test_every_scenario_is_in_the_readme() -> None:
    """The table of questions in the README of the tests names every scenario file."""
    readme = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    assert [path.stem for path in FILES if f"`{path.stem}`" not in readme] == []
