"""Calls that this member passes on to other members, over one stream to each.

A passed call belongs to the epoch of its RM's record. When the record names another owner, the call ends with
UNAVAILABLE, and later messages of the former owner are dropped. When its owner is gone, this happens
`LAST_SECONDS` later: a member that stops ends its calls in order, and the record may be read before its last
messages. Clients of `si.v1` check no epochs: this member does it for them, as it sees both records.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from math import inf
from typing import Any

import grpc
import structlog

from licorne_core.values.ids import RmId
from licorne_server.process.loop import stop_task
from licorne_server.rms.streams import Stream
from licorne_server.security.access import Access, PassedOn
from licorne_server.services.members.packing import ACCEPTED, CANCELLED, SERVICE, PackedCall, PackedStream
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.secret import METADATA, Secret
from licorne_server.store.coordination.store import Member, MemberId, Snapshot
from licorne_server.wire.errors import CallError, Malformed, unavailable

log = structlog.get_logger("core.coordination.passing")

CONNECT_SECONDS = 5.0
"""Seconds within which another member has to accept this one."""

CHECK_SECONDS = 0.25
"""Seconds between two checks of the records of the RMs whose calls are passed on."""

LAST_SECONDS = 3.0
"""Seconds for which messages of an owner that is gone still count, unless the RM has another owner."""

STALL_SECONDS = 30.0
"""Seconds without progress after which the reader of a passed call is cut off."""

TRACED = ("traceparent", "tracestate")
"""Metadata that is passed on."""

_OPTIONS = [
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.enable_retries", 0),
    # A separate pool, so that a new connection does not wait for the back-off of an earlier connection.
    ("grpc.use_local_subchannel_pool", 1),
    # gRPC detects by these pings a member that has vanished without closing its connection.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
]

_ENDS = (grpc.aio.AioRpcError, TimeoutError, CallError, Malformed, OSError, asyncio.InvalidStateError)
"""Errors that end a connection. gRPC raises InvalidStateError for a write to a stream that has just ended."""

Credentials = Callable[[], grpc.ChannelCredentials | None]
"""Reads the credentials of a new connection; None for a connection without TLS."""


class _Connection:
    """The stream to one member. It is opened with the first call, and reopened after a failure."""

    def __init__(self, member: Member, secret: Secret, credentials: Credentials) -> None:
        """Start unconnected; `credentials` are read for each new connection."""
        self._member = member
        self._secret = secret
        self._credentials = credentials
        self._task: asyncio.Task[None] | None = None
        self._ready: asyncio.Future[PackedStream]

    @property
    def is_idle(self) -> bool:
        """True if no call is open or opening."""
        if self._task is None or self._task.done():
            return True
        return self._ready.done() and not self._ready.exception() and self._ready.result().is_idle

    async def open(self, opening: pb.Open) -> PackedCall:
        """Begin a call.

        Raises:
            CallError: UNAVAILABLE, the member does not answer.
        """
        if self._task is None or self._task.done():
            self._ready = asyncio.get_running_loop().create_future()
            self._task = asyncio.create_task(self._run(), name=f"member {self._member.name}")
        stream = await asyncio.shield(self._ready)
        return stream.open(opening)

    async def stop(self) -> None:
        """End the stream, and with it all its calls."""
        await stop_task(self._task)

    async def _run(self) -> None:
        """Connect, then read and write until the stream ends."""
        member = self._member
        try:
            async with self._channel() as channel:
                metadata = ((METADATA, self._secret.value),)
                call: Any = channel.stream_stream(f"/{SERVICE}/Pass")(metadata=metadata)
                async with asyncio.timeout(CONNECT_SECONDS):
                    if await call.read() != ACCEPTED:
                        raise unavailable("it has ended the connection")

                async def read() -> bytes | None:
                    raw = await call.read()
                    return raw if isinstance(raw, bytes) else None

                async def write(raw: bytes) -> None:
                    await call.write(raw)

                stream = PackedStream(read, write)
                self._ready.set_result(stream)
                await stream.run()
            log.info("member has ended the connection", member=member.name, address=member.address)
        except _ENDS as error:
            reason = _reason(error)
            log.warning("member not reached", member=member.name, address=member.address, reason=reason)
            if not self._ready.done():
                self._ready.set_exception(unavailable(f"member {member.name} does not answer: {reason}"))
                # This marks the exception as retrieved: all callers that waited may have been cancelled.
                self._ready.exception()
        finally:
            if not self._ready.done():
                self._ready.set_exception(unavailable(f"member {member.name} is not called any more"))
                self._ready.exception()

    def _channel(self) -> grpc.aio.Channel:
        where = self._member.address
        if where.startswith("unix:"):
            # By default gRPC sends the path of the socket as the host name, which only gRPC's servers accept.
            named = [*_OPTIONS, ("grpc.default_authority", "localhost")]
            return grpc.aio.insecure_channel(where, options=named)
        credentials = self._credentials()
        if credentials is None:
            return grpc.aio.insecure_channel(where, options=_OPTIONS)
        return grpc.aio.secure_channel(where, credentials, options=_OPTIONS)


def _reason(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:g} s"
    return str(error)


class _Record:
    """The record of an RM at the time at which a call was passed on to its owner."""

    def __init__(self, rm_id: RmId, owner: MemberId, snapshot: Snapshot) -> None:
        """`snapshot` may be older than the record that named the owner."""
        self.rm_id = rm_id
        self._owner = owner
        found = snapshot.rms.get(rm_id)
        self._epoch = 0 if found is None else found.epoch
        self._is_seen = False
        self._gone_at = inf
        self.counts(snapshot, 0.0)

    def counts(self, snapshot: Snapshot, now: float) -> bool:
        """True as long as the snapshot names no other owner; `now` is in the loop's time."""
        found = snapshot.rms.get(self.rm_id)
        if found is None:
            return True
        if not self._is_seen:
            if found.owner != self._owner or self._owner not in snapshot.members:
                # True if the snapshot is older than the call; false if another member has claimed the RM.
                return found.epoch <= self._epoch
            self._is_seen = True
        # An owner that claims the RM again raises the epoch, and ends the earlier calls by itself.
        if found.owner != self._owner:
            return False
        self._gone_at = inf if self._owner in snapshot.members else min(self._gone_at, now)
        return now < self._gone_at + LAST_SECONDS


class Passing:
    """Passes calls on to other members."""

    def __init__(
        self, ownership: Ownership, access: Access, credentials: Credentials, secret: Secret
    ) -> None:
        """Start unconnected. `ownership` has the owners of RMs, `access` identifies callers.

        The `secret` has to be set before the first call.
        """
        self._ownership = ownership
        self._access = access
        self._credentials = credentials
        self._secret = secret
        self._connections: dict[MemberId, _Connection] = {}
        self._records: dict[PackedCall, _Record] = {}
        self._streams: dict[PackedCall, Stream] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow the owners of RMs."""
        self._task = asyncio.create_task(self._follow(), name="owners of passed calls")

    def drain(self, reason: str, retry_after: float) -> list[Stream]:
        """Have the owners end the passed streams in order; returns these streams.

        Only the owner can do so: it has the queued messages, and the numbers of a session. An owner may be
        stopping too.
        """
        leave = pb.Leave(reason=reason, retry_after_milliseconds=int(retry_after * 1000))
        for call in self._streams:
            call.ask_to_leave(leave)
        return list(self._streams.values())

    async def stop(self) -> None:
        """End all calls."""
        await stop_task(self._task)
        for connection in tuple(self._connections.values()):
            await connection.stop()

    async def call(self, member: Member, method: str, raw: bytes, context: Any, rm_id: str = "") -> bytes:
        """The answer of another member to a unary call; `rm_id` names the RM of the call, if any.

        Raises:
            CallError: the status of its answer, or UNAVAILABLE without an answer.
        """
        async with self.reading(member, method, raw, context, rm_id) as call:
            answer = await call.receive()
            await call.ended.wait()
            call.check()
            if answer is None:
                raise unavailable(f"member {member.name} has given no answer")
            return answer

    async def watch(self, member: Member, method: str, raw: bytes, context: Any, rm_id: str = "") -> None:
        """Pass on a call of one request and many responses.

        Raises:
            CallError: see `call`.
        """
        async with self.reading(member, method, raw, context, rm_id) as call:
            while (message := await call.receive()) is not None:
                try:
                    async with asyncio.timeout(STALL_SECONDS):
                        await context.write(message)
                except TimeoutError:
                    # The caller has the last message that it has read, and can resume there.
                    raise unavailable("this reader did not keep up") from None
            call.check()

    @asynccontextmanager
    async def reading(
        self, member: Member, method: str, raw: bytes, context: Any, rm_id: str = ""
    ) -> AsyncIterator[PackedCall]:
        """A call of one request; inside the block its responses are received.

        Raises:
            CallError: UNAVAILABLE, the member does not answer.
        """
        with self._passed(await self._begin(member, method, context, rm_id), member, rm_id) as call:
            await call.send(raw)
            yield call

    async def pass_stream(
        self, member: Member, method: str, context: Any, stream: Stream, first: bytes, rm_id: str
    ) -> None:
        """Pass on a stream of an RM, whose `first` message is already read, until the stream ends.

        Raises:
            CallError: see `call`.
        """
        with self._passed(await self._begin(member, method, context, rm_id), member, rm_id) as call:
            record, now = self._records[call], asyncio.get_running_loop().time

            async def up() -> None:
                message: bytes | None = first
                while message is not None:
                    await call.send(message)
                    message = await stream.read()
                call.half()

            async def end() -> None:
                await call.ended.wait()

            async def down() -> None:
                while (message := await call.receive()) is not None:
                    if not record.counts(self._ownership.snapshot(), now()):
                        _lose(call, rm_id)
                        break
                    await stream.write(message)
                await call.ended.wait()
                call.check()

            self._streams[call] = stream
            try:
                await stream.run(up(), end(), down(), _nothing)
            finally:
                del self._streams[call]

    async def _begin(self, member: Member, method: str, context: Any, rm_id: str) -> PackedCall:
        """Open a call at another member.

        Raises:
            CallError: UNAVAILABLE, the member does not answer; or the call was passed on already.
        """
        if isinstance(context, PassedOn):
            # The member that has passed on the call has an older or a newer record of the RM.
            raise unavailable(f"{f'RM {rm_id}' if rm_id else 'this'} is not served by this member")
        caller = self._access.caller(context)
        metadata = context.invocation_metadata() or ()
        opening = pb.Open(
            method=method,
            caller=pb.Caller(
                names=sorted(caller.names),
                operator=caller.operator,
                viewer=caller.viewer,
                peer=caller.peer,
                address=context.peer(),
            ),
            metadata={key: value for key, value in metadata if key in TRACED},
        )
        connection = self._connections.get(member.id)
        if connection is None:
            connection = _Connection(member, self._secret, self._credentials)
            self._connections[member.id] = connection
        return await connection.open(opening)

    @contextmanager
    def _passed(self, call: PackedCall, member: Member, rm_id: str) -> Iterator[PackedCall]:
        """Inside the block the call is open; it is ended if its RM gets another owner."""
        if rm_id:
            self._records[call] = _Record(RmId(rm_id), member.id, self._ownership.snapshot())
        try:
            yield call
        finally:
            self._records.pop(call, None)
            call.finish(CANCELLED)

    async def _follow(self) -> None:
        """End calls whose records have changed, and connections to removed members."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            try:
                await self._look()
            except Exception:
                log.exception("owners of passed calls not followed")

    async def _look(self) -> None:
        snapshot, now = self._ownership.snapshot(), asyncio.get_running_loop().time()
        for call, record in tuple(self._records.items()):
            if not record.counts(snapshot, now):
                _lose(call, record.rm_id)
        for member_id in self._connections.keys() - snapshot.members.keys():
            if self._connections[member_id].is_idle:
                await self._connections.pop(member_id).stop()


def _lose(call: PackedCall, rm_id: str) -> None:
    """End a call whose RM has another owner."""
    call.lose(grpc.StatusCode.UNAVAILABLE.value[0], f"RM {rm_id} is served by another member now")


def _nothing() -> None:
    """Does nothing when woken: the writer wakes at the end of its call."""
