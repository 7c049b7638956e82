"""Every command ends with an exit code of one common table."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from licorne_cli.commands import main
from support.patience import PATIENCE
from support.peers.shim import serving
from support.peers.town import Shell, Town

LISTS = (("queues",), ("apps",), ("nodes",), ("users",), ("rms",), ("events",))
OTHERS = (
    ("top", "--once"),
    ("explain", "shop"),
    ("log-level",),
    ("state-dump",),
    ("version",),
    ("config", "get", "blue"),
    ("config", "history", "blue"),
    ("nodes", "drain", "node-1"),
    ("queues", "stop", "root.prod", "--yes"),
    ("apps", "kill", "shop", "--yes"),
    ("rms", "forget", "blue", "--yes"),
)
ASKING = (*LISTS, *OTHERS)
"""Commands that call a server."""


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_exit_code_without_a_server_is_2(command: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Stderr has one line with the server and the reason; stdout has at most the version of the command."""
    assert main([*command, "--target", "127.0.0.1:1", "--timeout", "20"]) == 2
    said = capsys.readouterr()
    assert said.err == "licorne: cannot reach 127.0.0.1:1: Connection refused\n"
    assert not said.out or command == ("version",)


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
async def test_the_exit_code_without_permission_is_4(
    command: Sequence[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 4 if the server requires a token."""
    (tmp_path / "token").write_text("token-of-an-operator")
    async with serving(operator_tokens=(tmp_path / "token",)) as server:
        result = await Shell(server.grpc_address, capsys)(*command)
    assert result.code == 4
    assert "refused: UNAUTHENTICATED" in result.err


def process(target: str, *arguments: str, stdout: int) -> subprocess.Popen[bytes]:
    """A running process of a command."""
    return subprocess.Popen(
        [sys.executable, "-m", "licorne_server", *arguments, "--target", target],
        stdout=stdout,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("command", [("nodes",), ("events", "-o", "json"), ("top", "--once")])
async def test_the_exit_code_for_a_closed_pipe_is_0(town: Town, command: Sequence[str]) -> None:
    """When the reader closes the pipe, the command ends with 0 and without a message."""
    read, write = os.pipe()
    os.close(read)
    started = process(town.shell.target, *command, "--rm", "green", stdout=write)
    os.close(write)
    _, said = await asyncio.to_thread(started.communicate, timeout=PATIENCE)
    assert (started.returncode, said) == (0, b"")


@pytest.mark.parametrize("command", [("nodes",), ("version",), ("top", "--once")])
async def test_the_exit_code_for_a_full_disk_is_1(town: Town, command: Sequence[str]) -> None:
    """When the disk is full, the command ends with 1 and a line about the disk."""
    full = os.open("/dev/full", os.O_WRONLY)
    started = process(town.shell.target, *command, stdout=full)
    os.close(full)
    _, said = await asyncio.to_thread(started.communicate, timeout=PATIENCE)
    problem = said.decode().splitlines()[-1]
    assert problem == "licorne: cannot write to stdout: No space left on device"
    assert started.returncode == 1


def test_an_interrupt_during_imports_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code is 130 even during the imports of a command."""

    def interrupted(_: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr("licorne_cli.commands.resolve_name", interrupted)
    assert main(["nodes"]) == 130


@pytest.mark.parametrize("command", [("nodes", "-w"), ("rms", "-w", "-o", "json")])
async def test_an_interrupt_exits_with_130(town: Town, command: Sequence[str]) -> None:
    """The exit code is 130 for commands that run until they are interrupted."""
    started = process(town.shell.target, *command, stdout=subprocess.PIPE)
    assert started.stdout is not None
    await asyncio.to_thread(started.stdout.readline)
    started.send_signal(signal.SIGINT)
    _, said = await asyncio.to_thread(started.communicate, timeout=PATIENCE)
    assert started.returncode == 130
    assert b"Traceback" not in said
