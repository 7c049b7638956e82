"""Watching events as a test does: a log that is written to, and calls that read it."""

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne.v1 import admin_pb2 as ap
from licorne.v1 import state_pb2 as pb
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_server.serving.app import Server
from support.core.facts import START, happened
from support.peers.shim import PATIENCE

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub


class Tape:
    """What one RM's log gets from a test: events with numbers that go on."""

    def __init__(self, server: Server, rm_id: str = "rm") -> None:
        """Behind what the registration itself led to."""
        self.server = server
        self.rm_id = rm_id
        self.base = server.events.get(rm_id).next_id
        self.count = 0

    def play(self, count: int, *, each: int = 1, time: float = START) -> None:
        """So many facts of `each` events happen in one turn, at a time in unix seconds."""
        self.server.rms.route([happened(self.rm_id, self.count, count, each=each, time=time)])
        self.count += count * each

    def numbers(self, found: Any) -> list[int]:
        """The numbers of events, which must fit their ids."""
        numbers = [int(event.record.objectID.removeprefix("app-")) for event in found]
        assert [event.id - self.base for event in found] == numbers
        return numbers


class Watcher:
    """A call of WatchEvents, and all that came."""

    def __init__(self, state: "StateAsyncStub", **request: Any) -> None:
        """Call."""
        self.call: Any = state.WatchEvents(pb.WatchEventsRequest(**request))
        self.instance = ""
        self.events: list[pb.Event] = []

    async def begin(self) -> "Watcher":
        """Wait for the first message: what happens from now on is heard."""
        await self.read()
        return self

    async def read(self) -> bool:
        """Take a message; whether there was one."""
        async with asyncio.timeout(PATIENCE):
            answer = await self.call.read()
        if answer is grpc.aio.EOF:
            return False
        self.instance = answer.instance
        self.events += answer.events
        return True

    async def hear(self, count: int) -> list[pb.Event]:
        """Read until so many events came."""
        while len(self.events) < count:
            assert await self.read()
        return self.events

    async def ending(self) -> tuple[grpc.StatusCode, str, dict[str, str]]:
        """Read to the end: status, reason and what goes with it."""
        try:
            while await self.read():
                pass
        except grpc.aio.AioRpcError as error:
            return error.code(), *info_of(error)
        raise AssertionError("the watch ended in order")


def info_of(error: grpc.aio.AioRpcError) -> tuple[str, dict[str, str]]:
    """Reason and metadata in an error."""
    status = rpc_status.from_call(error)
    for detail in status.details if status else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info.reason, dict(info.metadata)
    return "", {}


async def configure(channel: grpc.aio.Channel, rm_id: str = "rm", **extra: str) -> None:
    """Change an RM's extra configuration."""
    keys = {f"event.{name}": value for name, value in extra.items()}
    request = ap.UpdateConfigurationRequest(rm_id=rm_id, extra_config=keys)
    await AdminStub(channel).UpdateConfiguration(request)
