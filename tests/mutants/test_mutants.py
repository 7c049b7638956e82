"""The planted defects apply to the present sources; `make mutants` shows whether tests detect them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.defect import Defect, DoesNotApply
from mutants.operators import Operator, drop, negate, never, returns, swap, without
from mutants.planted import ALL
from mutants.table import KILLED, NO_VERDICT, SURVIVED, Table

ROOT = Path(__file__).resolve().parent.parent.parent
SOURCE = '''\
class Door:
    def opens(self, key, lock=None):
        """Whether it opens."""
        if key is None:
            raise ValueError
        if lock and key < lock or self.is_ajar:
            self.note(key)
        return min(key, 3) + self.age
'''


def test_names_of_defects_are_distinct() -> None:
    """No two defects have the same name, and each has a description."""
    assert len({defect.name for defect in ALL}) == len(ALL)
    assert all(defect.wrong for defect in ALL)


@pytest.mark.parametrize("defect", ALL, ids=lambda defect: defect.name)
def test_every_defect_can_be_planted(defect: Defect) -> None:
    """Each defect has exactly one place, the source parses with the defect, and its tests exist."""
    path, changed = defect.changed(ROOT)
    assert changed != path.read_text(encoding="utf-8")
    assert defect.tests_in(ROOT)


@pytest.mark.parametrize(
    ("operator", "before", "after"),
    [
        (swap("<", "<="), "key < lock", "key <= lock"),
        (swap("is None", "is not None"), "key is None", "key is not None"),
        (swap("min", "max"), "min(key, 3)", "max(key, 3)"),
        (never("is_ajar"), "if lock and key < lock or self.is_ajar", "if False"),
        (negate("None"), "if key is None", "if not (key is None)"),
        (returns("0"), "return min(key, 3) + self.age", "return 0"),
        (drop("note"), "self.note(key)", "pass"),
        (drop("ValueError"), "raise ValueError", "pass"),
        (without("is_ajar"), "lock and key < lock or self.is_ajar", "(lock and key < lock)"),
        (without("age"), "min(key, 3) + self.age", "(min(key, 3))"),
        (without("3"), "min(key, 3)", "min(key)"),
    ],
    ids=lambda value: value.shown if isinstance(value, Operator) else "",
)
def test_an_operator_changes_one_place(tmp_path: Path, operator: Operator, before: str, after: str) -> None:
    """Each operator makes exactly its change."""
    defect = planted_in(tmp_path, SOURCE, "Door.opens", operator)
    assert defect.changed(tmp_path)[1] == SOURCE.replace(before, after)


def test_nth_selects_one_of_several_places(tmp_path: Path) -> None:
    """If an operator applies to several places, the defect has the number of the place, from 1."""
    defect = planted_in(tmp_path, SOURCE, "Door.opens", swap("key", "lock"), nth=4)
    assert defect.changed(tmp_path)[1] == SOURCE.replace("note(key)", "note(lock)")


@pytest.mark.parametrize(
    ("where", "operator", "problem"),
    [
        ("Door.shuts", drop("note"), "Door.shuts is defined in no file"),
        ("opens", drop("note"), "opens is defined in no file"),
        ("Door.opens", drop("knock"), "has 0 places where the statement with knock is left out"),
        ("Door.opens", swap("key", "lock"), "has 5 places where key becomes lock"),
        ("Door.opens", swap("<", "("), "Door.opens does not parse if < becomes ("),
    ],
)
def test_a_misplaced_defect_is_reported(tmp_path: Path, where: str, operator: Operator, problem: str) -> None:
    """A defect whose place is missing or ambiguous is reported, not skipped."""
    defect = planted_in(tmp_path, SOURCE, where, operator)
    with pytest.raises(DoesNotApply) as refused:
        defect.plant(tmp_path)
    assert problem in str(refused.value)


def test_a_module_distinguishes_functions_of_the_same_name(tmp_path: Path) -> None:
    """Of two functions with the same name, a prefix with the module or folder selects one."""
    for name in ("doors", "windows"):
        file = tmp_path / "core/licorne_core" / name / "parts.py"
        file.parent.mkdir(parents=True)
        file.write_text("def opens():\n    return True\n", encoding="utf-8")
    either = Defect("slip", "opens", returns("False"), "it is shut", ("test_file",))
    with pytest.raises(DoesNotApply, match=r"opens is defined in .*doors.*, .*windows"):
        either.plant(tmp_path)
    one = Defect("slip", "windows:opens", returns("False"), "it is shut", ("test_file",))
    assert one.plant(tmp_path)[0].parent.name == "windows"


def test_a_planted_defect_takes_effect_at_once(tmp_path: Path) -> None:
    """Python runs the changed file even if it compiled the former one in the same second."""
    defect = planted_in(tmp_path, "x = 1\n", "x", swap("1", "2"))
    folder = tmp_path / "core/licorne_core"
    shown = [sys.executable, "-c", "import file; print(file.x)"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def printed() -> str:
        return subprocess.check_output(shown, cwd=folder, env=env, text=True)

    before = printed()
    assert defect.plant(tmp_path) == (folder / "file.py", "x = 1\n")
    assert (before, printed()) == ("1\n", "2\n")


def test_a_stopped_run_continues_with_its_table(tmp_path: Path) -> None:
    """A verdict is written at once and known to the next run; a defect without a verdict is tried again."""
    file = tmp_path / "table.tsv"
    stopped = Table(file)
    stopped.add("slip", KILLED, ["tests/test_one.py::test_it", "tests/test_two.py::test_it"])
    stopped.add("error", NO_VERDICT, [])
    Table(file).add("lapse", SURVIVED, [])
    assert Table(file).verdicts == {"slip": KILLED, "lapse": SURVIVED}
    assert file.read_text(encoding="utf-8").splitlines() == [
        "slip\tkilled\ttests/test_one.py::test_it",
        "slip\tkilled\ttests/test_two.py::test_it",
        "lapse\tsurvived\t-",
    ]


def planted_in(tree: Path, source: str, where: str, operator: Operator, nth: int | None = None) -> Defect:
    """A defect in a tree that has only one file, with this source."""
    file = tree / "core/licorne_core/file.py"
    file.parent.mkdir(parents=True)
    file.write_text(source, encoding="utf-8")
    return Defect("slip", where, operator, "it is wrong", ("test_file",), nth)
