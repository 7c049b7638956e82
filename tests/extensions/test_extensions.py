"""Each extension is a folder that no other code names, and all other features work without it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_core.extensions import NAMES
from licorne_core.points import POINTS, Extension
from licorne_server.reads.reports import EMPTY
from support.core.builders import config, register
from support.core.driver import Driver
from support.docs.pages import ROOT

WORDS = {
    "ageing": r"ageing|AgeClock|\bAges\b",
    "autoscaler": r"[aA]utoscaler|Outstanding_?[sS]|outstanding_s|Inspection|INSPECT|ContainerStatesChanged",
    "backfill": r"[bB]ackfill(?!-|: easy|(\.order)?\": \"| of b)|[sS]hadow|START_BY|"
    r"Planned(Room|Starts)|\bStartRequest|ExpectedEnds|CalendarEntry",
    "budgets": r"extensions\.budgets|SetBudget|\bBudget(Book|Check|Quota|Report|Tree)|BUDGET_EXCEEDED",
    "notice": r"[nN]otice(?!d)|NOTICE(?!D)",
    "quota_change": r"quota_change|Quota(Change|Clock|Terms)|[qQ]uota.?[pP]reemption|Enforcement",
    "stops": r"extensions\.stops|StopApplication|ApplicationStop|STOPPED_BY_OPERATOR",
    "hours": r"extensions\.hours|Hours(Book|Budget|Left|Limit|Report|Spent)|KeptHours|[hH]ours_?[bB]udgets|"
    r"BUDGET_(AVAILABLE|EXHAUSTED)|budgets? of (resource-)?hours",
    "topology": r"[lL]ost_?[pP]lace|swap.?seconds|read_(topology|slice)|licorne/slice|ListTopology|"
    r"topology_levels|Topology|topology level|(?<!sub)[dD]omain(?!=|\.PUBLIC)|gang slices?\b|"
    r"slice_(level|depth)",
    "fair_memory": r"fair_memory|Fair(Memory|Share)|\bDecayed\b|KeptUsage|UsageOwner|UserShares|half_life",
    "drains": r"extensions\.drains|Cordon\b|Drain(s|Terms|Report|Node)\b|NodeDrain|NodeSchedulable",
    "holds": r"extensions\.holds|(Hold|Change)Application|Application(Held|Changed|Marks)|MarksEnded",
    "queue_stops": r"queue_stops|SetQueueStopped|QueueStop(s|ped)",
    "back_off": r"\"back_off\"|\.back_off\b|\bbackoff_(until|threshold|delay)|BackOffs?\b|APPLICATION_BACKS",
    "state_aware": r"state.?aware|StateAware|STATE_AWARE|StartingCheck|ANOTHER_APPLICATION_STARTS",
    "elastic": r"[eE]lastic|ELASTIC|GANG_(MIN|MAX|STEP)|gang-(min|max|step)",
    "opening_hours": r"opening[_.]hours|Opening(Clock|Hours)|ClosedLeaf|QUEUE_CLOSED",
}
"""Patterns of the names of an extension in code."""
ASKED_FOR = {"budgets", "notice"}
"""Extensions whose commands come from the server's own callers, so that the server names them."""
TABLES = ("core/licorne_core/extensions/__init__.py", "server/licorne_server/wire/features.py")
NEEDS: set[tuple[str, str]] = set()
"""Pairs of an extension and another one that it imports."""
SCENARIOS = ROOT / "tests/scenarios"
DRAWN = re.compile(r"^# extensions: (.*)$", re.MULTILINE)
PLAYING = """
import sys
import {imported}
from scenarios.test_scenarios import FILES, test_scenario
print(sys.modules["licorne_core"].__file__)
for path in FILES:
    if not sys.argv[1:] or path.stem in sys.argv[1:]:
        print(path.stem)
        test_scenario(path, rewrite=False)
"""
"""A program that plays the named scenarios, or all of them, and prints their names."""
METHODS = [
    name for name in vars(Extension) if not name.startswith("_") and callable(getattr(Extension, name))
]
TABLES_OF_ONE = ("handlers", "keys", "reports", "rules", "shared")
"""Modules of an extension whose tables are extension points as well."""


def test_every_field_of_an_answer_is_filled() -> None:
    """With all extensions every field of an answer is filled; without one its fields are empty."""
    assert EMPTY == []


def test_the_search_for_names_covers_every_extension() -> None:
    """The table of names has every extension, in the order of the extensions."""
    assert tuple(WORDS) == NAMES


def test_the_number_of_points_is_bounded() -> None:
    """There are at most 12 points, each of which lists its methods."""
    assert sorted(name for names in POINTS.values() for name in names) == sorted([*METHODS, *TABLES_OF_ONE])
    assert len(POINTS) <= 12


def test_a_point_calls_only_extensions_that_override_it() -> None:
    """Each point has the tuple of the extensions that override it; only `work` is called by a timer."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")))
    partition = driver.partition
    for point in {*METHODS} - {"work"}:
        taking_part = [each for each in partition.points.all if point in vars(type(each))]
        assert [*getattr(partition.points, point)] == taking_part, point


@pytest.mark.parametrize("name", NAMES)
def test_an_extension_is_named_only_in_its_folder(name: str) -> None:
    """Only its folder and the tables name an extension; the server may also name each one in ASKED_FOR."""
    own = [ROOT / "core/licorne_core/extensions" / name]
    own += [ROOT / "server/licorne_server/extensions" / each for each in (f"{name}.py", name)]
    found = [
        str(path.relative_to(ROOT))
        for root in ("core/licorne_core", "server/licorne_server")[: 1 if name in ASKED_FOR else 2]
        for path in sorted((ROOT / root).rglob("*.py"))
        if not any(map(path.is_relative_to, own)) and re.search(WORDS[name], path.read_text(encoding="utf-8"))
    ]
    assert [one for one in found if one not in TABLES] == []


def test_imports_between_extensions_are_listed() -> None:
    """Every import of one extension by another is listed in `NEEDS`, which has at most four pairs."""
    folders = ROOT / "core/licorne_core/extensions"
    found = {
        (own, other)
        for own in NAMES
        for path in (folders / own).rglob("*.py")
        for other in re.findall(r"licorne_core\.extensions\.(\w+)", path.read_text(encoding="utf-8"))
        if other != own
    }
    assert found == NEEDS
    assert len(NEEDS) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("names", [*((name,) for name in NAMES), NAMES], ids=[*NAMES, "all"])
def test_scenarios_of_other_features_pass_without_extensions(names: tuple[str, ...], tmp_path: Path) -> None:
    """If folders of extensions and their lines in the table are deleted, all other scenarios pass.

    Without one extension, scenarios that use other extensions are played; without all, those that use none.
    Budgets are the only extension without which the server cannot be imported.
    """
    copy = tmp_path / "copy"
    for package in ("core/licorne_core", "server/licorne_server"):
        place = copy / Path(package).name
        shutil.copytree(ROOT / package, place, ignore=shutil.ignore_patterns("*.so"))
        table = place / ("extensions/__init__.py" if package.startswith("core") else "wire/features.py")
        text = table.read_text(encoding="utf-8")
        for name in names:
            shutil.rmtree(place / "extensions" / name, ignore_errors=True)
            (place / "extensions" / f"{name}.py").unlink(missing_ok=True)
            text = text.replace(f'"{name}",', "")
        table.write_text(text, encoding="utf-8")
    imported = "licorne_core" if "budgets" in names else "licorne_server.assembly.server"
    wanted = _drawing_others(names[0]) if len(names) == 1 else []
    done = subprocess.run(
        [sys.executable, "-c", PLAYING.format(imported=imported), *wanted],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(copy), str(ROOT / "tests")))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    core, *played = done.stdout.splitlines()
    assert core.startswith(str(copy))
    assert (played == sorted(wanted)) if wanted else played


def _drawing_others(name: str) -> list[str]:
    """The scenarios that need other extensions, and not this one."""
    texts = {path.stem: path.read_text(encoding="utf-8") for path in SCENARIOS.glob("*.txt")}
    drawn = {stem: DRAWN.search(text) for stem, text in texts.items()}
    return [stem for stem, found in drawn.items() if found and name not in found[1].split(", ")]
