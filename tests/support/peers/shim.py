"""A resource manager that a test drives: raw RPCs, and short ways to write messages."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2  # type: ignore[import-untyped]
from grpc_status import rpc_status  # type: ignore[import-untyped]

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.scheduler import Scheduler
from licorne_server.assembly.server import Server, running
from licorne_server.process.bounds import RmBounds
from licorne_server.process.clock import Clock
from licorne_server.process.settings import Address, Settings
from licorne_server.wire.errors import CallError
from support.patience import PATIENCE

FREE_PLANS = RmBounds(plan_pause=0.0)
LOOPBACK = Address(host="127.0.0.1", port=0)

STREAMS = {
    "UpdateNode": si.NodeResponse,
    "UpdateApplication": si.ApplicationResponse,
    "UpdateAllocation": si.AllocationResponse,
}

TWO_QUEUES = """
partitions:
  - name: default
    queues:
      - name: root
        submitacl: "*"
        queues:
          - name: default
          - name: small
            resources: {max: {vcore: 2}}
"""


@asynccontextmanager
async def serving(
    *, scheduler: Scheduler | None = None, clock: Clock | None = None, **changes: Any
) -> AsyncIterator[Server]:
    """A server on loopback without HTTP, with changed settings.

    However long this process, which also runs the tests, is blocked, no plan is delayed, and no session is
    lost for silence.
    """
    changes = {"listen": LOOPBACK, "http": None, "drain": 1.0, "rms": FREE_PLANS, **changes}
    settings = Settings(**{"heartbeat": PATIENCE, **changes})
    async with running(settings, scheduler=scheduler, clock=clock) as server:
        yield server


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A channel of its own to the server."""
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(server.grpc_address, options=options) as channel:
        yield channel


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """Status and text of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return refused.value.code(), refused.value.details() or ""


async def eventually(condition: Callable[[], Any]) -> None:
    """Let the loop run until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while True:
            if condition():
                return
            await asyncio.sleep(0)


def resource(**amounts: int) -> si.Resource:
    """Amounts by name."""
    return si.Resource(resources={name: si.Quantity(value=n) for name, n in amounts.items()})


def node(node_id: str, **amounts: int) -> si.NodeInfo:
    """A node to create."""
    return si.NodeInfo(nodeID=node_id, action=si.NodeInfo.CREATE, schedulableResource=resource(**amounts))


def application(app_id: str, queue: str = "", **fields: Any) -> si.AddApplicationRequest:
    """An application of the user `tester`, or, without a queue, in the namespace `ns`."""
    fields.setdefault("ugi", si.UserGroupInformation(user="tester"))
    fields.setdefault("tags", {} if queue else {"namespace": "ns"})
    return si.AddApplicationRequest(applicationID=app_id, queueName=queue, **fields)


def ask(key: str, app_id: str = "app", vcore: int = 100, **fields: Any) -> si.Allocation:
    """An ask for this amount of vcore."""
    fields.setdefault("resourcePerAlloc", resource(vcore=vcore))
    return si.Allocation(allocationKey=key, applicationID=app_id, **fields)


def releases(*items: si.AllocationRelease) -> si.AllocationReleasesRequest:
    """The releases of an AllocationRequest."""
    return si.AllocationReleasesRequest(allocationsToRelease=items)


def detail(error: grpc.aio.AioRpcError, kind: Any) -> Any:
    """The detail of that kind in an error; empty if there is none."""
    status = rpc_status.from_call(error)
    found = kind()
    for packed in status.details if status else ():
        if packed.Unpack(found):
            break
    return found


def info_of(error: grpc.aio.AioRpcError) -> tuple[str, dict[str, str]]:
    """Reason and metadata of an error."""
    info = detail(error, error_details_pb2.ErrorInfo)
    return info.reason, dict(info.metadata)


def violations(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """The field violations in an error's details: texts by field."""
    found = detail(error, error_details_pb2.BadRequest).field_violations
    return {item.field: item.description for item in found}


def faults(error: CallError) -> dict[str, str]:
    """The field violations in an error that was not sent: texts by field."""
    return {
        item.field: item.description
        for detail in error.details
        if isinstance(detail, error_details_pb2.BadRequest)
        for item in detail.field_violations
    }


class Call:
    """One bidirectional stream of bytes; received messages are parsed with `answer`."""

    def __init__(
        self,
        channel: grpc.aio.Channel,
        method: str,
        answer: Any,
        metadata: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Open the stream."""
        # Without metadata none are passed: the channel may have metadata of its own.
        given: dict[str, Any] = {"metadata": tuple(metadata)} if metadata else {}
        self.call: Any = channel.stream_stream(method)(**given)
        self._answer = answer

    async def send(self, message: Any) -> None:
        """Write a message, or bytes as they are."""
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        await self.call.write(raw)

    async def read(self) -> Any:
        """The next message; None if the stream has ended."""
        async with asyncio.timeout(PATIENCE):
            raw = await self.call.read()
        return None if raw is grpc.aio.EOF else self.parse(raw)

    def parse(self, raw: bytes) -> Any:
        """The message in these bytes."""
        return self._answer.FromString(raw)

    async def next(self) -> Any:
        """The next message, which must exist."""
        message = await self.read()
        assert message is not None, await self.ending()
        return message

    async def ending(self) -> tuple[grpc.StatusCode, str]:
        """Final status and text of the stream; earlier messages are skipped."""
        async with asyncio.timeout(PATIENCE):
            try:
                while await self.call.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError:
                pass
            return await self.call.code(), await self.call.details() or ""

    async def half_close(self) -> None:
        """End the requests."""
        await self.call.done_writing()


class Shim:
    """An RM that speaks `si.v1`."""

    def __init__(self, channel: grpc.aio.Channel, rm_id: str = "rm") -> None:
        """Use a channel; nothing is sent yet."""
        self.channel = channel
        self.rm_id = rm_id

    async def register(self, config: str = "", **fields: Any) -> None:
        """Register the RM."""
        request = si.RegisterResourceManagerRequest(rmID=self.rm_id, config=config, **fields)
        await self.unary("/si.v1.Scheduler/RegisterResourceManager", request.SerializeToString())

    async def unary(self, method: str, raw: bytes) -> bytes:
        """Make a unary call with bytes."""
        call: Any = self.channel.unary_unary(method)
        answer: bytes = await call(raw, timeout=PATIENCE)
        return answer

    def open(self, stream: str, metadata: Sequence[tuple[str, str]] = ()) -> Call:
        """Open one of the three streams; its first message names the RM."""
        return Call(self.channel, f"/si.v1.Scheduler/{stream}", STREAMS[stream], metadata)

    async def nodes(self, call: Call, *nodes: si.NodeInfo) -> si.NodeResponse:
        """Send nodes and read the answer."""
        await call.send(si.NodeRequest(rmID=self.rm_id, nodes=nodes))
        response: si.NodeResponse = await call.next()
        return response

    async def applications(self, call: Call, *new: si.AddApplicationRequest) -> si.ApplicationResponse:
        """Send applications and read the answer."""
        await call.send(si.ApplicationRequest(rmID=self.rm_id, new=new))
        response: si.ApplicationResponse = await call.next()
        return response

    async def ask(self, call: Call, *asks: si.Allocation) -> None:
        """Send asks."""
        await call.send(si.AllocationRequest(rmID=self.rm_id, allocations=asks))

    async def set_up(self, *, config: str = "", nodes: int = 1, vcore: int = 1000) -> tuple[Call, Call, Call]:
        """Register, with some nodes and the application `app`; return the streams, that of asks first."""
        await self.register(config)
        node_call, app_call = self.open("UpdateNode"), self.open("UpdateApplication")
        alloc_call = self.open("UpdateAllocation")
        await self.nodes(node_call, *(node(f"n{i}", vcore=vcore) for i in range(nodes)))
        await self.applications(app_call, application("app"))
        return alloc_call, app_call, node_call


async def hang_up(server: Server, *calls: Call, rm_id: str = "rm") -> None:
    """End the streams of an RM, and wait until the server has noticed."""
    for call in calls:
        call.call.cancel()
    rm = server.rms.find(rm_id)
    assert rm is not None
    await eventually(lambda: not rm.connected)


async def new_allocations(call: Call, count: int) -> dict[str, str]:
    """The next `count` new allocations: the node by key."""
    placed: dict[str, str] = {}
    while len(placed) < count:
        response = await call.next()
        assert not response.rejectedAllocations, response
        placed |= {item.allocationKey: item.nodeID for item in response.new}
    return placed


class RawSession:
    """An RM that speaks `Session.Update`, one message at a time."""

    def __init__(self, channel: grpc.aio.Channel, rm_id: str = "rm") -> None:
        """Use a channel."""
        self.channel = channel
        self.rm_id = rm_id
        self.number = 0

    def open(self, metadata: Sequence[tuple[str, str]] = ()) -> Call:
        """Open a stream without a message."""
        return Call(self.channel, "/licorne.v1.Session/Update", sp.UpdateResponse, metadata)

    async def hello(
        self,
        *,
        instance: int = 1,
        token: str = "",
        acknowledged: int = 0,
        metadata: Sequence[tuple[str, str]] = (),
        **fields: Any,
    ) -> Call:
        """Open a stream with a hello."""
        fields.setdefault("registration", si.RegisterResourceManagerRequest())
        call = self.open(metadata)
        fields.setdefault("protocol", 1)
        hello = sp.Hello(
            rm_id=self.rm_id,
            instance=instance,
            resume_token=token,
            acknowledged=acknowledged,
            **fields,
        )
        await call.send(sp.UpdateRequest(hello=hello))
        return call

    async def begin(self, **fields: Any) -> tuple[Call, sp.UpdateResponse]:
        """A stream and the welcome on it."""
        call = await self.hello(**fields)
        welcome = await call.next()
        assert welcome.HasField("welcome"), welcome
        if not welcome.welcome.resumed:
            self.number = 0
        return call, welcome

    async def send(self, call: Call, *, acknowledged: int = 0, **message: Any) -> int:
        """Send a numbered request; return its number."""
        self.number += 1
        await call.send(sp.UpdateRequest(number=self.number, acknowledged=acknowledged, **message))
        return self.number

    async def replay(
        self,
        call: Call,
        *,
        nodes: int = 1,
        vcore: int = 1000,
        asks: Mapping[str, str] | None = None,
    ) -> sp.ReplayResult:
        """Replay some nodes, the application `app`, and asks (application by key)."""
        asks = asks or {}
        await self.send(call, replay_begin=sp.ReplayBegin())
        infos = [node(f"n{i}", vcore=vcore) for i in range(nodes)]
        await self.send(call, nodes=si.NodeRequest(nodes=infos))
        await self.send(call, applications=si.ApplicationRequest(new=[application("app")]))
        if asks:
            items = [ask(key, app_id) for key, app_id in asks.items()]
            await self.send(call, allocations=si.AllocationRequest(allocations=items))
        end = sp.ReplayEnd(nodes=nodes, applications=1, allocations=len(asks))
        await self.send(call, replay_end=end)
        result: sp.ReplayResult = (await self.until(call, "replay_result")).replay_result
        return result

    async def leave_when_drained(self, drain: Callable[[], None]) -> None:
        """Have an ask placed, let the server be drained, and end the session with a goodbye."""
        call, _ = await self.begin()
        await self.replay(call, asks={"k": "app"})
        await self.until(call, "allocations")
        drain()
        await self.until(call, "drain")
        await self.send(call, goodbye=sp.Goodbye())
        assert (await call.ending())[0] is grpc.StatusCode.OK

    async def until(self, call: Call, kind: str) -> Any:
        """The next response of a kind; other kinds are skipped."""
        while True:
            response = await call.next()
            if response.WhichOneof("message") == kind:
                return response
