"""The maximum number of RMs: one more is refused, the others continue."""

import grpc
import pytest

from licorne_server.process.bounds import RmBounds
from support.peers.shim import RawSession, Shim, connected, serving


async def test_a_full_house_takes_only_its_own() -> None:
    """A registered RM may register again, over either service, and a new one is refused."""
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
