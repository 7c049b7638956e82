"""Every command with its words and options, and what it prints about one small scene.

The recordings are in ``data/recorded``. ``pytest --rewrite`` writes them anew.
"""

import argparse
import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from licorne_cli.commands import installed_commands, main, parser_for
from licorne_cli.connection.contexts import PATH_VARIABLE
from licorne_cli.connection.target import VARIABLES
from licorne_cli.nouns import events
from licorne_cli.output import marks
from licorne_cli.parsing.parser import ForCommands, commands_of
from licorne_server.testing import VirtualClock
from support.peers.town import CONFIG, busy_town
from support.recorded import compact, compare

FILES = {
    "budgets.yaml": "budgets: [{name: company, limit: {vcore: 9}, members: [{rm: '*'}]}]\n",
    "wider.yaml": CONFIG.replace("vcore: 4", "vcore: 5"),
    "broken.yaml": CONFIG.replace("vcore: 4", "vcore: four"),
    "job.yaml": """\
application: job
user: ann
queue: root.prod
asks:
  - {name: driver, resources: {vcore: 1}, priority: 5}
  - {name: exec, count: 2, resources: {vcore: 500m}}
""",
}
GIVEN = """\
validate-config wider.yaml
validate-config broken.yaml
queues
queues -o wide
queues -o json
queues root.prod
apps
apps -o wide
apps -o json
apps shop
nodes
nodes -o wide
nodes -o json
nodes node-1
topology
rms
rms -o json
users
users --groups
users -o json
users ann
usage
usage --by user -o csv
usage --by group
status
explain
explain --rm blue -o json
explain shop
explain shop -o json
explain idle
calendar --rm blue
calendar --rm blue -o json
events --app shop
events --app idle -o json
log-level
config get --rm blue
config history --rm blue
config history --rm blue -o json
config validate wider.yaml --rm blue
config diff wider.yaml --rm blue
config plan wider.yaml --rm blue
apps plan job.yaml --rm blue
apps plan job.yaml --rm blue -o json
nodes cordon node-2 --rm blue --message disk
nodes
nodes uncordon node-2 --rm blue
nodes drain node-2 --rm blue
nodes uncordon node-2 --rm blue
queues stop root.dev --rm blue --yes
queues start root.dev --rm blue
apps hold idle --rm blue --message late
apps idle
apps resume idle --rm blue
apps set idle --rm blue --priority 5 --queue root.prod
apps kill idle --rm blue --yes
rms forget green
rms forget nobody
config apply wider.yaml --rm blue --yes
config apply broken.yaml --rm blue --yes
config rollback --rm blue --yes
config history --rm blue
reload
budgets
budgets apply budgets.yaml --yes --message licences
budgets
budgets company -o json
budgets release blue --yes
budgets release nobody --yes
context list
context set here
context show here
context use here
context list
context delete here
queues root.nowhere
apps nobody
nodes nothing
explain nobody
queues --nonsense
--rm blue queues root.dev
get queues
help completion
"""
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
    "members": "there are none of a server that is alone",
    "settings": "the defaults, of which there is a reference",
    "completion": "a script for a shell",
}
"""Commands of which only the help is recorded, and why."""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the files that commands are given, which is the current one."""
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


@pytest.mark.slow
async def test_commands_print_as_recorded(
    rewrite: bool,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each command prints and exits as it did, in every form that programs read."""
    clock = VirtualClock()
    for module in (marks, events):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.now))
    monkeypatch.setenv(PATH_VARIABLE, str(files / "contexts.yaml"))
    said: list[str] = []
    async with busy_town(capsys, clock) as town:
        monkeypatch.setenv(VARIABLES["target"], town.shell.target)
        capsys.readouterr()
        for line in GIVEN.splitlines():
            code = await asyncio.to_thread(exit_code, line.split())
            captured = capsys.readouterr()
            said += ["", f"$ licorne {line}", *printed(code, captured.out, captured.err)]
    compare("commands", said[1:], rewrite=rewrite)


def exit_code(words: Sequence[str]) -> int | str | None:
    """The exit code of a command, including one that ends the process."""
    try:
        return main(words)
    except SystemExit as ended:
        return ended.code


def printed(code: int | str | None, out: str, err: str) -> Iterator[str]:
    """The output of a command, without the parts that differ between runs."""
    is_json = out.startswith(("{", "["))
    for text in (compact(json.loads(out)) if is_json else out, err):
        steady = re.sub(r"127\.0\.0\.1:\d+", "HOST:PORT", text).replace(str(Path.cwd()), "HERE")
        yield from (line.rstrip() for line in steady.splitlines())
    if code:
        yield f"exit code {code}"


def test_every_command_is_recorded_or_left_out() -> None:
    """A new command is recorded here, or has a reason to be left out."""
    played = [line.split() for line in GIVEN.splitlines()]
    missing = [
        " ".join(words)
        for words, parser in parsers()
        if words
        and words[0] not in NOT_RECORDED
        and not any(isinstance(action, ForCommands) for action in parser._get_positional_actions())
        and not any(line[: len(words)] == list(words) for line in played)
    ]
    assert missing == []


def test_help_is_as_recorded(rewrite: bool) -> None:
    """The accepted words and options of each command, and their descriptions, are those of the recording."""
    said: list[str] = []
    for words, parser in parsers():
        said += ["", " ".join(("$ licorne", *words, "--help")), parser.description or ""]
        formatter = parser._get_formatter()
        for action in parser._actions:
            if action.help == argparse.SUPPRESS:
                continue
            if isinstance(action, ForCommands):
                said += [f"  {one.dest}: {one.help}" for one in action._choices_actions]
                continue
            names = [*action.option_strings, formatter._format_args(action, action.dest.upper())]
            text = formatter._expand_help(action) if action.help else ""
            said.append(f"  {' '.join(filter(None, names))}: {text}".rstrip(": "))
        said += (parser.epilog or "").splitlines()
    compare("help", said[1:], rewrite=rewrite)


def parsers() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Every command by its words, verbs after their noun."""
    below: list[tuple[tuple[str, ...], argparse.ArgumentParser]]
    below = [((), parser_for("serve", *installed_commands()))]
    while below:
        words, parser = below.pop(0)
        yield words, parser
        below[:0] = [((*words, name), child) for name, (_, child) in commands_of(parser)]
