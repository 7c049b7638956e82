"""Completion, as a user has it who presses Tab in a real shell."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from licorne_cli.commands import installed_commands, main
from licorne_cli.nouns import nodes
from licorne_cli.parsing.completion import SHELLS
from support.patience import PATIENCE
from support.peers.town import Town

ASK_BASH = """\
source {script}
COMP_WORDS=({words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
COMP_LINE="${{COMP_WORDS[*]}}"
_licorne
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ALLOCATED = ("allocated", "allocated.vcore", "allocated.memory")
NODE_VERBS = list(nodes.NOUN.verbs)


def script_of(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `licorne completion` prints."""
    capsys.readouterr()
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the script for bash, and `licorne` as a program."""
    (tmp_path / "completion.bash").write_text(script_of("bash", capsys))
    program = tmp_path / "licorne"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m licorne_server "$@"\n')
    program.chmod(0o755)
    return tmp_path


def completed(folder: Path, words: str) -> list[str]:
    """What bash offers behind these words, the last of which is being typed."""
    asking = ASK_BASH.format(script="completion.bash", words=words)
    done = subprocess.run(
        ["bash", "--norc", "-c", asking],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("licorne no", ["nodes"]),
        ("licorne nodes --out", ["--output", "--output-watch-events"]),
        ("licorne nodes --output ''", ["table", "wide", "json", "yaml", "name"]),
        ("licorne nodes -o j", ["json"]),
        ("licorne apps --state com", ["completed", "completing"]),
        ("licorne context ''", ["list", "show", "use", "delete", "set"]),
        ("licorne context set here --tls-s", ["--tls-server-name"]),
        ("licorne rms f", ["forget"]),
        ("licorne queues stop --mes", ["--message"]),
        ("licorne budgets apply comp", ["completion.bash"]),
        ("licorne help queu", ["queues"]),
        ("licorne bench shim", ["shim", "shim1"]),
        ("licorne --ver", ["--version"]),
        ("licorne nodes --target ''", []),
        ("licorne nodes --sort-by alloca", ["allocations", *ALLOCATED]),
        ("licorne rms --sort-by as", ["asks"]),
        ("licorne nodes --output =", ["table", "wide", "json", "yaml", "name"]),
        ("licorne nodes --output = j", ["json"]),
        ("licorne nodes --output = json --sched", ["--schedulable"]),
        ("licorne nodes --target here : 1 --sched", ["--schedulable"]),
        ("licorne completion ''", ["bash", "zsh", "fish"]),
        ("licorne nodes --timeout 3 --sched", ["--schedulable"]),
        ("licorne validate-config comp", ["completion.bash"]),
        ("licorne --config comp", ["completion"]),
        ("licorne serve --config comp", ["completion.bash"]),
    ],
)
def test_bash_completes(folder: Path, words: str, offered: list[str]) -> None:
    """Commands, options, choices and files, each where it belongs."""
    assert completed(folder, words) == offered


def test_bash_completes_every_command(folder: Path) -> None:
    """None is forgotten."""
    assert set(completed(folder, "licorne ''")) == set(installed_commands())


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("nodes ''", [*NODE_VERBS, "node-1", "node-2"]),
        ("nodes --rm green ''", [*NODE_VERBS, "meadow-1"]),
        ("queues root.p", ["root.prod"]),
        ("apps --queue root.d", ["root.dev"]),
        ("explain sh", ["shop"]),
        ("apps --user ''", ["ann", "bob"]),
        ("rms forget b", ["blue"]),
        ("nodes --partition ''", ["\\[blue\\]default", "\\[green\\]default"]),
        ("nodes --partition \\\\[bl", ["\\[blue\\]default"]),
        ("nodes --rm = gre", ["green"]),
        ("nodes --rm = green ''", [*NODE_VERBS, "meadow-1"]),
    ],
)
async def test_bash_completes_names(town: Town, folder: Path, words: str, offered: list[str]) -> None:
    """Names of what the server has, which is the server that was named on the line."""
    command, _, rest = words.partition(" ")
    line = f"./licorne {command} --target {town.shell.target} --timeout 20 {rest}"
    assert await asyncio.to_thread(completed, folder, line) == offered


async def test_names_with_a_colon(town: Town, folder: Path) -> None:
    """The shell takes a colon for the end of a word: what stands before it is not offered again."""
    await town.blue.add_nodes(2, prefix="rack:8041")
    host, port = town.shell.target.split(":")
    line = f"./licorne nodes --target {host} : {port} --timeout 20 rack : 80"
    assert await asyncio.to_thread(completed, folder, line) == ["8041-1", "8041-2"]


async def test_names_cannot_command_the_shell(town: Town, folder: Path) -> None:
    """A name of somebody else's is quoted as one word, and nothing in it is run."""
    name = "a$(touch owned);b c"
    await town.blue.add_nodes(1, prefix=name)
    line = f"./licorne nodes --target {town.shell.target} --timeout 20 a"
    assert await asyncio.to_thread(completed, folder, line) == [r"a\$\(touch\ owned\)\;b\ c-1"]
    assert not (folder / "owned").exists()


def test_without_a_server_there_are_no_names(folder: Path) -> None:
    """What the script knows is offered, and nothing is said."""
    assert completed(folder, "./licorne explain --target 127.0.0.1:1 ''") == []
    assert completed(folder, "./licorne nodes --context nosuch ''") == NODE_VERBS


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The script names all commands and the options of each."""
    script = script_of(shell, capsys)
    assert all(name in script for name in installed_commands())
    assert "sort-by" in script
    assert "reserved-for" in script


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=pytest.mark.needs(shell)) for shell in SHELLS])
def test_shells_understand_their_script(
    shell: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every shell reads its script without a word."""
    (tmp_path / "script").write_text(script_of(shell, capsys))
    done = subprocess.run([shell, "-n", "script"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
