"""The fixtures of the test kit, in a separate pytest, as in a project of a user.

Each run of pytest has its own folder. All runs share one process, because a start takes ten times as long as
a run.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest

from support.docs.pages import Page

pytestmark = pytest.mark.slow

PAGE = Page("docs/testing.md")
ENABLED = 'pytest_plugins = ["licorne_server.testing.pytest_plugin"]\n'
STOPPED = """
import pytest
import grpc

SEEN = {}

@pytest.mark.asyncio
async def test_one(licorne_core, licorne_rm):
    await licorne_rm()
    SEEN["one"] = licorne_core

@pytest.mark.asyncio
async def test_two(licorne_core):
    assert licorne_core.target != SEEN["one"].target
    with pytest.raises(ValueError, match="the server is down"):
        SEEN["one"].views
    assert licorne_core.views.rms() == ()

@pytest.mark.asyncio
async def test_it_survives_a_failure(licorne_core, licorne_rm):
    rm = await licorne_rm()
    await licorne_core.crash()
    rm.patience = 0.2
    with pytest.raises(TimeoutError):
        await rm.until(lambda: False, "nothing")
"""


RUNNER = """
import contextlib, json, os, sys

import pytest

for folder, options in json.loads(sys.argv[1]):
    os.chdir(folder)
    with open("out", "w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        pytest.main(["-q", "-p", "no:cacheprovider", *options, "."])
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(folder):
            del sys.modules[name]
"""
MODES = {
    "strict": [],
    "auto": ["-o", "asyncio_mode=auto"],
    "one loop": [
        *("-o", "asyncio_default_fixture_loop_scope=module"),
        *("-o", "asyncio_default_test_loop_scope=module"),
    ],
}


class Run(NamedTuple):
    """A run of pytest: its options, and the files of its folder by their names."""

    files: Mapping[str, str]
    options: Sequence[str] = ()


def snippets() -> list[str]:
    """The Python snippets of the page."""
    return [block.text for block in PAGE.blocks() if block.language == "python"]


def documented() -> dict[str, str]:
    """The tests on the page, where the `conftest.py` is the one of the page."""
    [conftest] = [text for text in snippets() if text.startswith("pytest_plugins")]
    tests = [text for text in snippets() if "def test_" in text]
    return {"conftest": conftest, **{f"test_{n}": text for n, text in enumerate(tests)}}


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of each run."""
    enabled = {"conftest": ENABLED, "test_it": STOPPED}
    runs = {
        "documented": Run(documented()),
        **{mode: Run(enabled, options) for mode, options in MODES.items()},
        "not enabled": Run({"test_it": STOPPED}),
        "fixtures": Run({"conftest": ENABLED}, ["--fixtures"]),
    }
    folders = {name: tmp_path_factory.mktemp("project") for name in runs}
    for name, run in runs.items():
        for stem, text in run.files.items():
            (folders[name] / f"{stem}.py").write_text(text, encoding="utf-8")
    wanted = json.dumps([(str(folders[name]), run.options) for name, run in runs.items()])
    ended = subprocess.run(
        [sys.executable, "-c", RUNNER, wanted], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return {name: (folders[name] / "out").read_text(encoding="utf-8") for name in runs}


def test_the_documented_tests_pass(said: dict[str, str]) -> None:
    """Every test on the page passes with the page's `conftest.py`."""
    assert sum(text.count("def test_") for text in documented().values()) == 3
    assert "3 passed" in said["documented"], said["documented"]


@pytest.mark.parametrize("mode", MODES)
def test_each_test_has_its_own_server(said: dict[str, str], mode: str) -> None:
    """The server is stopped after the test, whatever the outcome, in every mode of pytest-asyncio."""
    assert "3 passed" in said[mode], said[mode]


def test_the_fixtures_have_to_be_enabled(said: dict[str, str]) -> None:
    """Without the line in `conftest.py` there are no fixtures."""
    assert "fixture 'licorne_core' not found" in said["not enabled"], said["not enabled"]


def test_every_fixture_is_on_the_page(said: dict[str, str]) -> None:
    """The table has exactly the fixtures of the plugin."""
    brought = {
        line.split()[0]
        for line in said["fixtures"].partition("fixtures defined from licorne")[2].splitlines()
        if " -- " in line and "licorne_server" in line
    }
    assert brought == {row[0].strip("`") for row in PAGE.table("Fixtures")}
