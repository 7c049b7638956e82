"""Streams end with their token, or with a right that they need."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.assembly.server import Server
from licorne_server.services.calls import send_metadata
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, RawSession, Shim, ask, connected, eventually, serving
from support.peers.tls import Bearing

MINE, OTHERS, OPERATORS, NEWER = ("token-of-" + who * 8 for who in ("a", "b", "c", "d"))
GONE = "the token that opened this does not count any more: the tokens were read again"
UNKNOWN, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED
ASK = si.AllocationRequest(allocations=[ask("k")])


class Town:
    """A server with tokens of two RMs and of an operator, and their files."""

    def __init__(self, server: Server, channel: Any, folder: Path) -> None:
        """Use a channel without a token."""
        self.server = server
        self.channel = channel
        self._folder = folder

    def bearing(self, token: str) -> Any:
        """The channel with a token."""
        return Bearing(self.channel, f"Bearer {token}")

    def replace(self, name: str, token: str) -> None:
        """Put another token into a file, and reload as on SIGHUP."""
        (self._folder / name).write_text(token)
        self.server.reload()

    async def watching(self, token: str, rm_id: str) -> Any:
        """A watch of events of an RM, after its first message."""
        call = StateStub(self.bearing(token)).WatchEvents(pb.WatchEventsRequest(rm_id=rm_id))
        assert await call.read() is not grpc.aio.EOF
        return call

    async def reading(self, client: aiohttp.ClientSession, token: str, path: str) -> Any:
        """A stream over HTTP, after its first line."""
        url = f"http://{self.server.http_address}{path}"
        answer = await client.get(url, headers={"Authorization": f"Bearer {token}"})
        assert answer.status == 200
        await answer.content.readline()
        return answer


@pytest.fixture
async def town(tmp_path: Path) -> AsyncIterator[Town]:
    """RM `mine` has its own token and, in a second file, that of the operator."""
    tokens = {"mine": MINE, "second": OPERATORS, "others": OTHERS, "operator": OPERATORS}
    for name, token in tokens.items():
        (tmp_path / name).write_text(token)
    rms = {"mine": (tmp_path / "mine", tmp_path / "second"), "others": (tmp_path / "others",)}
    operators = (tmp_path / "operator",)
    async with (
        serving(http=LOOPBACK, rm_tokens=rms, operator_tokens=operators) as server,
        connected(server) as channel,
    ):
        yield Town(server, channel, tmp_path)


async def ended(call: Any) -> tuple[grpc.StatusCode, str]:
    """Status and text of the end of a watch."""
    async with asyncio.timeout(PATIENCE):
        return await call.code(), await call.details()


async def test_session_ends_with_its_token_and_is_resumed_with_the_next(town: Town) -> None:
    """A session's stream ends with the reason; the session is resumed with a new token."""
    session = RawSession(town.bearing(MINE), "mine")
    call, welcome = await session.begin()
    await session.replay(call)
    town.replace("mine", NEWER)
    assert await call.ending() == (UNKNOWN, GONE)
    [report] = town.server.scheduler.views.partitions()
    assert report.nodes == 1
    session.channel = town.bearing(NEWER)
    token = welcome.welcome.resume_token
    again, resumed = await session.begin(token=token, acknowledged=1)
    assert resumed.welcome.resumed
    await session.send(again, allocations=ASK)
    assert (await session.until(again, "allocations")).allocations.new


async def test_streams_of_si_end_with_their_token(town: Town) -> None:
    """All three streams of `si.v1` end with their token."""
    calls = await Shim(town.bearing(MINE), "mine").set_up()
    await calls[0].send(si.AllocationRequest(rmID="mine"))
    rm = town.server.rms.find("mine")
    assert rm is not None
    await eventually(lambda: len(rm.streams) == len(calls))
    town.replace("mine", NEWER)
    assert {await call.ending() for call in calls} == {(UNKNOWN, GONE)}


async def test_stream_without_messages_ends_with_its_token(town: Town) -> None:
    """A stream without a first message ends with its token, too."""
    call = RawSession(town.bearing(MINE)).open()
    await call.call.initial_metadata()
    town.replace("mine", NEWER)
    # The metadata may arrive before the server has checked the token.
    code, _ = await call.ending()
    assert code is UNKNOWN


async def test_metadata_is_sent_to_its_end() -> None:
    """A stream that ends while its metadata is being sent sends all of it, so that a status can follow."""
    begun, going, sent = asyncio.Event(), asyncio.Event(), asyncio.Event()

    class Context:
        async def send_initial_metadata(self, _: object) -> None:
            begun.set()
            await going.wait()
            sent.set()

    sending = asyncio.create_task(send_metadata(Context()))
    await begun.wait()
    sending.cancel()
    asyncio.get_running_loop().call_soon(going.set)
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert sent.is_set()


async def test_watcher_ends_with_its_token(town: Town) -> None:
    """A watch of events ends with its token."""
    await Shim(town.bearing(MINE), "mine").register()
    call = await town.watching(MINE, "mine")
    town.replace("mine", NEWER)
    assert await ended(call) == (UNKNOWN, GONE)


async def test_streams_with_a_remaining_right_continue(town: Town) -> None:
    """A token that loses the rights of an operator keeps those of an RM, with its streams."""
    await Shim(town.bearing(OTHERS), "others").register()
    session = RawSession(town.bearing(OPERATORS), "mine")
    call, _ = await session.begin()
    await session.replay(call)
    own, of_others = [await town.watching(OPERATORS, rm_id) for rm_id in ("mine", "others")]
    town.replace("operator", NEWER)
    text = "this token may not see RM others any more: the tokens were read again"
    assert await ended(of_others) == (DENIED, text)
    await session.send(call, allocations=ASK)
    assert (await session.until(call, "allocations")).allocations.new
    assert await own.read() is not grpc.aio.EOF


async def test_remaining_tokens_keep_their_streams(town: Town) -> None:
    """Other tokens, a second token of the RM, and unusable files end no streams."""
    session = RawSession(town.bearing(MINE), "mine")
    call, _ = await session.begin()
    await session.replay(call)
    town.replace("others", NEWER)
    town.replace("second", NEWER)
    town.replace("mine", "short")
    await session.send(call, allocations=ASK)
    assert (await session.until(call, "allocations")).allocations.new


@pytest.mark.parametrize(
    ("path", "last"),
    [
        ("/ws/v1/events/stream?rm=mine", {"status_code": 401, "message": GONE}),
        ("/ui/api/feed", {"status": 401, "reason": GONE}),
    ],
)
async def test_lines_over_http_end_with_the_token(town: Town, path: str, last: dict[str, object]) -> None:
    """The last line over HTTP has the reason."""
    await Shim(town.bearing(MINE), "mine").register()
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE):
        answer = await town.reading(client, MINE, path)
        town.replace("mine", NEWER)
        rest = (await answer.content.read()).decode().strip()
    told = json.loads(rest.splitlines()[-1].removeprefix("data: "))
    assert last.items() <= told.items()


async def test_the_feed_of_a_former_operator_ends(town: Town) -> None:
    """A feed of all RMs ends with the rights of an operator."""
    async with aiohttp.ClientSession() as client, asyncio.timeout(PATIENCE):
        answer = await town.reading(client, OPERATORS, "/ui/api/feed")
        town.replace("operator", NEWER)
        rest = (await answer.content.read()).decode().strip()
    told = json.loads(rest.splitlines()[-1].removeprefix("data: "))
    text = "this token may not see all of this any more: the tokens were read again"
    assert told == {"status": 403, "reason": text}
