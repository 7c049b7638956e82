"""The page on architecture: its picture, and the named files."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.sources import ROOT

PAGE = ROOT / "docs" / "architecture.md"
SCRIPT = ROOT / "docs" / "architecture.py"


@pytest.mark.slow
def test_the_picture_shows_the_imports() -> None:
    """The drawing shows the imports in the code, as `make picture` draws it."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_named_files_exist() -> None:
    """All files named on the page exist, and the table has ten of them."""
    text = PAGE.read_text(encoding="utf-8")
    paths = [f"/{path.relative_to(ROOT).as_posix()}" for path in _sources()]
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert [name for name in named if not any(path.endswith(f"/{name}") for path in paths)] == []
    first = text.split("## Read these ten files first")[1]
    assert len(re.findall(r"^\| `", first, re.MULTILINE)) == 10


def _sources() -> list[Path]:
    return [path for folder in ("core", "server") for path in (ROOT / folder).rglob("*.py")]
