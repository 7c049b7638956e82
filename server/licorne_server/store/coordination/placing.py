"""Chooses the member for an RM, and the next move for balance.

An RM is assigned to a member by weighted rendezvous hashing: a number is derived from the RM and the address
of each member, and the member with the lowest number wins. So when a member leaves, only its own RMs move. A
member's weight is the free part of its core, as a member makes its decisions on one core.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from math import log

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import Member, MemberId, Snapshot

LEAST_WEIGHT = 0.05
"""Weight of a member that has no free part of a core."""

LEAST_GAIN = 0.2
"""Share by which moves must lower the load of the most loaded member."""

LEAST_LOAD = 0.05
"""Load in cores below which no RM is moved."""

REST = 600.0
"""Seconds after a move during which the RM is not moved again."""

MOST_TOLD = 16
"""Maximum number of addresses of other members that are sent to an RM."""

LONGEST_TOLD = 260
"""Maximum number of bytes of an address that is sent to an RM: a DNS name with a port."""


@dataclass(frozen=True, slots=True)
class Move:
    """An RM and its new member."""

    rm_id: RmId
    target: Member


def candidates(snapshot: Snapshot, me: Member) -> list[Member]:
    """The members that may be given an RM; `me` replaces this member's entry in the snapshot.

    They are not draining, and support a version of the protocol that this member supports. Of several members
    at one address only the latest can be alive.
    """
    at: dict[str, Member] = {}
    for member in snapshot.members.values():
        other = at.get(member.address)
        if other is None or (member.started, member.id) >= (other.started, other.id):
            at[member.address] = member
    at[me.address] = me
    spoken = set(me.protocols)
    return [member for member in at.values() if not member.draining and spoken & set(member.protocols)]


def choose(rm_id: RmId, members: Iterable[Member]) -> Member | None:
    """The member for an RM; None if there are no members."""
    return min(members, key=lambda member: (_draw(rm_id, member), member.id), default=None)


def told_to(rm_id: RmId, snapshot: Snapshot, me: MemberId) -> tuple[str, ...]:
    """The addresses of the other members for an RM, in the order in which it should dial them.

    The likely next owner is first, so that the RMs of a member that dies do not all dial the same member;
    draining members are last. RMs do not dial Unix sockets: workers share one address.
    """
    mine = {member.address for member in snapshot.members.values() if member.id == me}
    found = {
        member.address: (member.draining, _draw(rm_id, member), member.address)
        for member in snapshot.members.values()
        if member.address not in mine
        and not member.address.startswith("unix:")
        and len(member.address.encode()) <= LONGEST_TOLD
    }
    return tuple(sorted(found, key=found.__getitem__)[:MOST_TOLD])


def _draw(rm_id: RmId, member: Member) -> float:
    """The member's draw for the RM: with twice the weight it wins twice as often."""
    text = f"{len(rm_id)} {rm_id} {member.address}".encode()
    number = int.from_bytes(blake2b(text, digest_size=8).digest())
    weight = max(LEAST_WEIGHT, 1.0 - load_of(member))
    return -log((number + 1) / 2**64) / weight


def load_of(member: Member) -> float:
    """The load of all RMs of a member, in cores."""
    return sum(member.load.values())


def next_move(
    members: Iterable[Member], mine: MemberId, movable: Mapping[RmId, float], now: float
) -> Move | None:
    """The RM that the member `mine` should move away; None unless it has the highest load.

    The result is the largest useful move to the least loaded member. All useful moves together must lower the
    higher load of the two members by enough. `movable` are the RMs of this member, each with the unix time of
    the last move.
    """
    loads = {member.id: (load_of(member), member.id, member) for member in members}
    if mine not in loads or len(loads) < 2:
        return None
    load, _, source = max(loads.values(), key=lambda entry: entry[:2])
    least, _, target = min(loads.values(), key=lambda entry: entry[:2])
    if source.id != mine or load < LEAST_LOAD:
        return None
    first: Move | None = None
    left = load
    for share, rm_id in sorted(((source.load.get(rm_id, 0.0), rm_id) for rm_id in movable), reverse=True):
        # A time in the future is due to a wrong clock, and is ignored.
        if 0 <= now - movable[rm_id] < REST or max(left - share, least + share) >= max(left, least):
            continue
        left, least = left - share, least + share
        first = first or Move(rm_id, target)
    return first if max(left, least) <= load * (1 - LEAST_GAIN) else None
