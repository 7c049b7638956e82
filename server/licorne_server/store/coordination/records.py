"""Members and owners as stored bytes, and the records made by claims and releases.

Records are JSON (`documents/encoding.py`) with the number of their format, which is raised only by changes
that older readers would misread.
"""

import heapq
from dataclasses import replace
from typing import Any, TypeVar

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import Member, MemberId, Ownership
from licorne_server.store.documents.documents import Conflict
from licorne_server.store.documents.encoding import Unreadable, encode, fields_in, made, plain

FORMAT = 1

MAX_RECORD = 512 * 1024
"""Maximum number of bytes of a record that is read."""

MOST_LOADS = 500
"""Maximum number of RMs whose load a member publishes, the highest first; larger records are not read."""

T = TypeVar("T")


def write_member(member: Member) -> bytes:
    """Encode the record of a member, without its id, which is the key."""
    heaviest = heapq.nlargest(MOST_LOADS, member.load.items(), key=lambda item: (item[1], item[0]))
    return _write(replace(member, load=dict(heaviest)), "id")


def read_member(member: MemberId, data: bytes) -> Member:
    """Read a member from its record.

    Raises:
        Unreadable: the bytes are no record of a member.
    """
    return _read(Member, data, id=member)


def write_ownership(record: Ownership) -> bytes:
    """Encode the record of an RM, without its revision and its id, which is the key."""
    return _write(record, "rm_id", "revision")


def read_ownership(rm_id: RmId, data: bytes, revision: int) -> Ownership:
    """Read the ownership of an RM from its record.

    Raises:
        Unreadable: the bytes are no record of an RM.
    """
    return _read(Ownership, data, rm_id=rm_id, revision=revision)


def claimed(
    rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int, by: MemberId, now: float
) -> Ownership:
    """The record of a claim by a member, at a time in unix seconds, without its revision."""
    if seen is None:
        return Ownership(rm_id=rm_id, owner=owner, epoch=at_least + 1)
    handed_on = seen.owner == by != owner
    return Ownership(
        rm_id=rm_id,
        owner=owner,
        epoch=max(seen.epoch, at_least) + 1,
        moved=now if handed_on else seen.moved,
    )


def released(owned: Ownership, by: MemberId) -> Ownership:
    """The record of a release by a member, without its revision.

    Raises:
        Conflict: the RM belongs to another member, or to none.
    """
    if not by or owned.owner != by:
        raise Conflict(f"RM {owned.rm_id!r} is released by {by!r}, and owned by {owned.owner!r}")
    return replace(owned, owner=MemberId(""), revision=0)


def _write(value: object, *known: str) -> bytes:
    """A record without the fields that the store provides itself."""
    fields = plain(value)
    return encode({"format": FORMAT, **{name: fields[name] for name in fields if name not in known}})


def _read(kind: type[T], data: bytes, **known: Any) -> T:
    if len(data) > MAX_RECORD:
        raise Unreadable(f"{len(data)} bytes, {MAX_RECORD} at most were expected")
    return made({**fields_in(data, FORMAT), **known}, kind)
