"""Many RMs: their cost for each other, counted and not timed, and their maximum number."""

from pathlib import Path

import grpc
import pytest

import licorne_core
import licorne_server
from licorne_server.process.bounds import RmBounds
from support.peers.shim import RawSession, Shim, connected, serving
from support.wire.one_ask import trace_one_ask

FOLDERS = [Path(package.__path__[0]) for package in (licorne_core, licorne_server)]


@pytest.mark.pure
def test_an_ask_costs_the_same_however_many_rms_are_connected() -> None:
    """Idle sessions of other RMs are not examined on the way of an ask."""
    few, many = (trace_one_ask(FOLDERS, others) for others in (1, 6))
    assert many.calls == few.calls


async def test_a_full_server_accepts_registered_rms_only() -> None:
    """With the maximum of RMs a registered RM may register again, over either service, but no new one."""
    async with serving(rms=RmBounds(number=2)) as server, connected(server) as channel:
        await Shim(channel, "one").register()
        await Shim(channel, "two").register()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await Shim(channel, "three").register()
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == "2 RMs are registered already"
        await Shim(channel, "one").register()
        _, welcome = await RawSession(channel, "two").begin()
        assert not welcome.welcome.resumed
