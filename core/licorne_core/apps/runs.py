"""The asks of one application by class: what is tried, and what a node may be reserved for.

The asks of a run fit alike, so when one finds no node, none does. Each of them may then have a node
reserved once it is old enough, in the order in which asks are looked at (spec §§ 5.3, 8.5, 8.7).
"""

from collections.abc import Mapping
from heapq import heapify, heappop, heappush
from math import inf
from typing import NamedTuple

from licorne_core.asks import Ask, AskClass
from licorne_core.ids import AllocationKey
from licorne_core.reservations import Reservation

RUN_SLACK = 64
"""Entries of asks that are gone that a run may keep, beside one for each that waits."""

MAX_REASONS = 16
"""Reasons that a run keeps, the latest: an RM may find ever new words for a refusal."""

RESERVATION_AGE = 2.0
"""Seconds that an ask has to have waited before a node is reserved for it."""

_SLACK = 64

PendingAsk = tuple[int, float, int, Ask]
"""A pending ask with its place in the order: (-priority, create time, arrival, ask)."""

ClaimKey = tuple[int, float, int, int]


class LogEntry(NamedTuple):
    """A reason for which asks of a run were passed over: when last (unix seconds), how often."""

    time: float
    times: int


class Run:
    """The pending asks of one class of one application, first in order at the top.

    `unplaceable`: when last tried, no node would take them, and none has come up since.
    `attempted`: they were within their user's quota when last tried. `log` tells what stopped
    them, `told` which of them the RM knows to be without a node (spec §§ 8.12-8.13). `claim` is
    there once they have found none. Those who watch know them to be `over_queue` or `over_quota`,
    too large for what is left of it (spec § 12.1.3). `refusals` counts how often the RM refused a
    node that one of them was to have (spec § 8.4); `waiting` of them are pending, and `held` wait
    for its word.
    """

    __slots__ = (
        "_pending",
        "ask_class",
        "attempted",
        "claim",
        "heap",
        "held",
        "log",
        "over_queue",
        "over_quota",
        "refusals",
        "refused_at",
        "reservations",
        "told",
        "unplaceable",
        "waiting",
    )

    def __init__(
        self,
        ask_class: AskClass,
        pending: Mapping[AllocationKey, PendingAsk],
        reservations: Mapping[AllocationKey, Reservation],
    ) -> None:
        """Start empty, in an application with these asks and reservations."""
        self.ask_class = ask_class
        self._pending = pending
        self.reservations = reservations
        self.heap: list[PendingAsk] = []
        self.waiting = 0
        self.held = 0
        self.refusals = 0
        self.unplaceable = False
        self.attempted = False
        self.over_queue = False
        self.over_quota = False
        self.refused_at = -inf
        self.log: dict[str, LogEntry] = {}
        self.told: set[AllocationKey] = set()
        self.claim: Claim | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing of the class waits, neither for a node nor for a word of the RM."""
        return not (self.waiting or self.held)

    def empty(self) -> None:
        """Nothing of the class is pending at the moment."""
        self.heap.clear()
        self.over_queue = self.over_quota = False
        self.claim = None

    def start_afresh(self) -> None:
        """Nothing of the class waits for anything: who comes later has not been looked at yet."""
        self.attempted = False
        self.refused_at = -inf
        if self.log:
            self.log.clear()

    def first(self) -> PendingAsk | None:
        """The first ask that is still pending."""
        heap = self.heap
        pending = self._pending
        while heap:
            entry = heap[0]
            if pending.get(entry[3].key) is entry:
                return entry
            heappop(heap)
        return None

    def note(self, reason: str, now: float) -> None:
        """Its asks were passed over for this reason."""
        before = self.log.pop(reason, None)
        if len(self.log) >= MAX_REASONS:
            del self.log[next(iter(self.log))]
        self.log[reason] = LogEntry(now, 1 if before is None else before.times + 1)

    def comes_before(self, other: PendingAsk | None) -> bool:
        """Whether any of its asks stands before another one; without one, whether any waits."""
        return self.waiting > 0 and (other is None or self.heap[0] < other)

    def count_before(self, other: PendingAsk | None, most: int) -> int:
        """How many of its asks stand before another one, or wait at all; counts up to `most`."""
        heap, places, count = self.heap, [0], 0
        while places and count < most:
            place = places.pop()
            # What is below an entry of a heap does not come before it.
            if place < len(heap) and (other is None or heap[place] < other):
                count += self.waits(heap[place])
                places += (2 * place + 1, 2 * place + 2)
        return count

    def waits(self, entry: PendingAsk) -> bool:
        """Whether the ask is still pending."""
        return self._pending.get(entry[3].key) is entry


class Claim:
    """The asks of a run that have no node reserved yet, as one item among the runs.

    By priority, each level oldest first: within a level the first is always the first to be old
    enough. Asks that are gone or have a node are forgotten when they come to the top. `awaited` is
    when it is to be looked at again for age, in unix seconds.
    """

    __slots__ = ("_age", "_kept", "_levels", "awaited", "run")

    def __init__(self, run: Run) -> None:
        """Over all asks of the run. Those that require a node need not wait for it."""
        self.run = run
        self.awaited: float | None = None
        self._age = RESERVATION_AGE if run.ask_class.required_node is None else 0.0
        self._fill()

    def add(self, entry: PendingAsk) -> bool:
        """One more ask without a node; True when it is the first of its priority."""
        level = self._levels.setdefault(entry[0], [])
        heappush(level, entry)
        self._kept += 1
        if self._kept > _SLACK + 2 * self.run.waiting:
            self._fill()
        return level[0] is entry

    def key(self) -> ClaimKey | None:
        """Where the claim stands among runs, at the earliest; None when every ask has a node."""
        first = next(iter(self._tops()), None)
        return None if first is None else claim_key(first)

    def first(self, now: float) -> PendingAsk | None:
        """The first ask in order that is old enough."""
        return next((top for top in self._tops() if top[1] + self._age <= now), None)

    def ripens(self, now: float) -> float | None:
        """When another ask, one that comes before the first, will be old enough; None for never."""
        ages = []
        for top in self._tops():
            if top[1] + self._age <= now:
                break
            ages.append(top[1] + self._age)
        return min(ages, default=None)

    def _tops(self) -> list[PendingAsk]:
        """The first ask of each priority, the highest first."""
        tops = []
        for priority in sorted(self._levels):
            level = self._levels[priority]
            while level and not self._wants(level[0]):
                heappop(level)
                self._kept -= 1
            if level:
                tops.append(level[0])
            else:
                del self._levels[priority]
        return tops

    def _wants(self, entry: PendingAsk) -> bool:
        return self.run.waits(entry) and entry[3].key not in self.run.reservations

    def _fill(self) -> None:
        entries = [entry for entry in self.run.heap if self._wants(entry)]
        self._levels: dict[int, list[PendingAsk]] = {}
        for entry in entries:
            self._levels.setdefault(entry[0], []).append(entry)
        for level in self._levels.values():
            heapify(level)
        self._kept = len(entries)


class YoungClaims:
    """The claims of an application that are to be looked at again for the age of their asks."""

    __slots__ = ("_heap", "_made")

    def __init__(self) -> None:
        """None yet."""
        self._heap: list[tuple[float, int, Claim]] = []
        self._made = 0

    def add(self, claim: Claim, ripe_at: float) -> None:
        """An ask at the front of the claim will be old enough for a reservation then."""
        claim.awaited = ripe_at
        self._made += 1
        heappush(self._heap, (ripe_at, self._made, claim))

    def take_ripe(self, now: float) -> list[Claim]:
        """Take out those whose time has come, but for those that were looked at since."""
        ripe = []
        while self._heap and self._heap[0][0] <= now:
            ripe_at, _, claim = heappop(self._heap)
            if claim.awaited == ripe_at:
                claim.awaited = None
                ripe.append(claim)
        return ripe

    def next(self) -> float | None:
        """When the next of them will be ripe, in unix seconds."""
        return self._heap[0][0] if self._heap else None


def claim_key(entry: PendingAsk) -> ClaimKey:
    """A claim's place while this ask is the one that wants a node: just behind the ask itself."""
    return (*entry[:3], 1)
