"""The languages of the tested clients, and how their peers are built and started."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from support.docs.pages import ROOT

Build = Callable[[Path], Sequence[str]]
"""Builds a peer in a folder unless it exists; returns the command that starts it."""

GO_MODULE = ROOT / "clients" / "go"


def _python(_: Path) -> Sequence[str]:
    return sys.executable, str(ROOT / "clients" / "conformance" / "peers" / "python_peer.py")


def _go(folder: Path) -> Sequence[str]:
    program = folder / "go_peer"
    if program.exists():
        return (str(program),)
    built = subprocess.run(
        ["go", "build", "-o", str(program), "./conformance"],
        cwd=GO_MODULE,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, f"go build says:\n{built.stdout}{built.stderr}"
    return (str(program),)


LANGUAGES: Mapping[str, Build] = {"python": _python, "go": _go}
"""The tested peers. The one in Go needs the tools of Go."""
