"""`licorne events`: past events, and new ones across restarts."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from licorne.v1 import admin_pb2 as ap
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.assembly.server import Server
from licorne_server.process.settings import Address
from support.core.builders import START, happened
from support.patience import PATIENCE
from support.peers.shim import Shim, connected, serving
from support.peers.town import Shell, interrupted


@asynccontextmanager
async def server_with(*rm_ids: str, port: int = 0) -> AsyncIterator[Server]:
    """A server on which these RMs are registered."""
    async with (
        serving(listen=Address(host="127.0.0.1", port=port)) as server,
        connected(server) as channel,
    ):
        for rm_id in rm_ids:
            await Shim(channel, rm_id).register()
        yield server


def play(server: Server, first: int, count: int, rm_id: str = "rm", *, time: float = START) -> int:
    """Record this number of events; returns the id of the first."""
    start = server.events.get(rm_id).next_id
    server.engine.answer([happened(rm_id, first, count, time=time)])
    return start


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with two RMs."""
    async with server_with("rm", "other") as server:
        yield server


@pytest.fixture
def shell(server: Server, capsys: pytest.CaptureFixture[str]) -> Shell:
    """A shell for commands against the server."""
    return Shell(server.grpc_address, capsys)


@pytest.mark.slow
async def test_all_stored_events_are_printed(server: Server, shell: Shell) -> None:
    """All stored events are printed, however many answers of the server that takes."""
    start = play(server, 0, 25_000)
    result = await shell("events", "-o", "json")
    ids = [event["id"] for event in result.json["events"]]
    assert ids == list(range(start + 25_000))
    assert len((await shell("events")).rows) == start + 25_001


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--rm", "x"), 3, 'no RM "x"; there are: '),
        (("--rm", "x", "-w"), 3, 'no RM "x"; there are: '),
        (("--rm", "off"), 4, "Event tracking is disabled"),
        (("--rm", "off", "-w", "--from", "0"), 4, "Event tracking is disabled"),
    ],
)
async def test_events_that_cannot_be_shown(
    server: Server, shell: Shell, arguments: tuple[str, ...], code: int, text: str
) -> None:
    """A failure is one line on stderr and nothing on stdout, with `-w` or without."""
    async with connected(server) as channel:
        await Shim(channel, "off").register(extraConfig={"event.trackingEnabled": "false"})
        result = await shell("events", *arguments, "-o", "json")
    assert (result.code, result.out) == (code, "")
    assert text in result.err


class Following:
    """A running process of `licorne events -w`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        """Wrap a running process."""
        self.process = process

    async def line(self) -> str:
        """The next line on stdout."""
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stdout.readline()).decode()

    async def subjects(self, count: int) -> list[str]:
        """The subjects of the next events, in JSON."""
        lines = [json.loads(await self.line()) for _ in range(count)]
        return [line["record"]["objectID"] for line in lines]

    async def until(self, last: str) -> list[str]:
        """The subjects of the next events, up to a given one."""
        found = await self.subjects(1)
        while found[-1] != last:
            found += await self.subjects(1)
        return found

    async def said(self) -> str:
        """The next line on stderr."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            return (await self.process.stderr.readline()).decode()


@asynccontextmanager
async def following(target: str, *arguments: str) -> AsyncIterator[Following]:
    """The running command, which exits with 130 when it is interrupted at the end."""
    async with interrupted("events", "-w", "--target", target, *arguments) as process:
        yield Following(process)


def names(first: int, count: int) -> list[str]:
    """The subjects of the events with these numbers."""
    return [f"app-{number}" for number in range(first, first + count)]


async def test_watched_events_are_printed_as_a_table(server: Server) -> None:
    """The header is printed at once, and each event as it happens, in columns."""
    start = play(server, 0, 1)
    async with following(server.grpc_address, "--from", str(start)) as events:
        header, first = await events.line(), await events.line()
        play(server, 1, 1)
        second = await events.line()
    assert header.split()[0] == "ID"
    assert [first.split()[0], second.split()[0]] == [str(start), str(start + 1)]
    assert header.index("OBJECT") == first.index("app-0") == second.index("app-1")


async def test_a_watch_continues_after_missed_events(server: Server) -> None:
    """When the command is cut off as too slow, it reports the gap and continues with the stored events."""
    start = play(server, 0, 5)
    async with connected(server) as channel:
        extra = {"event.ringBufferCapacity": "100"}
        request = ap.UpdateConfigurationRequest(rm_id="rm", extra_config=extra)
        await AdminStub(channel).UpdateConfiguration(request)
    where = ("--rm", "rm", "--from", str(start), "-o", "json")
    async with following(server.grpc_address, *where) as events:
        assert await events.subjects(5) == names(0, 5)
        play(server, 5, 1000)
        # Events are stored for ten seconds while there is a subscriber.
        play(server, 1005, 1, time=START + 10.5)
        assert await events.subjects(100) == names(906, 100)
        missed = f"licorne: events {start + 5} to {start + 905} are not kept any more\n"
        assert await events.said() == missed


async def test_a_watch_survives_registrations_and_restarts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The command waits for server and RM, and continues with their new events."""
    async with server_with("rm") as server:
        address = server.grpc_address
        port = int(address.rpartition(":")[2])
        where = ("--from", str(play(server, 0, 3)), "-o", "json")
        async with following(address, *where) as events:
            assert await events.subjects(3) == names(0, 3)
            async with connected(server) as channel:
                await Shim(channel).register()
            play(server, 10, 2)
            assert await events.said() == "licorne: the RM registered anew: ids start over\n"
            assert (await events.until("app-11"))[-2:] == names(10, 2)
            await server.stop()
            lost = await events.said()
            assert lost.startswith(f"licorne: lost {address}: ")
            async with server_with("rm", port=port) as again:
                play(again, 20, 2)
                assert await events.said() == "licorne: the RM registered anew: ids start over\n"
                assert (await events.until("app-21"))[-2:] == names(20, 2)
