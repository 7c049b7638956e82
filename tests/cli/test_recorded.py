"""Every command with its words and options, and its output for small scenes.

The scenes are in ``data/recorded/commands``, see ``support/recorded.py``: lines with ``$`` are commands, with
``!`` those of stderr, and the places are those of ``support/peers/scenes.py``.
"""

import argparse
import asyncio
import json
import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest

from licorne_cli.commands import installed_commands, main, parser_for
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_cli.connection.target import VARIABLES
from licorne_cli.nouns import events, usage
from licorne_cli.output import marks
from licorne_cli.parsing.parser import ForCommands, commands_of
from licorne_server.testing import VirtualClock
from support.patience import PATIENCE
from support.peers.scenes import FILES, SCENES
from support.recorded import Answers, Scene, compare, scenes

RECORDED = scenes("commands", "$ ")
NOT_RECORDED = {
    "serve": "does not end",
    "healthcheck": "says nothing but by its exit code",
    "version": "says which version runs",
    "simulate": "says how long it took",
    "demo": "plays in a time of its own",
    "dev": "does not end",
    "bench": "measures",
    "fake-rm": "does not end",
    "replay": "says how long it took, of a journal",
    "why": "needs a journal, and prints as explain does",
    "state-dump": "what REST says, which is recorded",
    "top": "draws screens, of which there are goldens",
    "settings": "the defaults, of which there is a reference",
    "completion": "a script for a shell",
}
"""Commands of which only the help is recorded, with the reason."""

OWN_HELP = "  -h --help: show this help message and exit"
"""An option of every command, which is recorded for the first one only."""

BUILD = {
    r"\blicorne \S+ \((pure|compiled)\)": "licorne VERSION (FORM)",
    r'"(form)": "(pure|compiled)"': r'"\1": "FORM"',
    r'"(python)": "\w+ [^"]+"': r'"\1": "PYTHON"',
    rf'"(version)": "{re.escape(version("licorne-server"))}"': r'"\1": "VERSION"',
}
"""Patterns of details of the running build, and their replacements in the recording."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the files that commands read."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.row(25, 28, 56, 58, 158, 168)
@pytest.mark.parametrize("scene", RECORDED, ids=lambda scene: scene.path)
async def test_commands_print_the_recorded_output(
    scene: Scene,
    rewrite: bool,
    files: Path,
    usual_levels: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command has the recorded output and exit code, in every format for programs."""
    clock = VirtualClock()
    for module in (marks, events, usage):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.now))
    monkeypatch.setenv(PATH_VARIABLE, str(files / "contexts.yaml"))
    monkeypatch.setattr("licorne_cli.connection.channel.DEFAULT_TIMEOUT", PATIENCE)
    async with SCENES[scene.place](clock) as target:
        monkeypatch.setenv(VARIABLES["target"], target)
        await scene.replay(partial(played, monkeypatch, capsys, scene.answers), rewrite=rewrite)


async def played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answers: Answers, line: str
) -> list[str]:
    """The output of a line; words before `licorne` are variables of its environment."""
    variables, _, words = line[2:].partition("licorne ")
    with monkeypatch.context() as environment:
        for variable in shlex.split(variables):
            environment.setenv(*variable.split("=", 1))
        capsys.readouterr()
        code = await asyncio.to_thread(exit_code, shlex.split(words))
    captured = capsys.readouterr()
    return list(printed(code, captured.out, captured.err, answers))


def exit_code(words: Sequence[str]) -> int | str | None:
    """The exit code of a command, including one that ends the process."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


def printed(code: int | str | None, out: str, err: str, answers: Answers) -> Iterator[str]:
    """The output of a command, without the parts that differ between runs; lines of stderr are marked."""
    for mark, text in (("", out), ("! ", err)):
        steady = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text).replace(str(Path.cwd()), "HERE")
        for pattern, name in BUILD.items():
            steady = re.sub(pattern, name, steady)
        is_json = steady.startswith(("{", "["))
        shown = answers.show(json.loads(steady)) if is_json else steady.splitlines()
        yield from (f"{mark}{line}".rstrip() for line in shown)
        if text and not text.endswith("\n"):
            yield f"{mark}(no newline)"
    if code:
        yield f"exit code {code}"


def test_every_command_is_recorded() -> None:
    """Each command is recorded, or has a reason why it is not recorded."""
    played = [line.partition("licorne ")[2].split() for scene in RECORDED for line in scene.played]
    missing = [
        " ".join(words)
        for words, parser in parsers()
        if words
        and words[0] not in NOT_RECORDED
        and not any(isinstance(action, ForCommands) for action in parser._get_positional_actions())
        and not any(line[: len(words)] == list(words) for line in played)
    ]
    assert missing == []


def test_the_help_is_the_recorded_one(rewrite: bool) -> None:
    """Words, options and descriptions of each command are those of the recording."""
    said: list[str] = []
    known: dict[tuple[str, ...], str] = {}
    for words, parser in parsers():
        command = " ".join(("licorne", *words, "--help"))
        said += ["", f"$ {command}", parser.description or ""]
        assert OWN_HELP in {line for group in parser._action_groups for line in options_said(parser, group)}
        for group in parser._action_groups:
            lines = tuple(line for line in options_said(parser, group) if not (words and line == OWN_HELP))
            place = known.setdefault(lines, command)
            said += [f"  {group.title}: as in {place}"] if place != command and len(lines) > 4 else lines
        said += (parser.epilog or "").splitlines()
    compare("help", said[1:], rewrite=rewrite)


def options_said(parser: argparse.ArgumentParser, group: argparse._ArgumentGroup) -> Iterator[str]:
    """The words and options of a group, each with its help."""
    formatter = parser._get_formatter()
    for action in group._group_actions:
        if action.help == argparse.SUPPRESS:
            continue
        if isinstance(action, ForCommands):
            yield from (f"  {one.dest}: {one.help}" for one in action._choices_actions)
            continue
        names = [*action.option_strings, formatter._format_args(action, action.dest.upper())]
        text = formatter._expand_help(action) if action.help else ""
        yield f"  {' '.join(filter(None, names))}: {text}".rstrip(": ")


def parsers() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command by its words; verbs follow their noun."""
    below: list[tuple[tuple[str, ...], argparse.ArgumentParser]]
    below = [((), parser_for("serve", *installed_commands()))]
    while below:
        words, parser = below.pop(0)
        yield words, parser
        below[:0] = [((*words, name), child) for name, (_, child) in commands_of(parser)]
