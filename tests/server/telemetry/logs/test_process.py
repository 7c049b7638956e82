"""Logs of a whole process, and of a server whose stderr fails."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import aiohttp
import grpc
import pytest

from support.patience import PATIENCE
from support.peers.networks import goaway, headers, raw_connection
from support.peers.shim import Shim, ask, new_allocations
from support.server.process_log import Log, entry_of, full_disk, pipe
from support.server.server_process import PROGRAM, ServerProcess

NOISY = Path(__file__).parents[3] / "support" / "server" / "noisy.py"
# Messages of gRPC's own library are needed, even where our wheel is installed, which replaces it.
FLAGS = ("--log-level", "info", "--transport", "grpc")
ANY_PORT = "127.0.0.1:0"
CLOSED_STDERR = ("sh", "-c", 'exec "$@" 2>&-', "sh", *PROGRAM)


@asynccontextmanager
async def logged(program: Sequence[str] = PROGRAM) -> AsyncIterator[tuple[ServerProcess, Log]]:
    """A server, and its log."""
    with pipe() as (read, write):
        async with ServerProcess(*FLAGS, http=ANY_PORT, stderr=write.fileno(), program=program) as server:
            write.close()
            yield server, Log(read.fileno())


async def provoke(target: str, times: int) -> None:
    """Let the server log a line this number of times: an RM registers with an invalid configuration.

    The text of the refusal is as long as the server allows.
    """
    async with grpc.aio.insecure_channel(target) as channel:
        for _ in range(times):
            with pytest.raises(grpc.aio.AioRpcError):
                await Shim(channel, "wrong").register("partitions: [" + "x" * 200)


async def place(target: str, rm_id: str = "rm") -> None:
    """Register an RM, and place an ask."""
    async with grpc.aio.insecure_channel(target) as channel:
        shim = Shim(channel, rm_id)
        allocations, _, _ = await shim.set_up()
        await shim.ask(allocations, ask("key"))
        assert await new_allocations(allocations, 1) == {"key": "n0"}


async def get(server: ServerProcess, path: str) -> tuple[int, str]:
    """Status and text of an answer over HTTP."""
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"http://{server.http}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def until_dropped(server: ServerProcess, reason: str) -> None:
    """Wait until the metrics count dropped log lines for a reason."""
    name = f'licorne_log_lines_dropped_total{{reason="{reason}"}} '
    async with asyncio.timeout(PATIENCE):
        while True:
            _, text = await get(server, "/metrics")
            [value] = [line for line in text.splitlines() if line.startswith(name)]
            if float(value.removeprefix(name)):
                return


async def goes_on(server: ServerProcess) -> None:
    """Check that the server places an ask, and stops after its drain."""
    await place(server.target)
    assert await get(server, "/livez") == (200, "ok\n")
    assert await server.stop() == 0


@pytest.mark.slow
async def test_an_unread_log_blocks_nothing() -> None:
    """With a full pipe as stderr the server schedules, and stops on request."""
    with pipe() as (read, write):
        async with ServerProcess(*FLAGS, http=ANY_PORT, stderr=write.fileno()) as server:
            write.close()
            await provoke(server.target, 50)
            await goes_on(server)
        lines = os.read(read.fileno(), 1 << 16).split(b"\n")
        said = [json.loads(line) for line in lines[:-1]]
        events = [line["event"] for line in said]
        assert (events[0], "registration refused" in events) == ("started", True)
        assert said[0]["version"] == version("licorne-server")
        assert len(lines) < 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stderr", "reason"), [("missing", "closed"), ("unread", "closed"), ("full disk", "no_space")]
)
async def test_an_unusable_stderr_blocks_nothing(stderr: str, reason: str) -> None:
    """Lines that cannot be written are dropped and counted, and the server continues."""
    program = CLOSED_STDERR if stderr == "missing" else PROGRAM
    with pipe() as (read, write), full_disk() as full:
        target = full if stderr == "full disk" else write.fileno()
        async with ServerProcess(*FLAGS, http=ANY_PORT, stderr=target, program=program) as server:
            write.close()
            read.close()
            await provoke(server.target, 5)
            async with raw_connection(server.target) as peer:
                await peer.send(goaway("text"))
                await peer.dealt_with()
            await until_dropped(server, reason)
            await goes_on(server)


@pytest.mark.slow
async def test_a_peer_cannot_forge_a_line() -> None:
    """Texts of a raw client are only inside strings of the log, on both ports."""
    forged = 'x\n{"event": "registered", "rm_id": "forged"}\r\x1b[31m\x00\x7f\u2028\u202e'
    async with logged() as (server, log):
        async with raw_connection(server.target) as peer:
            await peer.send(goaway(forged))
            await peer.dealt_with()
        for block in (b"\xff" * 8, b"\x40\x0ax\n{}\n\x1b[31m\x03abc", forged.encode()):
            async with raw_connection(server.target) as peer:
                await peer.send(headers(block))
                await peer.dealt_with()
        for raw in (b"GET /\x1b[31m\x00 HTTP/1.1\r\n\r\n", forged.encode() + b"\r\n\r\n"):
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(*server.http.split(":"))
                writer.write(raw)
                assert b"400" in await reader.readline()
                writer.close()
        await goes_on(server)
    entries = log.entries()
    assert not [entry for entry in entries if entry.get("rm_id") == "forged"]
    assert forged in next(entry["text"] for entry in entries if entry["event"] == "grpc core")
    assert [entry["rm_id"] for entry in entries if entry["event"] == "registered"] == ["rm"]
    assert "aiohttp.server" in {entry.get("logger") for entry in entries}


@pytest.mark.slow
@pytest.mark.parametrize(("verbosity", "is_told"), [("NONE", False), ("DEBUG", True)])
async def test_messages_of_grpc_depend_on_its_own_variable(verbosity: str, *, is_told: bool) -> None:
    """GRPC_VERBOSITY is respected, and the messages of gRPC become lines."""
    async with logged(("env", f"GRPC_VERBOSITY={verbosity}", *PROGRAM)) as (server, log):
        for sent in (goaway("text"), headers(b"\xff" * 8)):
            async with raw_connection(server.target) as peer:
                await peer.send(sent)
                await peer.dealt_with()
        await goes_on(server)
    assert is_told == any(entry["event"] == "grpc core" for entry in log.entries())


@pytest.mark.slow
async def test_a_flood_of_messages_is_cut_and_counted() -> None:
    """A flood of messages of gRPC is limited, and the log has the number of dropped lines."""
    async with logged() as (server, log):
        async with raw_connection(server.target) as peer:
            await peer.send(goaway("text") * 200)
            await peer.dealt_with()
        await until_dropped(server, "rate")
        await goes_on(server)
    entries = log.entries()
    said = [entry for entry in entries if entry["event"] == "grpc core"]
    assert 0 < len(said) < 200
    told = [entry for entry in entries if entry["event"] == "log lines dropped"]
    assert {(entry["kind"], entry["reason"]) for entry in told} == {("grpc core", "rate")}
    assert sum(entry["number"] for entry in told) + len(said) <= 200


@pytest.mark.slow
async def test_all_output_of_a_process_becomes_lines() -> None:
    """Loggers, warnings, failing threads and callbacks, and text on descriptor 2 become lines."""
    with pipe() as (read, write):
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(NOISY), stderr=write.fileno(), stdout=asyncio.subprocess.DEVNULL
        )
        write.close()
        log = Log(read.fileno())
        assert await process.wait() == 0
        *lines, after = log.lines()
    assert after == "after"
    said = [entry_of(line) for line in lines]
    about = [(entry["event"], entry["level"], entry.get("logger")) for entry in said]
    assert sorted(about, key=str) == sorted(
        [
            ("own", "info", "core"),
            ("said by a library", "error", "aiohttp.server"),
            ("said by a library", "warning", "py.warnings"),
            ("uncaught exception", "error", None),
            ("exception ignored", "error", None),
            ("said by a library", "error", "asyncio"),
            ("said by a library", "error", "asyncio"),
            ("grpc core", "warning", None),
            ("grpc core", "info", None),
            ("grpc core", "warning", None),
        ],
        key=str,
    )
    assert all("registered" in line for line in lines)
