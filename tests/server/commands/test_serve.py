"""`licorne serve` as a process: the ready line, refusals and signals."""

import asyncio
import signal
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.patience import PATIENCE
from support.peers.shim import RawSession, Shim, application, ask, new_allocations, node
from support.peers.tls import Bearing
from support.server.server_process import PROGRAM, ServerProcess, get
from support.server.settings_file import settings_file

REFUSED = (
    "refusing to serve 0.0.0.0:0 without TLS: give --tls-cert and --tls-key, "
    "listen on 127.0.0.1, or say --insecure"
)
ANY_PORT = "127.0.0.1:0"
FREE = ("--listen", ANY_PORT, "--http", ANY_PORT)


async def licorne(*arguments: str) -> asyncio.subprocess.Process:
    """Start the command."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*PROGRAM, *arguments, stdout=pipe, stderr=pipe)


async def outcome(server: ServerProcess) -> tuple[int, str]:
    """Wait for the end; returns the exit code, and the output after the first line."""
    async with asyncio.timeout(PATIENCE):
        return await server.ended(), await server.last_words()


async def refused(*arguments: str) -> tuple[int | None, str]:
    """The exit code and stderr of a command that fails at its start."""
    process = await licorne(*arguments)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert not out
    return process.returncode, err.decode()


@pytest.mark.slow
async def test_one_line_has_the_addresses_once_the_server_is_ready() -> None:
    """Stdout has only this line, and both ports answer by then."""
    async with ServerProcess(http=ANY_PORT) as server:
        target, http = server.target, server.http
        assert server.line == f"listening grpc={target} http={http}\n"
        assert await asyncio.to_thread(get, f"http://{http}/readyz") == 200
        async with grpc.aio.insecure_channel(target) as channel:
            await Shim(channel).register()
        check = await licorne("healthcheck", "--url", f"http://{http}/livez")
        await check.communicate()
        assert check.returncode == 0
        server.send(signal.SIGTERM)
        assert await outcome(server) == (0, "")
    code, text = await refused("healthcheck", "--url", f"http://{http}/livez")
    assert code == 1
    assert "Connection refused" in text


@pytest.mark.slow
@pytest.mark.row(19)
async def test_sigterm_drains_the_server() -> None:
    """Sessions get a notice and pending decisions, and then the process exits with 0."""
    async with ServerProcess() as server:
        assert server.http == "off"
        async with grpc.aio.insecure_channel(server.target) as channel:
            await RawSession(channel).leave_when_drained(partial(server.send, signal.SIGTERM))
        assert await outcome(server) == (0, "")


@pytest.mark.slow
async def test_a_second_signal_ends_the_server_at_once() -> None:
    """A second signal ends a drain that waits for an RM."""
    async with (
        ServerProcess(*settings_file(server={"drain": 600})) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        session = RawSession(channel)
        call, _ = await session.begin()
        server.send(signal.SIGTERM)
        await session.until(call, "drain")
        server.send(signal.SIGTERM)
        assert await outcome(server) == (1, "")


@pytest.mark.slow
async def test_a_second_server_on_a_port_does_not_start() -> None:
    """A port in use is an error, and is not shared."""
    async with ServerProcess(http=ANY_PORT) as server:
        target = server.target
        code, text = await refused("serve", "--listen", target, "--http", "off")
        assert code == 1
        assert text == f"licorne: cannot listen on {target}: Address already in use\n"
        http = server.http
        code, text = await refused("serve", "--listen", "127.0.0.1:0", "--http", http)
        assert code == 1
        assert f"licorne: cannot listen on {http}: " in text
        assert "address already in use" in text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("--listen", "0.0.0.0:0"), REFUSED), (("--nonsense",), "unrecognized arguments: --nonsense")],
)
async def test_a_refusal_is_the_only_output(arguments: tuple[str, ...], message: str) -> None:
    """A refusal has no traceback, no output on stdout, and an exit code of failure."""
    code, text = await refused("serve", *FREE, *arguments)
    assert code == 1
    assert text.endswith(f"{message}\n")
    assert "Traceback" not in text


@pytest.mark.slow
async def test_default_configuration_is_for_rms_without_one(tmp_path: Path) -> None:
    """RMs without queues get those of --config, and an invalid file stops the start."""
    file = tmp_path / "queues.yaml"
    queues = "[{name: root, submitacl: '*', queues: [{name: only}]}]"
    file.write_text(f"partitions: [{{name: default, queues: {queues}}}]")
    async with (
        ServerProcess("--config", str(file)) as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        shim = Shim(channel)
        await shim.register()
        calls = [shim.open(name) for name in ("UpdateApplication", "UpdateAllocation")]
        answer = await shim.applications(
            calls[0], application("app", "root.only"), application("lost", "root.other")
        )
        assert [item.applicationID for item in answer.accepted] == ["app"]
        await shim.nodes(shim.open("UpdateNode"), node("n0", vcore=100))
        await shim.ask(calls[1], ask("k"))
        assert await new_allocations(calls[1], 1) == {"k": "n0"}
    file.write_text("partitions: 3")
    code, text = await refused("serve", *FREE, "--config", str(file))
    assert code == 1
    assert f"licorne: the default configuration is refused:\n{file}:1:13: partitions:" in text


@pytest.mark.slow
async def test_sighup_reloads_the_tokens(tmp_path: Path) -> None:
    """SIGHUP does not end the server, and makes it accept the token that is now in the file."""
    file = tmp_path / "token"
    file.write_text("the-first-token-of-rm")
    async with (
        ServerProcess("--rm-token", f"rm={file}") as server,
        grpc.aio.insecure_channel(server.target) as channel,
    ):
        first = Bearing(channel, "Bearer the-first-token-of-rm")
        second = Bearing(channel, "Bearer the-second-token-of-rm")
        assert await is_taken(first)
        file.write_text("the-second-token-of-rm")
        server.send(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            while not await is_taken(second):
                pass
        assert not await is_taken(first)


async def is_taken(channel: Any) -> bool:
    """True if the RM can register with the channel's token."""
    try:
        await Shim(channel).register()
    except grpc.aio.AioRpcError as error:
        return error.code() is not grpc.StatusCode.UNAUTHENTICATED
    return True
