"""The escrow of one budget: its document in the store, and the rule by which slices move.

Each RM that uses the budget has a *holding*: a slice, which its owner may allocate, and an overdraft, which
is the use beyond the slice. The *rest* is the limit minus the slices and overdrafts of all RMs. A slice grows
only out of the rest. All functions are pure.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources
from licorne_server.store.documents import encoding
from licorne_server.store.documents.documents import MAX_DOCUMENT
from licorne_server.store.documents.encoding import Count, Unreadable

Amounts = Mapping[str, Count]
"""Resources in a document."""

SPARE = 8
"""Divisor: a grant adds this part of the room that no RM wants, so that not every ask needs a grant."""

ROOMY = 4
"""Factor: while no other RM wants more, a slice is reduced only above this many times the recent use."""

KEPT = 2
"""Factor: a slice above `ROOMY` times the recent use is reduced to this many times that use."""

NEAR = 16
"""Divisor: an RM that lacks less than this part of its fair part gets nothing from the slices of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """The part of a budget that an RM holds. It remains when the member that owns the RM has ended."""

    epoch: Count
    """Epoch of the owner that wrote the holding."""
    slice: Amounts = field(default_factory=dict)
    overdraft: Amounts = field(default_factory=dict)
    """Use beyond the slice. It counts like the slice; until it has ended nothing new is allocated."""
    want: Amounts = field(default_factory=dict)
    """Amounts needed beyond slice and use."""
    turn: Count = 0
    """Position in the queue of RMs that want more, the lowest first; 0 if the RM wants nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Escrowed:
    """The document of one budget."""

    limit: Amounts
    revision: Count
    """Revision of the definition from which the limit was taken."""
    scope: str = ""
    """Digest of the budget's scope (`scope_of`)."""
    settling: str = ""
    """Name of the current period of settling, or empty. When a document or its scope is new, members first
    charge the use of their RMs, and nothing is granted."""
    serial: Count = 0
    """Number of the write. It changes the document with every write, so that late writes conflict."""
    turns: Count = 0
    """The highest `turn` that any holding has received."""
    holdings: Mapping[RmId, Holding] = field(default_factory=dict)

    def rest(self) -> dict[str, int]:
        """The unassigned amounts; negative for an overdraft or after the limit was lowered."""
        return {
            name: limit - sum(_charged(held, name) for held in self.holdings.values())
            for name, limit in self.limit.items()
        }

    def having(self, holdings: Mapping[RmId, Holding]) -> "Escrowed":
        """The document with some holdings replaced."""
        turns = max((self.turns, *(held.turn for held in holdings.values())))
        return replace(self, holdings={**self.holdings, **holdings}, turns=turns)

    def without(self, rm_ids: Collection[RmId]) -> "Escrowed":
        """The document without the holdings of some RMs."""
        left = {rm_id: held for rm_id, held in self.holdings.items() if rm_id not in rm_ids}
        return replace(self, holdings=left)


def _charged(held: Holding, name: str) -> int:
    return held.slice.get(name, 0) + held.overdraft.get(name, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """An RM's use of a budget, as seen by its owner's core."""

    used: Resources = field(default_factory=dict)
    """Charged amounts, including those of assumed allocations."""
    needed: Resources = field(default_factory=dict)
    """The size of a slice with which no pending ask would wait for the budget."""
    recent: Resources = field(default_factory=dict)
    """The highest of the recent uses and grants."""
    granted: Resources = field(default_factory=dict)
    """The largest slice that was recently granted."""


def settled(budget: Escrowed, rm_id: RmId, epoch: int, use: Use, living: Collection[RmId]) -> Holding:
    """The RM's next holding, to be written by its owner; `living` RMs have an owner.

    Growth: a slice is first raised to the use, as far as the rest allows. Then wants are granted in the order
    of their turns. An RM moves to the end of the queue when it gets a part of its want, and when its slice
    falls below its use.

    Shrinking: amounts beyond the recent use are returned as far as the wants of others exceed the rest;
    without such wants only a slice of over `ROOMY` times the recent use is reduced. As long as an RM in the
    queue has less than its fair part, RMs with more than theirs get nothing, and their slices shrink to their
    fair part. Use beyond that is overdraft, which ends with the allocations. A grant is retained for a while,
    to allow time for its use.

    While the total charge exceeds the limit, no slice is larger than the part of the limit that the
    others leave: an RM's use beyond that is overdraft, and nothing new is allocated anywhere.
    """
    own = budget.holdings.get(rm_id, Holding(epoch=epoch))
    others = [(held, key in living) for key, held in budget.holdings.items() if key != rm_id]
    parts = {name: _part(budget, name, own, others, use) for name in budget.limit}
    want = {name: part.want for name, part in parts.items() if part.want}
    beyond = {name: use.used.get(name, 0) - part.size for name, part in parts.items()}
    over = {name: amount for name, amount in beyond.items() if amount > 0}
    granted = any(part.granted for part in parts.values())
    turn = _turn(budget, own, wants=bool(want), had=granted or bool(over and not own.overdraft))
    size = {name: part.size for name, part in parts.items()}
    return Holding(epoch=epoch, slice=size, overdraft=over, want=_said(own.want, want), turn=turn)


class _Part(NamedTuple):
    """The new values of one resource of a holding."""

    size: int
    want: int
    granted: bool


def _part(
    budget: Escrowed, name: str, own: Holding, others: Iterable[tuple[Holding, bool]], use: Use
) -> _Part:
    """Settle one resource; `others` are pairs of a holding and whether its RM has an owner."""
    used, recent = use.used.get(name, 0), use.recent.get(name, 0)
    needed = max(used, use.needed.get(name, 0))
    most = room = budget.limit[name]
    needs, line = [max(needed, recent)], []
    for one, lives in others:
        charged = _charged(one, name)
        most -= charged
        if not lives:
            room -= charged
            continue
        wanted = one.want.get(name, 0)
        needs.append(charged + wanted)
        # An RM with an overdraft gets nothing until the overdraft has ended.
        if wanted and one.turn and not one.overdraft.get(name):
            line.append((one.turn, charged, wanted))
    most = max(0, most)
    held = min(own.slice.get(name, 0), most)
    before = sum(wanted for turn, _, wanted in line if not own.turn or turn < own.turn)
    after = sum(wanted for turn, _, wanted in line if 0 < own.turn < turn)
    fair, lack = _fair(room, needs, line) if line else (most, 0)
    keeps = max(fair, use.granted.get(name, 0)) if lack else most
    now = max(held, min(used, most, keeps))
    granted = False
    if needed > now and max(used, now) <= (fair if lack else most) and not budget.settling:
        now += _grant(needed - max(used, now), most - now, before, after)
        granted = now > max(held, used)
    if now == held:
        rest = most - max(held, min(used, most))
        asked = before if needed > held else before + after
        kept = max(needed if needed <= held else used, recent)
        now = _reduced(held, kept, asked - rest, idle=needed <= held)
        if lack > rest:
            now = min(now, max(keeps, held - (lack - rest)))
    return _Part(now, max(0, needed - max(used, now)), granted)


def _fair(room: int, needs: Iterable[int], line: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """The largest fair part of an RM, and the total want of queued RMs that have less than that part.

    Small `needs` are met completely, and larger needs get equal parts of the room. `line` has turn, charge
    and want of each RM in the queue.
    """
    left = sorted(needs)
    for number, need in enumerate(left):
        part = room // (len(left) - number)
        if need > part:
            # The remainder of the division is distributed too, as it may be all of a few licences.
            enough = part + 1 - part // NEAR
            return part, sum(wanted for _, charged, wanted in line if charged < enough)
        room -= need
    return room, 0


def _grant(asked: int, room: int, ahead: int, behind: int) -> int:
    """The part of `room` that is granted to a want, after the wants ahead of it."""
    room = max(0, room - ahead)
    spare = max(0, room - asked - behind) // SPARE
    return min(asked, room) + spare


def _reduced(held: int, kept: int, pressure: int, *, idle: bool) -> int:
    """The size of a slice that need not grow, if the wants of others exceed the rest by `pressure`."""
    if held <= kept:
        return held
    if pressure > 0:
        return max(kept, held - pressure)
    return KEPT * kept if idle and held > ROOMY * kept else held


def _said(before: Resources, want: Resources) -> Resources:
    """The want to publish: the current want, or the published want if the two are within a factor of two."""
    near = before.keys() == want.keys() and all(want[name] <= before[name] <= 2 * want[name] for name in want)
    return before if near else want


def _turn(budget: Escrowed, own: Holding, *, wants: bool, had: bool) -> int:
    if not wants:
        return 0
    return budget.turns + 1 if had or not own.turn else own.turn


def encode(budget: Escrowed) -> bytes:
    """The bytes of a document.

    Raises:
        ValueError: the document is larger than the store accepts.
    """
    content = encoding.encode(budget)
    if len(content) > MAX_DOCUMENT:
        raise ValueError(f"the budget has too many RMs: {len(content)} bytes")
    return content


def decode(content: bytes) -> Escrowed:
    """Parse a document.

    Raises:
        Unreadable: the bytes are no such document.
    """
    if len(content) > MAX_DOCUMENT:
        raise Unreadable(f"{len(content)} bytes are too many")
    return encoding.decode(content, Escrowed)
