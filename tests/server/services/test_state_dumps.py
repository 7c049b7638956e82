"""The RMs' parts of a state dump: requested over sessions, bounded, and without delays for others."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from licorne.v1 import session_pb2 as sp
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import OutboxBounds
from licorne_server.rms.outbox import Outbox
from licorne_server.rms.rm import RmState
from licorne_server.wire.caps import MAX_STATE_DUMP, MAX_STATE_VALUES
from support.peers.shim import LOOPBACK, RawSession, Shim, connected, eventually, serving

WANTED = sp.Callbacks(state_dump=True)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """A server with HTTP."""
    async with serving(http=LOOPBACK) as server:
        yield server


async def dumped(server: Server) -> dict[str, Any]:
    """The RMs' parts of a state dump, by RM."""
    url = f"http://{server.http_address}/ws/v1/fullstatedump"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        assert answer.status == 200, await answer.text()
        shown: dict[str, Any] = (await answer.json())["rmDiagnostics"]
        return shown


@pytest.mark.row(166)
async def test_the_answer_of_an_rm_is_in_the_dump(server: Server, session: RawSession) -> None:
    """An RM with the callback is asked during the dump, and its document is part of the dump."""
    call, _ = await session.begin(callbacks=WANTED)
    for number in (1, 2):
        dump = asyncio.create_task(dumped(server))
        asked = (await session.until(call, "state_dump_wanted")).state_dump_wanted
        assert (asked.id, asked.deadline_milliseconds) == (number, 5000)
        await session.send(call, state_dump=sp.StateDump(id=asked.id + 7, json='"not this one"'))
        await session.send(call, state_dump=sp.StateDump(id=asked.id, json='{"pods": [1, 2]}'))
        assert await dump == {"rm": {"pods": [1, 2]}}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"json": "{"}, "json is no JSON document: Expecting property name enclosed"),
        ({"json": ""}, "json is no JSON document: Expecting value"),
        ({"json": "[NaN]"}, "json is no JSON document: NaN is no number"),
        ({"json": "[" * 100_000}, "json is no JSON document: "),
        ({"json": '"' + "x" * MAX_STATE_DUMP}, f"json has {MAX_STATE_DUMP + 1} bytes, at most "),
        (
            {"json": f"[{'[],' * MAX_STATE_VALUES}1]"},
            f"json has {2 * MAX_STATE_VALUES + 1} commas and brackets, at most {MAX_STATE_VALUES} ",
        ),
        ({"error": "cache is not there", "json": "1"}, "cache is not there"),
    ],
)
async def test_an_invalid_document_is_reported_in_the_dump(
    server: Server, session: RawSession, answer: dict[str, str], error: str
) -> None:
    """A bad answer costs the RM nothing but its part of the dump, which has the problem."""
    call, _ = await session.begin(callbacks=WANTED)
    dump = asyncio.create_task(dumped(server))
    asked = (await session.until(call, "state_dump_wanted")).state_dump_wanted
    await session.send(call, state_dump=sp.StateDump(id=asked.id, **answer))
    assert (await dump)["rm"]["error"].startswith(error)
    assert (await session.replay(call)).complete


async def test_rms_that_cannot_be_asked_are_marked(server: Server) -> None:
    """The dump does not wait for an RM that is disconnected, has no callback, or has no session."""
    async with connected(server) as channel:
        await Shim(channel, "plain").register()
        await RawSession(channel, "silent").begin()
        call, _ = await RawSession(channel, "away").begin(callbacks=WANTED)
        call.call.cancel()
        away = server.rms.get("away", "")
        await eventually(lambda: not away.connected)
        shown = await dumped(server)
    assert {rm: state["error"] for rm, state in shown.items()} == {
        "plain": "the RM is served over si.v1, which cannot ask for its state",
        "silent": "the RM does not add its state",
        "away": "the RM is not connected",
    }


async def test_a_dump_continues_when_an_rm_registers_again(server: Server, session: RawSession) -> None:
    """The dump does not wait for an answer of an RM that registers again."""
    call, _ = await session.begin(callbacks=WANTED)
    dump = asyncio.create_task(dumped(server))
    await session.until(call, "state_dump_wanted")
    await session.begin(callbacks=WANTED, instance=2)
    assert await dump == {"rm": {"error": "the RM has registered anew"}}


def questions(outbox: Outbox) -> int:
    """The number of queued messages."""
    return outbox.messages


async def test_concurrent_dumps_share_a_question() -> None:
    """Two readers cost the RM one answer, which both get."""
    outbox, state = Outbox(lambda on: None, OutboxBounds()), RmState()
    both = asyncio.gather(state.wanted(outbox), state.wanted(outbox))
    await asyncio.sleep(0)
    assert questions(outbox) == 1
    state.answered(sp.StateDump(id=1, json="7"))
    assert list(await both) == ["7", "7"]


async def test_a_missing_answer_is_reported_and_a_late_one_dropped() -> None:
    """After the deadline the dump continues; the next reader asks again, under another number."""
    outbox, state = Outbox(lambda on: None, OutboxBounds()), RmState()
    silent = await state.wanted(outbox, deadline=0.01)
    assert json.loads(silent) == {"error": "no answer within 0.01 s"}
    state.answered(sp.StateDump(id=1, json="1"))
    second = asyncio.create_task(state.wanted(outbox))
    await asyncio.sleep(0)
    assert questions(outbox) == 2
    state.answered(sp.StateDump(id=1, json="1"))
    state.answered(sp.StateDump(id=2, json="2"))
    assert await second == "2"
