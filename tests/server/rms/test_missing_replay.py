"""An RM that owes its replay is told so on its stream: nothing of it is scheduled before."""

import pytest

from licorne.v1 import session_pb2 as sp
from support.peers.shim import RawSession, connected, serving

HEARTBEAT = 0.3


@pytest.mark.parametrize("begun", [False, True])
async def test_an_rm_that_owes_its_replay_is_notified(begun: bool) -> None:
    """A notice comes after a heartbeat's time without a request, also of a replay without an end."""
    async with serving(heartbeat=HEARTBEAT) as server, connected(server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        if begun:
            await session.send(call, replay_begin=sp.ReplayBegin())
        notice = (await session.until(call, "notice")).notice
        assert notice.code == "REPLAY_MISSING"
        assert "ReplayBegin" in notice.message


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
