"""The planted defects fit the sources as they are; whether tests notice, `make mutants` tells."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.defect import Defect, DoesNotApply
from mutants.planted import ALL

ROOT = Path(__file__).resolve().parent.parent.parent


def test_names_tell_defects_apart() -> None:
    """No two defects have one name, and each says what is wrong."""
    assert len({defect.name for defect in ALL}) == len(ALL)
    assert all(defect.wrong for defect in ALL)


@pytest.mark.parametrize("defect", ALL, ids=lambda defect: defect.name)
def test_every_defect_can_be_planted(defect: Defect) -> None:
    """The old text occurs once, the new one parses, and the tests that must notice are there."""
    assert defect.changed(ROOT) != (ROOT / defect.file).read_text(encoding="utf-8")
    assert defect.tests
    for test in defect.tests:
        file, _, function = test.partition("::")
        assert (ROOT / file).is_file(), test
        assert f"def {function.partition('[')[0]}" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x = 1", "x = 2", "file.py has 2 times 'x = 1'"),
        ("y = 1", "y = 2", "file.py has 0 times 'y = 1'"),
        ("z = 1", "z = (", "file.py does not parse"),
    ],
)
def test_what_does_not_apply_is_named(tmp_path: Path, old: str, new: str, problem: str) -> None:
    """A defect whose place has changed is reported, not passed over."""
    (tmp_path / "file.py").write_text("x = 1\nx = 1\nz = 1\n", encoding="utf-8")
    defect = Defect("slip", "file.py", old, new, "it is wrong", ("test_file.py",))
    with pytest.raises(DoesNotApply) as refused:
        defect.plant(tmp_path)
    assert str(refused.value).startswith(problem)


def test_a_planted_defect_is_there_at_once(tmp_path: Path) -> None:
    """Python runs the changed file even if it has compiled the former one in the same second."""
    (tmp_path / "file.py").write_text("x = 1\n", encoding="utf-8")
    shown = [sys.executable, "-c", "import file; print(file.x)"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def printed() -> str:
        return subprocess.check_output(shown, cwd=tmp_path, env=env, text=True)

    before = printed()
    defect = Defect("slip", "file.py", "x = 1", "x = 2", "it is wrong", ("test_file.py",))
    assert defect.plant(tmp_path) == "x = 1\n"
    assert (before, printed()) == ("1\n", "2\n")
