"""The members of the deployment: which RMs each owns, and which members are drained.

The request to drain a member is a document under its name in the store, which the member itself reads.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from google.protobuf.message import Message

from licorne.v1 import admin_pb2 as pb
from licorne_server.services.admin.acts import Rights
from licorne_server.services.calls import Handler, unary_handler
from licorne_server.store.coordination.ownership import DRAIN, Ownership
from licorne_server.store.coordination.store import Gone, Member, MemberId, Snapshot, Store
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.store.documents.documents import Conflict, Document, StoreError
from licorne_server.store.documents.encoding import Amount, Unreadable, decode, encode
from licorne_server.wire.caps import bytes_of, size_problem, text_problem
from licorne_server.wire.errors import aborted, failed_precondition, invalid_argument, not_found, unavailable
from licorne_server.wire.responses import nanoseconds

MAX_NAME = 256
"""Maximum number of bytes of a member's name or id."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A request that a member hands its RMs over to other members."""

    by: str = ""
    time: Amount = 0.0
    why: str = ""

    @classmethod
    def read(cls, document: Document) -> "Drain":
        """Parse the request in a document; it has no details if another program wrote the document."""
        try:
            return decode(document.value, cls)
        except Unreadable:
            return cls()


class MemberMethods:
    """The calls for members; changes are for operators, reads for viewers too."""

    def __init__(self, rights: Rights, ownership: Ownership, now: Callable[[], float]) -> None:
        """Read the members from this member's snapshot of the store; `now` returns unix seconds."""
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
        answer = members_message(self._ownership.snapshot(), self._ownership.gone)
        answer.me, answer.problem = self._ownership.me(), self._ownership.problem()
        return answer

    async def _drain(self, request: pb.DrainMemberRequest, context: Any) -> Message:
        for field, problem in (
            ("member", "" if request.member else "the name or the id of a member is missing"),
            ("member", size_problem("member", bytes_of((request.member,)), MAX_NAME)),
            ("member", text_problem("member", request.member, MAX_NAME)),
        ):
            if problem:
                raise invalid_argument(problem, field)
        store, known = self._store(), self._ownership.snapshot()
        name = _named(request, known)
        wish = None
        if request.drain:
            by = self._rights.access.caller(context).peer
            wish = encode(Drain(by, self._now(), request.message))
        try:
            changed = await store.update(f"{DRAIN}{name}", partial(_wished, wish))
        except Conflict:
            raise aborted(f"others change the drain of {name} all the time", "CONTENDED") from None
        except StoreError as error:
            raise unavailable(f"the store does not answer, and this may have been done: {error}") from None
        ids = {member.id for member in known.members.values() if member.name == name}
        count = sum(record.owner in ids for record in known.rms.values())
        return pb.DrainMemberResponse(changed=changed, name=name, rms=count)

    def _store(self) -> Store:
        """The store through which the members share the RMs.

        Raises:
            CallError: FAILED_PRECONDITION, the server shares no store with others.
        """
        store = self._ownership.store
        if store is None:
            raise failed_precondition(
                "this server is alone: it was started without --coordination", "NO_COORDINATION"
            )
        return store


def _named(request: pb.DrainMemberRequest, known: Snapshot) -> str:
    """The name of the member in a request, which may give the member's id instead.

    Raises:
        CallError: NOT_FOUND. The drain of a removed member can still be cancelled.
    """
    for member in known.members.values():
        if request.member in (member.id, member.name):
            return member.name
    if not request.drain and f"{DRAIN}{request.member}" in known.documents:
        return request.member
    raise not_found(f"there is no member {request.member}")


def _wished(wish: bytes | None, before: Document) -> bytes | None:
    """The document to store: an existing request is kept; None to remove the document."""
    return before.value if wish is not None and before.revision else wish


def members_message(known: Snapshot, gone: Mapping[MemberId, Gone]) -> pb.ListMembersResponse:
    """The list of members with their RMs, of removed members, and of RMs without an owner."""
    by_owner: dict[MemberId, list[Record]] = {}
    for _, record in sorted(known.rms.items()):
        by_owner.setdefault(record.owner, []).append(record)
    answer = pb.ListMembersResponse()
    for member in sorted(known.members.values(), key=lambda member: (member.name, member.id)):
        wish = known.documents.get(f"{DRAIN}{member.name}")
        answer.members.append(_member(member, wish, by_owner.pop(member.id, [])))
    answer.unowned.extend(_rm(record, None) for record in by_owner.pop(MemberId(""), []))
    for one in sorted(gone.values(), key=lambda one: (one.member.name, one.member.id)):
        message = _member(one.member, None, by_owner.pop(one.member.id, []))
        message.state, message.since, message.load = "gone", nanoseconds(one.since), 0.0
        answer.members.append(message)
    return answer


def _member(member: Member, document: Document | None, records: list[Record]) -> pb.Member:
    """One member; `document` has the request to drain it, and is None if there is none."""
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
