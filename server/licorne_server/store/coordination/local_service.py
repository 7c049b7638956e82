"""The service of the backend `local`: the store of a supervisor, served over a Unix socket.

Its records (leases and owners of RMs) are in memory. `Records` does no I/O and reads no clock: the time is an
argument, in unix seconds that never decrease. The next call detects the end of a lease.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.process.coordination import MOST_LEASE
from licorne_server.process.loop import stop_task
from licorne_server.store.coordination.local import (
    REREAD,
    SERVICE,
    UNBOUNDED,
    member_of,
    owned_message,
    owned_of,
    serialized,
    snapshot_message,
)
from licorne_server.store.coordination.pb import local_pb2 as pb
from licorne_server.store.coordination.records import claimed, released
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot
from licorne_server.store.documents.documents import Conflict, StoreError, TooLarge
from licorne_server.store.documents.kept import Kept

MAX_MEMBERS = 1_024
"""Maximum number of members with a valid lease."""

MAX_RECORDS = 65_536
"""Maximum number of records of RMs; above it, records without an owner are removed, the oldest first."""


class Records:
    """Members with their leases, and records of RMs."""

    changes: int
    """Rises with every change of which watchers are notified immediately, but not with a member's load."""

    def __init__(self, start: int = 0) -> None:
        """Start without records; see `begin`."""
        self.begin(start)
        self._members: dict[MemberId, Member] = {}
        # Duration of each lease in seconds; time of its end.
        self._leases: dict[MemberId, float] = {}
        self._ends: dict[MemberId, float] = {}
        self._rms: dict[RmId, Ownership] = {}
        # RMs without an owner, in the order of their release.
        self._free: dict[RmId, None] = {}

    def begin(self, start: int) -> None:
        """Assign only epochs, revisions and changes above `start`; to be called before any other method."""
        self.changes = start + 1
        self._least_epoch = start
        self._revision = start

    def join(self, member: Member, lease: float, now: float) -> None:
        """Publish the member under a new lease of `lease` seconds.

        Raises:
            StoreError: there are too many members.
        """
        self.expire(now)
        if member.id not in self._members and len(self._members) >= MAX_MEMBERS:
            raise StoreError(f"there are {MAX_MEMBERS} members already")
        self._leases[member.id] = lease
        self._put(member, now)

    def renew(self, member: Member, now: float) -> None:
        """Renew the lease, and publish the current state of the member.

        Raises:
            LeaseLost: the lease has ended.
        """
        self.expire(now)
        if member.id not in self._members:
            raise LeaseLost(f"the lease of member {member.id} has ended")
        self._put(member, now)

    def end(self, member_id: MemberId) -> None:
        """End the lease of a member, if it has one."""
        if self._members.pop(member_id, None) is not None:
            del self._ends[member_id], self._leases[member_id]
            self.changes += 1

    def expire(self, now: float) -> None:
        """End the leases that were not renewed in time."""
        for member_id in [member_id for member_id, end in self._ends.items() if end <= now]:
            self.end(member_id)

    def next_end(self) -> float | None:
        """The time at which the next lease ends unless it is renewed; None without members."""
        return min(self._ends.values(), default=None)

    def claim(
        self,
        by: MemberId,
        rm_id: RmId,
        owner: MemberId,
        seen: Ownership | None,
        at_least: int,
        now: float,
    ) -> Ownership:
        """Make a member the owner of an RM, for the member `by`; see `Store.claim`.

        Raises:
            Conflict: a condition of the claim does not hold.
        """
        self.expire(now)
        record = self._rms.get(rm_id)
        if (seen.revision if seen else 0) != (record.revision if record else 0):
            raise Conflict(f"the record of RM {rm_id} is another one by now")
        for member_id in (by, owner):
            if member_id not in self._members:
                raise Conflict(f"member {member_id} has no lease")
        if record is not None and record.owner != by and record.owner in self._members:
            raise Conflict(f"RM {rm_id} is owned by member {record.owner}")
        if record is None:
            self._make_room()
            at_least = max(at_least, self._least_epoch)
        return self._set(claimed(rm_id, owner, record, at_least, by, now))

    def release(self, by: MemberId, owned: Ownership) -> Ownership:
        """Remove the owner of an RM of the member `by`; the epoch is retained.

        Raises:
            Conflict: the record has changed, or belongs to another member.
        """
        record = self._rms.get(owned.rm_id)
        if record is None or record.revision != owned.revision:
            raise Conflict(f"the record of RM {owned.rm_id} is another one by now")
        return self._set(released(record, by))

    def snapshot(self, now: float) -> Snapshot:
        """Members with a valid lease, and all owners."""
        self.expire(now)
        return Snapshot(members=dict(self._members), rms=dict(self._rms))

    def _put(self, member: Member, now: float) -> None:
        before = self._members.get(member.id)
        if before is None or replace(before, load={}) != replace(member, load={}):
            self.changes += 1
        self._members[member.id] = member
        self._ends[member.id] = now + self._leases[member.id]

    def _set(self, record: Ownership) -> Ownership:
        self._revision += 1
        record = self._rms[record.rm_id] = replace(record, revision=self._revision)
        self._free.pop(record.rm_id, None)
        if not record.owner:
            self._free[record.rm_id] = None
        self.changes += 1
        return record

    def _make_room(self) -> None:
        """Drop a record without an owner if there are too many; its epoch is not assigned again."""
        if len(self._rms) < MAX_RECORDS:
            return
        oldest = next(iter(self._free), None)
        if oldest is None:
            raise StoreError(f"there are {MAX_RECORDS} RMs already")
        del self._free[oldest]
        self._least_epoch = max(self._least_epoch, self._rms.pop(oldest).epoch)


Request = TypeVar("Request", bound=Message)

CODES = {
    Conflict: grpc.StatusCode.ABORTED,
    LeaseLost: grpc.StatusCode.FAILED_PRECONDITION,
    TooLarge: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
"""Status by type of error; any other `StoreError` is UNAVAILABLE."""


class LocalService:
    """Serves records and documents to members, and wakes watchers."""

    records: Records
    documents: Kept

    def __init__(self, records: Records, documents: Kept, clock: Clock) -> None:
        """Create the service; `start` listens."""
        self.records = records
        self.documents = documents
        self._clock = clock
        self._told = self._changes
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, path: Path) -> None:
        """Listen on a socket at `path`, in a folder that other users cannot enter.

        Raises:
            OSError: the path cannot be used.
        """
        options = [*UNBOUNDED, ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers([self._handler()])
        try:
            self._server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {path}: {error}") from None
        await self._server.start()
        self._task = asyncio.create_task(self._end_leases(), name="leases")

    async def stop(self) -> None:
        """Stop listening; running calls are cut off."""
        await stop_task(self._task)
        if self._server is not None:
            await self._server.stop(None)

    def snapshot(self) -> Snapshot:
        """The snapshot for watchers."""
        records = self.records.snapshot(self._clock.now())
        return dataclasses.replace(records, documents=dict(self.documents.watched))

    @property
    def _changes(self) -> int:
        """Number that rises with every change of which watchers are notified."""
        return self.records.changes + self.documents.changes

    def changed(self) -> None:
        """Wake the watchers if anything has changed."""
        if self._told != self._changes:
            self._told = self._changes
            self._changed.set()
            self._changed = asyncio.Event()
            self._wake.set()

    async def _end_leases(self) -> None:
        """End each lease when it is due, so that watchers are notified."""
        while True:
            self.records.expire(self._clock.now())
            self.changed()
            self._wake.clear()
            # A lease that is renewed meanwhile ends later. A join is a change, which sets the event.
            await self._clock.wait(self.records.next_end(), self._wake)

    def _handler(self) -> grpc.GenericRpcHandler:
        records, documents, now = self.records, self.documents, self._clock.now

        async def join(request: pb.Join) -> Message:
            if not 0 < request.lease <= MOST_LEASE:
                raise ValueError(f"lease: seconds up to {MOST_LEASE:g} were expected: {request.lease}")
            records.join(member_of(request.member), request.lease, now())
            return pb.Nothing()

        async def renew(request: pb.Member) -> Message:
            records.renew(member_of(request), now())
            return pb.Nothing()

        async def end(request: pb.End) -> Message:
            records.end(MemberId(request.member))
            return pb.Nothing()

        async def claim(request: pb.Claim) -> Message:
            seen = owned_of(request.seen) if request.HasField("seen") else None
            by, owner = MemberId(request.by), MemberId(request.owner)
            return owned_message(records.claim(by, RmId(request.rm_id), owner, seen, request.at_least, now()))

        async def release(request: pb.Release) -> Message:
            return owned_message(records.release(MemberId(request.by), owned_of(request.owned)))

        async def read(request: pb.Key) -> Message:
            found = await documents.read(request.key)
            return pb.Document(value=found.value, revision=found.revision)

        async def replace(request: pb.Replacement) -> Message:
            value = request.value if request.HasField("value") else None
            revision = await documents.compare_and_set(request.key, value, request.revision)
            return pb.Document(revision=revision)

        async def prepare(request: pb.Replacement) -> Message:
            await documents.prepare(request.key, request.value, request.revision)
            return pb.Nothing()

        async def discard(request: pb.Key) -> Message:
            await documents.discard(request.key)
            return pb.Nothing()

        served: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Join": self._method(pb.Join, join),
            "Renew": self._method(pb.Member, renew),
            "End": self._method(pb.End, end),
            "Claim": self._method(pb.Claim, claim),
            "Release": self._method(pb.Release, release),
            "Look": self._method(pb.Look, self._look),
            "Read": self._method(pb.Key, read),
            "Replace": self._method(pb.Replacement, replace),
            "Prepare": self._method(pb.Replacement, prepare),
            "Discard": self._method(pb.Key, discard),
        }
        return grpc.method_handlers_generic_handler(SERVICE, served)

    async def _look(self, request: pb.Look) -> Message:
        if request.changes == self._changes:
            with suppress(TimeoutError):
                async with asyncio.timeout(REREAD):
                    await self._changed.wait()
        return snapshot_message(self.snapshot(), self._changes, request.documents)

    def _method(
        self, request: type[Request], serve: Callable[[Request], Awaitable[Message]]
    ) -> "grpc.RpcMethodHandler[Request, Message]":
        """A unary call; an error of the store becomes the status of the call."""

        async def handle(asked: Request, context: Any) -> Message:
            try:
                return await serve(asked)
            except StoreError as error:
                await context.abort(CODES.get(type(error), grpc.StatusCode.UNAVAILABLE), str(error))
            except ValueError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            finally:
                self.changed()
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=request.FromString,
            response_serializer=serialized,
        )
