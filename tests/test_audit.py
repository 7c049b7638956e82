"""`make audit`: failures, and findings that are only listed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs.pages import ROOT

SOUND = '{"dependencies": [{"name": "a", "version": "1", "vulns": []}]}'
SKIPPED = '{"dependencies": [{"name": "a", "skip_reason": "not found"}]}'
VULNERABLE = '{"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "X-1"}]}]}'
RUST = '{"lockfile": {"dependency-count": 5}, "vulnerabilities": {"list": []}}'
OLD = '[{"package": {"name": "b", "version": "2"}, "advisory": {"id": "Y-2"}}]'


def audited(folder: Path, uv: str, cargo: str, *words: str) -> tuple[int, str]:
    """The exit code and output, with tools that print these texts; an empty text stands for a failure."""
    programs = {folder / ".venv/bin/uv": uv, folder / "cargo": cargo}
    for path, said in programs.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        path.chmod(0o755)
    shutil.copy(ROOT / ".ci/audit.py", folder)
    surroundings = {"PATH": f"{folder}:{os.environ['PATH']}"}
    command = [sys.executable, "audit.py", *words]
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("uv", "cargo", "code", "strict", "last"),
    [
        (SOUND, RUST, 0, 0, "2 of 2 done, 0 left out"),
        (SKIPPED, RUST, 0, 1, "1 of 2 done, 1 left out"),
        ("", "", 0, 1, "0 of 2 done, 2 left out"),
        (VULNERABLE, "", 1, 1, "1 of 2 done, 1 left out"),
        (SOUND, RUST.replace("[]", OLD), 1, 1, "2 of 2 done, 0 left out"),
    ],
    ids=["sound", "no database", "no tools", "a package", "a crate"],
)
def test_findings_fail_and_skipped_checks_are_counted(
    tmp_path: Path, uv: str, cargo: str, code: int, strict: int, last: str
) -> None:
    """A finding fails; a database that cannot be reached is listed, and fails only in the strict form."""
    found, text = audited(tmp_path, uv, cargo)
    assert (found, text.splitlines()[-1]) == (code, f"audit: {last}")
    assert text.count(" is left out, ") == int(last.split()[-3])
    assert audited(tmp_path, uv, cargo, "strict")[0] == strict
