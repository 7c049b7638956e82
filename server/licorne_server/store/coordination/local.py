"""The backend `local`: a member's access to the store in the memory of its supervisor, on one host.

The supervisor serves it over a Unix socket in a folder that only its user may enter (`local_service.py`). A
watch requests one snapshot at a time. It is answered once there is a newer snapshot, so that a slow reader
gets the newest.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import grpc
from google.protobuf.message import Message

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination.pb import local_pb2 as pb
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import Conflict, Document, StoreError, TooLarge
from licorne_server.store.documents.kept import LARGEST

SERVICE = "licorne.local.Store"

REREAD = 2.0
"""Seconds after which a watch gets a snapshot even if nothing has changed."""

UNBOUNDED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Options of channels and server: sizes of messages are unlimited, because the store bounds its content."""


def serialized(message: Message) -> bytes:
    """The bytes of a message of any class."""
    return message.SerializeToString()


_MEMBER = tuple(pb.Member.DESCRIPTOR.fields_by_name)
_OWNED = tuple(pb.Owned.DESCRIPTOR.fields_by_name)
"""Fields of these messages, which have the names of our types' fields."""


def member_message(member: Member) -> pb.Member:
    """Convert a member to a message."""
    return pb.Member(**{name: getattr(member, name) for name in _MEMBER})


def member_of(message: pb.Member) -> Member:
    """Read a member from a message."""
    values = {name: getattr(message, name) for name in _MEMBER}
    return Member(**{**values, "protocols": tuple(message.protocols), "load": dict(message.load)})


def owned_message(record: Ownership) -> pb.Owned:
    """Convert the record of an RM to a message."""
    return pb.Owned(**{name: getattr(record, name) for name in _OWNED})


def owned_of(message: pb.Owned) -> Ownership:
    """Read the record of an RM from a message."""
    return Ownership(**{name: getattr(message, name) for name in _OWNED})


def snapshot_message(snapshot: Snapshot, changes: int, known: int) -> pb.Snapshot:
    """Convert a snapshot to a message, without documents up to the revision `known`."""
    return pb.Snapshot(
        changes=changes,
        members=map(member_message, snapshot.members.values()),
        rms=map(owned_message, snapshot.rms.values()),
        documents=[
            pb.Document(
                key=key,
                revision=document.revision,
                value=document.value if document.revision > known else None,
            )
            for key, document in snapshot.documents.items()
        ],
    )


def snapshot_of(message: pb.Snapshot, known: Mapping[str, Document]) -> Snapshot:
    """Decode a snapshot from a message; omitted documents are copied from `known`."""
    return Snapshot(
        members={MemberId(member.id): member_of(member) for member in message.members},
        rms={RmId(owned.rm_id): owned_of(owned) for owned in message.rms},
        documents={
            one.key: Document(value=one.value, revision=one.revision)
            if one.HasField("value")
            else known[one.key]
            for one in message.documents
        },
    )


TIMEOUT = 5.0
"""Maximum seconds of a call, which are enough because the supervisor does little else."""

DISK_TIMEOUT = 20.0
"""Maximum seconds of a call that may wait for the disk. A backup may delay a write by five seconds."""

RETRY = 0.1
"""Seconds after which a watch without an answer requests again."""

R = TypeVar("R", bound=Message)


class LocalStore(Store):
    """The store of the supervisor whose socket is `options.hosts[0]`."""

    shared = False
    largest = LARGEST
    patience = DISK_TIMEOUT

    def __init__(self, options: Coordination) -> None:
        """Create the store unconnected; the first call has to be made in a running loop."""
        self.lease = options.lease
        self._target = f"unix:{options.hosts[0]}"
        self._channel: grpc.aio.Channel | None = None
        self._closed = False
        self._me = MemberId("")

    async def join(self, member: Member) -> None:
        """Publish the member under a new lease."""
        await self._call("Join", pb.Join(member=member_message(member), lease=self.lease), pb.Nothing)
        self._me = member.id

    async def renew(self, member: Member) -> None:
        """Renew the lease, and publish the current state of the member."""
        await self._call("Renew", member_message(member), pb.Nothing)

    async def leave(self) -> None:
        """End the member's lease."""
        if self._me:
            await self.evict(self._me)

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """Make a member the owner of an RM; returns the new record."""
        claim = pb.Claim(
            by=self._me,
            rm_id=rm_id,
            owner=owner,
            seen=None if seen is None else owned_message(seen),
            at_least=at_least,
        )
        return owned_of(await self._call("Claim", claim, pb.Owned))

    async def release(self, owned: Ownership) -> Ownership:
        """Remove the owner of an RM of this member; the epoch is retained."""
        release = pb.Release(by=self._me, owned=owned_message(owned))
        return owned_of(await self._call("Release", release, pb.Owned))

    async def watch(self) -> AsyncIterator[Snapshot]:
        """Snapshots: one immediately, then one after each change and every few seconds."""
        changes = 0
        documents: dict[str, Document] = {}
        while True:
            known = max((document.revision for document in documents.values()), default=0)
            look = pb.Look(changes=changes, documents=known)
            try:
                answer = await self._call("Look", look, pb.Snapshot, REREAD + TIMEOUT)
            except StoreError:
                # The next answer may be from another supervisor, whose counters start at 0.
                changes, documents = 0, {}
                await asyncio.sleep(RETRY)
                continue
            snapshot = snapshot_of(answer, documents)
            changes, documents = answer.changes, dict(snapshot.documents)
            yield snapshot

    async def read(self, key: str) -> Document:
        """The document of the key."""
        found = await self._call("Read", pb.Key(key=key), pb.Document)
        return Document(value=found.value, revision=found.revision)

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace the document of this revision; 0 creates it, None removes it. Returns the new revision."""
        self.check_size(key, value)
        replacement = pb.Replacement(key=key, value=value, revision=revision)
        return (await self._call("Replace", replacement, pb.Document, DISK_TIMEOUT)).revision

    async def prepare(self, key: str, value: bytes, revision: int) -> None:
        """Check whether the same `compare_and_set` would succeed now, and reserve room for it on the disk."""
        self.check_size(key, value)
        prepared = pb.Replacement(key=key, value=value, revision=revision)
        await self._call("Prepare", prepared, pb.Nothing, DISK_TIMEOUT)

    async def discard(self, key: str) -> None:
        """Release the room that `prepare` has reserved."""
        await self._call("Discard", pb.Key(key=key), pb.Nothing, DISK_TIMEOUT)

    async def evict(self, member: MemberId) -> None:
        """End the lease of a member that has certainly ended."""
        await self._call("End", pb.End(member=member), pb.Nothing)

    async def close(self) -> None:
        """Close the connection. The lease expires if `leave` was not called."""
        self._closed = True
        if self._channel is not None:
            await self._channel.close(None)

    async def _call(self, method: str, request: Message, answer: type[R], seconds: float = TIMEOUT) -> R:
        """Call the supervisor.

        Raises:
            StoreError: the supervisor has refused the call, or does not answer.
        """
        if self._closed:
            raise StoreError("the store was closed")
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(self._target, options=UNBOUNDED)
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=serialized,
            response_deserializer=answer.FromString,
        )
        try:
            response: R = await call(request, timeout=seconds)
        except grpc.aio.AioRpcError as error:
            raise _ERRORS.get(error.code(), StoreError)(error.details() or str(error.code())) from None
        return response


_ERRORS: dict[grpc.StatusCode, type[StoreError]] = {
    grpc.StatusCode.ABORTED: Conflict,
    grpc.StatusCode.FAILED_PRECONDITION: LeaseLost,
    grpc.StatusCode.RESOURCE_EXHAUSTED: TooLarge,
}
"""Errors by status; any other status means that the store does not answer."""


STORE = LocalStore
