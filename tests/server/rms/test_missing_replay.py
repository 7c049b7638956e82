"""An RM that owes its replay is told so on its stream: nothing of it is scheduled before."""

import grpc
import pytest

from licorne.v1 import session_pb2 as sp
from support.peers.shim import RawSession, connected, serving, violations

HEARTBEAT = 0.3


async def test_an_rm_that_never_replays_is_told() -> None:
    """A notice comes after a heartbeat's time without a request."""
    async with serving(heartbeat=HEARTBEAT) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        notice = (await session.until(call, "notice")).notice
        assert notice.code == "REPLAY_MISSING"
        assert "ReplayBegin" in notice.message


async def test_an_rm_that_does_not_end_its_replay_is_told() -> None:
    """A replay that was begun and never ended keeps the RM unscheduled just as well."""
    async with serving(heartbeat=HEARTBEAT) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.send(call, replay_begin=sp.ReplayBegin())
        assert (await session.until(call, "notice")).notice.code == "REPLAY_MISSING"


async def test_after_a_replay_nothing_is_missing() -> None:
    """Heartbeats come then, and no notice."""
    async with serving(heartbeat=HEARTBEAT) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.replay(call)
        kinds = set[str]()
        while "heartbeat" not in kinds:
            kinds.add((await call.next()).WhichOneof("message"))
        assert "notice" not in kinds


async def test_an_instance_of_zero_is_refused(session: RawSession) -> None:
    """An RM that forgot the number could never fence an older process of its own."""
    call = await session.hello(instance=0)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call.read()
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert list(violations(refused.value)) == ["hello.instance"]
