"""`licorne serve --workers N` as processes: addresses, signals, exit codes and refusals."""

import asyncio
import json
import os
import signal
import socket
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile

import grpc
import pytest

from licorne_server.engine.journal.codec import read
from support.journal import replayed
from support.patience import PATIENCE
from support.peers.shim import RawSession
from support.server.server_process import PROGRAM, ServerProcess, get
from support.server.settings_file import settings_file

ANY_PORT = "127.0.0.1:0"
TWO = ("--workers", "2")


def children(pid: int) -> set[int]:
    """The running processes that a process has started."""
    try:
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))
    except FileNotFoundError:
        return set()


def is_there(pid: int) -> bool:
    """True for a running process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def listens(pid: int) -> bool:
    """True for a process with a socket, which a worker has once its settings are valid."""
    try:
        return any(os.readlink(each).startswith("socket:") for each in Path(f"/proc/{pid}/fd").iterdir())
    except FileNotFoundError:
        return False


async def ended(server: ServerProcess) -> tuple[int, str]:
    """Wait for the end; returns the exit code, and the output after the first line."""
    async with asyncio.timeout(PATIENCE):
        return await server.ended(), await server.last_words()


async def refused(*arguments: str) -> tuple[int | None, str]:
    """The exit code and stderr of workers that do not start."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, "serve", *TWO, *arguments, stdout=pipe, stderr=pipe
    )
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert not out
    return process.returncode, err.decode()


@pytest.mark.slow
async def test_workers_serve_one_address_and_drain_at_sigterm(tmp_path: Path) -> None:
    """One line has the address once all workers are ready; SIGTERM drains them, and the exit code is 0.

    Each worker then has a complete journal.
    """
    journal = ("--journal", str(tmp_path))
    async with ServerProcess(*TWO, *journal, *settings_file(server={"drain": 60}), http=ANY_PORT) as server:
        assert server.line == f"listening grpc={server.target} http={server.http}\n"
        workers = children(server.pid)
        assert len(workers) == 2
        assert await asyncio.to_thread(get, f"http://{server.http}/readyz") == 200
        async with grpc.aio.insecure_channel(server.target) as channel:
            await RawSession(channel).leave_when_drained(partial(server.send, signal.SIGTERM))
        assert await ended(server) == (0, "")
        assert not any(map(is_there, workers))
    replays = [replayed(read(tmp_path / f"worker-{number}")) for number in (1, 2)]
    assert sorted(bool(replay.inputs) for replay in replays) == [False, True]
    assert all((replay.runs, replay.torn, replay.differing) == (1, [], []) for replay in replays)


@pytest.mark.slow
async def test_ctrl_c_drains_the_workers() -> None:
    """Ctrl-C reaches every process of a terminal's group, and drains the workers."""
    with TemporaryFile() as log:
        process = await asyncio.create_subprocess_exec(
            *(*PROGRAM, "serve", *TWO, "--listen", ANY_PORT, "--http", "off"),
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            assert line.startswith(b"listening grpc=127.0.0.1:")
            os.killpg(process.pid, signal.SIGINT)
            assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        finally:
            if process.returncode is None:
                process.kill()
        log.seek(0)
        lines = [json.loads(line) for line in log.read().decode().splitlines()]
    stopped = [line["worker"] for line in lines if line["event"] == "stopped"]
    assert sorted(stopped) == [1, 2]


@pytest.mark.slow
async def test_a_second_signal_ends_all_workers_at_once() -> None:
    """A second signal ends a drain that waits for an RM, with an error."""
    async with (
        ServerProcess(*TWO, *settings_file(server={"drain": 600})) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        workers = children(server.pid)
        session = RawSession(channel)
        call, _ = await session.begin()
        server.send(signal.SIGTERM)
        await session.until(call, "drain")
        server.send(signal.SIGTERM)
        assert await ended(server) == (1, "")
        assert not any(map(is_there, workers))


@pytest.mark.slow
async def test_workers_end_after_a_kill_of_their_supervisor() -> None:
    """After kill -9 of the supervisor its workers end by themselves, and free the address."""
    async with ServerProcess(*TWO, *settings_file(server={"drain": 0})) as server:
        workers = children(server.pid)
        assert len(workers) == 2
        await server.kill()
        async with asyncio.timeout(PATIENCE):
            while any(map(is_there, workers)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        host, _, port = server.target.rpartition(":")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((host, int(port)))


@pytest.mark.slow
async def test_a_killed_worker_is_replaced() -> None:
    """The stream on the other worker continues, and the address is served meanwhile.

    The new process has the settings of the others, even if the file has changed since.
    """
    _, file = settings_file(bounds={"forget_after": 0})
    async with ServerProcess(*TWO, "--settings", file) as server:
        workers = children(server.pid)
        os.truncate(file, 5)
        channels = []
        try:
            # The kernel distributes connections: each of many RMs remains on its worker.
            for number in range(8):
                options = [("grpc.use_local_subchannel_pool", 1)]
                channels.append(grpc.aio.insecure_channel(server.target, options=options))
                session = RawSession(channels[-1], f"rm-{number}")
                call, _ = await session.begin()
                await session.replay(call)
            victim = min(workers)
            os.kill(victim, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                while not any(map(listens, children(server.pid) - workers)):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert workers - {victim} < children(server.pid)
            async with grpc.aio.insecure_channel(server.target) as channel:
                await RawSession(channel, "rm-new").begin()
        finally:
            for channel in channels:
                await channel.close()
        server.send(signal.SIGTERM)
        assert await ended(server) == (0, "")


@pytest.mark.slow
async def test_a_port_in_use_is_refused_before_workers_start() -> None:
    """A port in use is refused before any worker is started, and is not shared."""
    async with ServerProcess(*TWO, http=ANY_PORT) as server:
        for arguments, where in (
            (("--listen", server.target, "--http", "off"), server.target),
            (("--listen", ANY_PORT, "--http", server.http), server.http),
            (("--listen", ANY_PORT, "--http", "off", "--metrics", server.http), server.http),
        ):
            code, text = await refused(*arguments)
            assert (code, text) == (1, f"licorne: cannot listen on {where}: Address already in use\n")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--state-dir", "/dev/null"), "--state-dir /dev/null cannot be used"),
        (("--coordination", "etcd://127.0.0.1:1"), "--workers cannot be used with --coordination"),
        (("--workers", "many"), '--workers: expected a whole number, 1 to 256, or auto: "many"'),
        (("--workers", "257"), "--workers: expected a whole number, 1 to 256, or auto: 257"),
        (
            ("--journal", "x", *settings_file(server={"journal_size": "1Mi"})),
            "server.journal_size must be 1048576 bytes or more for each process: 524288",
        ),
        (("--listen", "0.0.0.0:0"), "refusing to serve 0.0.0.0:0 without TLS"),
        (("--config", "missing.yaml"), "missing.yaml"),
    ],
)
async def test_invalid_options_are_refused_once(arguments: tuple[str, ...], message: str) -> None:
    """Invalid options end the start with one line, before there are workers."""
    code, text = await refused("--listen", ANY_PORT, "--http", "off", *arguments)
    assert code == 1
    assert message in text
    assert len([line for line in text.splitlines() if line.startswith("licorne")]) == 1
    assert "Traceback" not in text
