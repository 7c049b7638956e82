"""Completion by the Tab key in real shells."""

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

ASK = {
    "bash": """\
source completion.bash
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete licorne
printf '%s\\n' "${COMPREPLY[@]}"
""",
    # zsh shows completions through `_describe`, as a name and its meaning with a colon between.
    "zsh": """\
compdef() { : }
_describe() { print -rl -- "${(@P)2}" }
source completion.zsh
BUFFER=$1 CURSOR=${#1} words=(licorne)
_python_argcomplete
""",
    "fish": "source completion.fish; complete -C $argv[1]",
}
"""How to request the completions of a line from each shell."""
ALLOCATED = ("allocated", "allocated.vcore", "allocated.memory")
NODE_VERBS = list(nodes.NOUN.verbs)
bash = pytest.mark.needs("bash")
every_shell = pytest.mark.parametrize(
    "shell", [pytest.param(one, marks=pytest.mark.needs(one)) for one in SHELLS]
)


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """A folder with the completion scripts, and with `licorne` as a program."""
    for shell in SHELLS:
        assert main(["completion", shell]) == 0
        (tmp_path / f"completion.{shell}").write_text(capsys.readouterr().out)
    program = tmp_path / "licorne"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m licorne_server "$@"\n')
    program.chmod(0o755)
    return tmp_path


def completed(folder: Path, line: str, shell: str = "bash") -> list[str]:
    """The completions that a shell offers for this line, the last word of which is incomplete."""
    before = {
        "bash": ["bash", "--norc", "-c", ASK["bash"], "bash"],
        "zsh": ["zsh", "-f", "-c", ASK["zsh"], "zsh"],
    }
    done = subprocess.run(
        [*before.get(shell, ["fish", "--no-config", "-c", ASK["fish"]]), line],
        cwd=folder,
        env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )
    assert done.stderr == ""
    # A name may be followed by a blank, or by its meaning.
    offers = [one for one in done.stdout.split("\n") if one]
    if shell == "fish":
        return [one.partition("\t")[0] for one in offers]
    return [one.partition(":")[0] for one in offers] if shell == "zsh" else [one.rstrip() for one in offers]


@bash
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("no", ["nodes"]),
        ("nodes --out", ["--output", "--output-watch-events"]),
        ("nodes --output ", ["table", "wide", "json", "yaml", "name"]),
        ("nodes -o j", ["json"]),
        ("apps --state com", ["completed", "completing"]),
        ("context ", ["list", "show", "use", "delete", "set"]),
        ("context set here --tls-s", ["--tls-server-name"]),
        ("rms f", ["forget"]),
        ("queues stop --mes", ["--message"]),
        ("queues --rm blue sto", ["stop"]),
        ("--rm blue queues stop --mes", ["--message"]),
        ("budgets apply comp", ["completion.bash", "completion.fish", "completion.zsh"]),
        ("help queu", ["queues"]),
        ("bench shim", ["shim", "shim1"]),
        ("--ver", ["--version"]),
        ("nodes --target ", []),
        ("nodes --sort-by alloca", [*ALLOCATED, "allocations"]),
        ("rms --sort-by as", ["asks"]),
        ("nodes --output=j", ["json"]),
        ("nodes --output=json --sched", ["--schedulable"]),
        ("nodes --target here:1 --sched", ["--schedulable"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("nodes --timeout 3 --sched", ["--schedulable"]),
        ("validate-config completion.b", ["completion.bash"]),
        ("serve --config completion.b", ["completion.bash"]),
    ],
)
def test_bash_completes_every_kind_of_word(folder: Path, line: str, offered: list[str]) -> None:
    """bash completes commands, options, choices and files, each at its place."""
    assert sorted(completed(folder, f"licorne {line}")) == sorted(offered)


@every_shell
def test_every_shell_completes_commands_options_and_choices(shell: str, folder: Path) -> None:
    """Each shell completes all commands, options and choices."""
    assert set(completed(folder, "licorne ", shell)) == set(installed_commands())
    assert completed(folder, "licorne nodes --sort", shell) == ["--sort-by"]
    assert completed(folder, "licorne nodes -o j", shell) == ["json"]


@every_shell
async def test_every_shell_completes_names(shell: str, town: Town, folder: Path) -> None:
    """Each shell completes names from the server that is named on the line."""
    line = f"licorne nodes --target {town.shell.target} --timeout 20 "
    offers = await asyncio.to_thread(completed, folder, line, shell)
    assert sorted(offers) == sorted([*NODE_VERBS, "node-1", "node-2"])


@bash
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("nodes --rm green ", [*NODE_VERBS, "meadow-1"]),
        ("nodes drain --rm blue ", ["node-1", "node-2"]),
        ("queues root.p", ["root.prod"]),
        ("apps --queue root.d", ["root.dev"]),
        ("explain sh", ["shop"]),
        ("apps --user ", ["ann", "bob"]),
        ("rms forget b", ["blue"]),
        ("nodes --partition ", ["\\[blue\\]default", "\\[green\\]default"]),
        ("nodes --partition \\[bl", ["\\[blue\\]default"]),
        ("nodes --rm=gre", ["green"]),
        ("nodes --rm=green ", [*NODE_VERBS, "meadow-1"]),
    ],
)
async def test_bash_completes_names(town: Town, folder: Path, line: str, offered: list[str]) -> None:
    """bash completes names of every kind, of the RM and the partition named on the line."""
    command, _, rest = line.partition(" ")
    line = f"licorne {command} --target {town.shell.target} --timeout 20 {rest}"
    assert await asyncio.to_thread(completed, folder, line) == offered


@bash
async def test_names_with_a_colon_are_completed(town: Town, folder: Path) -> None:
    """A shell splits words at colons, so the text before the colon is not offered again."""
    await town.blue.add_nodes(2, prefix="rack:8041")
    line = f"licorne nodes --target {town.shell.target} --timeout 20 rack:80"
    assert await asyncio.to_thread(completed, folder, line) == ["8041-1", "8041-2"]


@bash
async def test_names_are_quoted_for_the_shell(town: Town, folder: Path) -> None:
    """A name chosen by somebody else is quoted as one word, and no part of it is executed."""
    name = "a$(touch owned);b c"
    await town.blue.add_nodes(1, prefix=name)
    line = f"licorne nodes --target {town.shell.target} --timeout 20 a"
    assert await asyncio.to_thread(completed, folder, line) == [r"a\$\(touch\ owned\)\;b\ c-1"]
    assert not (folder / "owned").exists()


@bash
def test_completion_works_without_a_server(folder: Path) -> None:
    """Without a server the static words are offered, and no error is printed."""
    assert completed(folder, "licorne explain --target 127.0.0.1:1 ") == []
    assert completed(folder, "licorne nodes --context nosuch ") == NODE_VERBS
