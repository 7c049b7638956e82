"""Every acceptance row that this release claims has a test."""

import subprocess
import sys
from pathlib import Path

import pytest

from acceptance import rows_without_tests

ROOT = Path(__file__).resolve().parent.parent


def test_every_claimed_row_has_a_test(tmp_path: Path) -> None:
    """A row that is claimed is covered by at least one test of the whole collection."""
    table = tmp_path / "rows.md"
    pytest_command = Path(sys.executable).with_name("pytest")
    done = subprocess.run(
        [pytest_command, "--collect-only", "-q", "-p", "no:cacheprovider", f"--rows-table={table}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    missing = rows_without_tests(table.read_text(encoding="utf-8"))
    if missing:
        pytest.fail(f"rows without a test: {missing}", pytrace=False)
