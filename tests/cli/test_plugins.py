"""Commands of other distributions."""

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from licorne_cli import plugins
from licorne_cli.commands import COMMANDS, installed_commands, main
from licorne_cli.failures import USAGE
from licorne_cli.plugins import BROUGHT_BY

HELP = """
import sys
from licorne_cli.commands import main
try:
    main(["--help"])
except SystemExit:
    print(*(name for name in sys.modules if name.startswith(("licorne_", "grpc"))), file=sys.stderr)
"""
HEAVY = (
    "grpc",
    "licorne_core",
    "licorne_server.services",
    "licorne_server.commands.",
    "licorne_tools.bench",
)
"""Modules that the help does not need."""


@pytest.fixture(autouse=True)
def _looked_for_anew() -> Iterator[None]:
    """Clear the cache of plug-ins before and after each test."""
    plugins.plugged_in.cache_clear()
    yield
    plugins.plugged_in.cache_clear()


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no other distribution be installed."""
    monkeypatch.setattr(plugins, "entry_points", lambda group: ())


def plug_in(folder: Path, value: str, code: str) -> None:
    """Install a distribution with a module and an entry point of commands."""
    (folder / "strange_commands.py").write_text(code)
    info = folder / "strange-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[licorne.commands]\nstrange = {value}\n")


@pytest.mark.parametrize(("command", "distribution"), BROUGHT_BY.items())
def test_a_command_of_a_missing_distribution_names_it(
    command: str, distribution: str, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that is not installed is a usage error of one line, with its distribution."""
    assert main([command, "--help"]) == USAGE
    assert capsys.readouterr().err == (
        f"licorne: {command} comes with {distribution}, which is not installed here\n"
    )


def test_help_lists_installed_commands_only(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The help lists only commands of installed distributions."""
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert "\n  queues " in shown
    assert not [name for name in BROUGHT_BY if f"\n  {name} " in shown]


def test_the_table_of_distributions_is_complete() -> None:
    """The table of missing commands agrees with the commands of this checkout's distributions."""
    brought = {
        name: entry.dist.name
        for entry in entry_points(group=plugins.COMMANDS)
        if entry.dist is not None
        for name in entry.load()
    }
    assert brought == BROUGHT_BY


def test_help_imports_no_command() -> None:
    """A plug-in is imported when its command is chosen."""
    done = subprocess.run([sys.executable, "-c", HELP], capture_output=True, text=True, check=True)
    assert "serve resource managers" in done.stdout
    assert [name for name in done.stderr.split() if name.startswith(HEAVY)] == []


def test_any_distribution_may_have_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command of another distribution runs, but cannot replace a built-in one."""
    code = (
        "COMMANDS = {name: ('strange_commands', 'be strange') for name in ('queues', 'strange')}\n"
        "EXAMPLES = ()\n"
        "def add_arguments(parser): parser.add_argument('word')\n"
        "def run(args): print(args.word); return 3\n"
    )
    plug_in(tmp_path, "strange_commands:COMMANDS", code)
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["strange", "word"]) == 3
    assert capsys.readouterr().out == "word\n"
    assert installed_commands()["queues"] == COMMANDS["queues"]
    sys.modules.pop("strange_commands")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("nowhere_at_all:COMMANDS", "No module named 'nowhere_at_all'"),
        ("strange_commands:NOTHING", "has no attribute 'NOTHING'"),
    ],
)
def test_a_broken_plug_in_is_left_out(
    value: str,
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A line names the broken plug-in, and all other commands work."""
    plug_in(tmp_path, value, "")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["version", "--client"]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"licorne: {value} is left out: ")
    assert reason in said
    assert said.count("\n") == 1


def test_version_without_the_server_package(alone: None, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the server's package the form is missing, and `version` gives the reason."""
    assert main(["version", "--client"]) == 0
    assert capsys.readouterr().out.endswith("; no server package is installed here\n")
    assert main(["version", "--client", "-o", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data.keys() == {"version", "form", "python", "optimized", "server"}
    assert (data["form"], data["optimized"], data["server"]) == (None, None, None)
