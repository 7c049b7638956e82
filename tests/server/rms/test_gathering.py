"""Messages of a stream wait briefly for further items."""

import asyncio

import pytest

from licorne_server.rms import streams
from licorne_server.rms.streams import FEW_ITEMS, Stream
from licorne_server.security.access import PassedOn


class Context:
    """A call whose messages are dropped."""

    def peer(self) -> str:
        """Its caller."""
        return "ipv4:127.0.0.1:1"

    async def write(self, message: bytes) -> None:
        """Drop a message."""


class PassedContext(Context, PassedOn):
    """The same call, passed on by another member."""


async def gathering(context: Context) -> asyncio.Task[bool]:
    """The task of a stream that has just written many items: whether it waits for more."""
    stream = Stream(context)
    await stream.write(b"")
    stream.wrote_items = FEW_ITEMS
    task = asyncio.create_task(stream.more_may_come(1, busy=True))
    await asyncio.sleep(0)
    return task


async def test_a_passed_stream_waits_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A passed message costs more, because two members handle it, so it waits longer for further items."""
    monkeypatch.setattr(streams, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(streams, "PASSED_GATHER_SECONDS", 3600.0)
    assert await (await gathering(Context())) is False
    passed = await gathering(PassedContext())
    assert not passed.done()
    passed.cancel()
