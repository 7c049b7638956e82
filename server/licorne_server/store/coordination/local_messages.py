"""The messages between a store of the backend `local` and its members, converted to and from our types."""

from collections.abc import Mapping

from google.protobuf.message import Message

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.pb import local_pb2 as pb
from licorne_server.store.coordination.store import Member, MemberId, Ownership, Snapshot
from licorne_server.store.documents.documents import Document

SERVICE = "licorne.local.Store"

REREAD = 2.0
"""Seconds after which a watch gets a snapshot without a change."""

UNBOUNDED = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""Options of channel and server: the store itself bounds its content."""


def serialized(message: Message) -> bytes:
    """The bytes of a message of any class."""
    return message.SerializeToString()


def member_message(member: Member) -> pb.Member:
    """Convert a member to a message."""
    return pb.Member(
        id=member.id,
        name=member.name,
        address=member.address,
        http=member.http,
        version=member.version,
        protocols=member.protocols,
        started=member.started,
        draining=member.draining,
        load={str(rm_id): cores for rm_id, cores in member.load.items()},
    )


def member_of(message: pb.Member) -> Member:
    """Read a member from a message."""
    return Member(
        id=MemberId(message.id),
        name=message.name,
        address=message.address,
        http=message.http,
        version=message.version,
        protocols=tuple(message.protocols),
        started=message.started,
        draining=message.draining,
        load={RmId(rm_id): cores for rm_id, cores in message.load.items()},
    )


def owned_message(record: Ownership) -> pb.Owned:
    """Convert the record of an RM to a message."""
    return pb.Owned(
        rm_id=record.rm_id,
        owner=record.owner,
        epoch=record.epoch,
        moved=record.moved,
        revision=record.revision,
    )


def owned_of(message: pb.Owned) -> Ownership:
    """Read the record of an RM from a message."""
    return Ownership(
        rm_id=RmId(message.rm_id),
        owner=MemberId(message.owner),
        epoch=message.epoch,
        moved=message.moved,
        revision=message.revision,
    )


def snapshot_message(snapshot: Snapshot, changes: int, known: int) -> pb.Snapshot:
    """Convert a snapshot to a message, without documents of the revision `known` and below."""
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
    """Read a snapshot from a message; omitted documents are taken from `known`."""
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
