"""The members of the deployment: who has which RMs, and who gives them away.

A member is drained by a document of the store under its name, which the member itself follows.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_server.services.admin.rights import Rights
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.coordination.ownership import DRAIN, Ownership
from licorne_server.store.coordination.store import (
    Conflict,
    Document,
    Member,
    MemberId,
    Snapshot,
    Store,
    StoreError,
)
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.wire.caps import bytes_of, comment_problem, size_problem, text_problem
from licorne_server.wire.errors import aborted, failed_precondition, invalid_argument, not_found, unavailable
from licorne_server.wire.responses import nanoseconds

MAX_NAME = 256
"""Bytes of a member's name or id."""

TRIES = 3
"""Tries to write a document that others write, too."""


class Drain(NamedTuple):
    """The wish that a member gives its RMs away."""

    by: str = ""
    time: float = 0.0
    why: str = ""

    @classmethod
    def read(cls, document: Document) -> "Drain":
        """The wish in a document; without details if it is written by something else."""
        try:
            fields = json.loads(document.value)
            return cls(str(fields["by"]), float(fields["time"]), str(fields["why"]))
        except (KeyError, TypeError, ValueError, RecursionError):
            return cls()

    def value(self) -> bytes:
        """The document."""
        return json.dumps(self._asdict()).encode()


class MemberMethods:
    """The calls about members; changes are for operators, reads for viewers too."""

    def __init__(self, rights: Rights, ownership: Ownership, now: Callable[[], float]) -> None:
        """Over the members as this one knows them; `now` gives the time, in unix seconds."""
        self._rights = rights
        self._ownership = ownership
        self._now = now

    def methods(self) -> dict[str, Handler]:
        """The methods by name."""
        drain = self._rights.audited("drain member", self._drain, "member", "drain", "message")
        return {
            "ListMembers": unary_handler(pb.ListMembersRequest, self._list),
            "DrainMember": unary_handler(pb.DrainMemberRequest, drain),
        }

    async def _list(self, _: pb.ListMembersRequest, context: Any) -> Message:
        self._rights.access.check_viewer(context)
        self._store()
        answer = members_message(self._ownership.snapshot())
        answer.me, answer.problem = self._ownership.me(), self._ownership.problem()
        return answer

    async def _drain(self, request: pb.DrainMemberRequest, context: Any) -> Message:
        for field, problem in (
            ("member", "" if request.member else "the name or the id of a member is missing"),
            ("member", size_problem("member", bytes_of((request.member,)), MAX_NAME)),
            ("member", text_problem("member", request.member, MAX_NAME)),
            ("message", comment_problem(request.message)),
        ):
            if problem:
                raise invalid_argument(problem, field)
        store, known = self._store(), self._ownership.snapshot()
        name = _named(request, known)
        wish = None
        if request.drain:
            by = self._rights.access.caller(context).peer
            wish = Drain(by, self._now(), request.message).value()
        try:
            changed = await _put(store, f"{DRAIN}{name}", wish)
        except StoreError as error:
            raise unavailable(f"the store does not answer, and this may have been done: {error}") from None
        ids = {member.id for member in known.members.values() if member.name == name}
        count = sum(record.owner in ids for record in known.rms.values())
        return pb.DrainMemberResponse(changed=changed, name=name, rms=count)

    def _store(self) -> Store:
        """The store of the deployment.

        Raises:
            CallError: FAILED_PRECONDITION, the server is alone.
        """
        store = self._ownership.store
        if store is None:
            raise failed_precondition(
                "this server is alone: it was started without --coordination", "NO_COORDINATION"
            )
        return store


def _named(request: pb.DrainMemberRequest, known: Snapshot) -> str:
    """The name of the member that a request means.

    Raises:
        CallError: NOT_FOUND. A wish about a member that is gone can be taken back.
    """
    for member in known.members.values():
        if request.member in (member.id, member.name):
            return member.name
    if not request.drain and f"{DRAIN}{request.member}" in known.documents:
        return request.member
    raise not_found(f"there is no member {request.member}")


async def _put(store: Store, key: str, value: bytes | None) -> bool:
    """Write a wish or remove it; False if there was one already, or none.

    Raises:
        CallError: ABORTED, others write it all the time.
        StoreError: the store does not answer.
    """
    for _ in range(TRIES):
        before = await store.read(key)
        if bool(before.revision) == (value is not None):
            return False
        try:
            await store.compare_and_set(key, value, before.revision)
        except Conflict:
            continue
        return True
    raise aborted(f"others change {key} all the time", "CONTENDED")


def members_message(known: Snapshot) -> pb.ListMembersResponse:
    """Members with their RMs, those that are gone, and RMs without an owner."""
    by_owner: dict[MemberId, list[Record]] = {}
    for _, record in sorted(known.rms.items()):
        by_owner.setdefault(record.owner, []).append(record)
    answer = pb.ListMembersResponse()
    for member in sorted(known.members.values(), key=lambda member: (member.name, member.id)):
        wish = known.documents.get(f"{DRAIN}{member.name}")
        answer.members.append(_member(member, wish, by_owner.pop(member.id, [])))
    answer.unowned.extend(_rm(record, None) for record in by_owner.pop(MemberId(""), []))
    for owner, records in sorted(by_owner.items()):
        answer.members.add(id=owner, name=owner, state="gone", rms=[_rm(record, None) for record in records])
    return answer


def _member(member: Member, document: Document | None, records: list[Record]) -> pb.Member:
    """One member; `document` is the wish that it be drained."""
    wish = Drain() if document is None else Drain.read(document)
    is_drained = member.draining or document is not None
    return pb.Member(
        id=member.id,
        name=member.name,
        address=member.address,
        http=member.http,
        version=member.version,
        state="draining" if is_drained else "active",
        since=nanoseconds(wish.time if is_drained else member.started),
        load=sum(member.load.values()),
        rms=[_rm(record, member) for record in records],
        drained_by=wish.by,
        drained_why=wish.why,
    )


def _rm(record: Record, member: Member | None) -> pb.MemberRm:
    load = 0.0 if member is None else member.load.get(record.rm_id, 0.0)
    return pb.MemberRm(rm_id=record.rm_id, epoch=record.epoch, load=load, moved=nanoseconds(record.moved))
