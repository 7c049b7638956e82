"""Random worlds that use no extension have the same decisions with and without the extensions."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from licorne_core.extensions import NAMES
from properties.test_recorded import FIRST, KINDS, LENGTH
from support.core.driver import Driver
from support.docs.pages import ROOT
from support.worlds import World, replayed
from support.worlds.playing import Players

USUAL = 20
MOST = 10
MOST_OF_ALL = 300
"""Number of worlds tried for each needed one; only about one in two hundred uses no extension."""


@cache
def recorded(number: int) -> bytes:
    """The recorded world of this number, with all extensions."""
    driver = Driver(sweep=1_000_000)
    driver.scheduler = core = replayed.Recorder()
    driver.views = core.views
    players = Players(driver)
    for step in World(FIRST + number, LENGTH, **KINDS[number % len(KINDS)]).steps:
        players.step(step)
    return core.line()


def worlds(most: int) -> Iterator[bytes]:
    """The recorded text of this number of worlds, one per line."""
    for number in range(most):
        yield recorded(number) + b"\n"


@pytest.mark.slow
@pytest.mark.pure
@pytest.mark.parametrize("names", [*((name,) for name in NAMES), NAMES], ids=[*NAMES, "all"])
def test_decisions_are_equal_without_an_unused_extension(
    names: tuple[str, ...], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Worlds that do not use an extension have equal decisions without it; half of `--worlds` are played."""
    place = tmp_path / "licorne_core"
    shutil.copytree(ROOT / "core/licorne_core", place, ignore=shutil.ignore_patterns("*.so"))
    table = place / "extensions/__init__.py"
    text = table.read_text(encoding="utf-8")
    for name in names:
        shutil.rmtree(place / "extensions" / name)
        text = text.replace(f'"{name}",', "")
    table.write_text(text, encoding="utf-8")
    worlds_wanted = request.config.getoption("worlds") or USUAL
    enough, most = (
        (worlds_wanted // 2, MOST) if len(names) == 1 else (max(1, worlds_wanted // 40), MOST_OF_ALL)
    )
    program = subprocess.Popen(
        [sys.executable, replayed.__file__, str(enough)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    try:
        for line in worlds(enough * most):
            program.stdin.write(line)
            program.stdin.flush()
    except BrokenPipeError:
        pass
    said, failures = program.communicate()
    assert program.returncode == 0, failures.decode()
    played, same = map(int, said.split())
    assert same == enough, f"{same} of {played} worlds are decided as before"
