"""The oracle's books: flat records in dictionaries, with no running totals at all.

Every total is added up from the records on demand, so that it cannot be wrong.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from support.oracle.terms import CordonRecord, PreemptionTerms, ReservationRecord, VainRecord, WishRecord

Amounts = dict[str, int]


def total(sizes: Iterable[Amounts]) -> Amounts:
    """The total of the amounts, by name."""
    result: Amounts = {}
    for size in sizes:
        add_to(result, size)
    return result


def add_to(sum_so_far: Amounts, size: Amounts) -> None:
    """Add the amounts to a total in place."""
    for name, value in size.items():
        sum_so_far[name] = sum_so_far.get(name, 0) + value


AskClass = tuple[tuple[tuple[str, int], ...], str | None, str | None, float]
"""Amounts, required node and predicate; where backfill is on, the declared runtime, and else inf."""

Kind = tuple[AskClass, str, bool]
"""A class, a task group, and whether it is a placeholder: asks of one kind are tried as one."""

ASSUMED, ALLOCATED, PLACEHOLDER = "assumed", "allocated", "placeholder"
RELEASING, PREEMPTING, NOTICED = "releasing", "preempting", "noticed"
VICTIMS = (NOTICED, PREEMPTING)
"""States of what others count on to be gone."""
MATCHED, LINKED = "matched", "linked"
REPLACED, TIMED_OUT = "replaced", "timed out"


@dataclass
class AskRecord:
    """An ask. `told`: the RM knows that no node takes it.

    `attempted`: one of its kind was looked at, and was within its user's quota. `fate` is what a
    placeholder counts as once it has ended or is stopping (spec § 6.4), before that empty.
    `brought`: the RM put it on its node. `triggered`: victims were asked to stop for it once,
    and `refused_stops` how often the RM did not want it there then.
    `forms` counts how often it became another one, by its size or as the RM put it on a node.
    `failures` is how often in a row the RM could not run it, and `rests_until` how long it is not
    looked at for that, in unix seconds; None if it is. `own_priority` is what the RM said.
    `declared` are the seconds that it says it runs, inf for none, and `runs` those that count.
    """

    key: str
    size: Amounts
    priority: int
    created: float
    arrival: int
    required_node: str | None
    predicate: str | None
    terms: PreemptionTerms
    placeholder: bool = False
    task_group: str = ""
    reservation: ReservationRecord | None = None
    told: bool = False
    attempted: bool = False
    fate: str = ""
    brought: bool = False
    triggered: bool = False
    refused_stops: int = 0
    forms: int = 0
    failures: int = 0
    rests_until: float | None = None
    own_priority: int = 0
    declared: float = inf
    runs: float = inf
    shadow: Any = None

    @property
    def is_promised(self) -> bool:
        """True if the room of its victims is promised to it."""
        return bool(self.reservation and self.reservation.promised)

    def lose_node(self) -> None:
        """Release its node; a promise continues, if the ask may use another node.

        Victims that were to clear the node were stopped in vain: others may be stopped, and victims under
        notice are spared.
        """
        kept = self.reservation
        if kept is not None and self.is_promised and self.required_node is None:
            if kept.node_id == kept.cleared:
                self.triggered = self.refused_stops == 3
                kept.victims = [one for one in kept.victims if one.state != NOTICED]
            kept.node_id = None
            kept.idle_since, kept.gives_way = None, False
        else:
            self.end_reservation()

    def end_reservation(self) -> None:
        """Release its node and its promise; the ask may preempt again if no victim was stopped so far."""
        kept = self.reservation
        if kept is not None and kept.promised and not kept.has_stopped:
            self.triggered = False
        self.reservation = None

    def resize(self, size: Amounts) -> None:
        """Change its size; a promise keeps the part that the ask still requests."""
        self.size = size
        kept = self.reservation
        if kept is not None:
            still = {name: min(size.get(name, 0), value) for name, value in kept.promised.items()}
            promised = {name: value for name, value in still.items() if value}
            # It is another ask from then on: answers of the RM about the old size do not apply to it.
            self.reservation = replace(kept, promised=promised, idle_since=None, gives_way=False)
            if kept.promised and not (promised or kept.has_stopped):
                self.triggered = False
            if not promised and kept.node_id is None:
                self.reservation = None

    @property
    def kind(self) -> Kind:
        """The key of asks that are tried together."""
        return (self.ask_class, self.task_group, self.placeholder)

    @property
    def ask_class(self) -> AskClass:
        """The key of asks that fit alike, and share the answers of the RM."""
        return (tuple(sorted(self.size.items())), self.required_node, self.predicate, self.runs)

    @property
    def place(self) -> tuple[int, float, int]:
        """The sort key of the asks of an application (spec § 5.3.2)."""
        return (-self.priority, self.created, self.arrival)


@dataclass
class NoticedUnit:
    """Victims that are spared together: none, once one of them was `stopped`."""

    stopped: bool = False


@dataclass
class NoticeRecord:
    """What the RM of a victim was told: it is stopped at a time in unix seconds, with the message.

    The RM may have `answered` that it may be earlier. `size` and `lost` are what its leaf may lose less
    meanwhile.
    """

    deadline: float
    stops_at: float
    message: str
    size: Amounts
    lost: float
    unit: NoticedUnit
    answered: bool = False
    serial: int = 0


@dataclass
class AllocationRecord:
    """An allocation: the ask as it was, its node, and the state that it is in.

    `number` says which of all bookings it was. `requested` is when it was asked for, or when the
    placeholder was whose place it `took`. `started` is when it was booked first. Nobody counts on a
    victim that `is_let_go`. Its work up to the `checkpoint` is kept, and it `began` then, as its RM says.
    `passed` is the ask with a start that it passed: application, key and the start.
    """

    ask: AskRecord
    node_id: str
    state: str
    number: int
    requested: float
    started: float
    took: bool = False
    notice: NoticeRecord | None = None
    checkpoint: float | None = None
    began: float | None = None
    is_let_go: bool = False
    passed: tuple[str, str, float] | None = None

    @property
    def assumed(self) -> bool:
        """True if the RM has to agree to the node first."""
        return self.state == ASSUMED


@dataclass
class PairRecord:
    """A real ask that will replace a placeholder: neither an ask nor an allocation yet.

    `node_id` is the node on which it is booked, None where it will go to the placeholder's. Until
    it is `linked` the RM has not agreed to the node, and the placeholder was not told to stop.
    """

    ask: AskRecord
    placeholder: str
    node_id: str | None
    number: int
    linked: bool = False
    started: float = 0.0

    @property
    def state(self) -> str:
        """Its state."""
        return LINKED if self.linked else MATCHED


@dataclass
class GangRecord:
    """An application's terms of its gang at its submission. `timeout` is in seconds."""

    ask: Amounts
    hard: bool
    timeout: float


@dataclass
class AppRecord:
    """An application with its asks and allocations.

    `group` is the one that it counts for, decided when it came. Times are in unix seconds:
    `backs_off_until` is the end of a back-off, `starts_until` that of a start in a state-aware
    leaf. `nowhere` are the kinds of asks that found no node when they were looked at last. `wishes`
    are those for victims, by kind, and `in_vain` what the RM refused to it after victims had ended.
    `terms` are those of topology domains. `placeholders` are all that it ever had, `pairs` by the real ask.
    """

    app_id: str
    queue: str
    submitted: float
    user: str
    groups: tuple[str, ...]
    tags: dict[str, str]
    gang: GangRecord
    group: str = ""
    state: str = "New"
    backs_off_until: float = 0.0
    starts_until: float | None = None
    arrivals: int = 0
    nowhere: set[Kind] = field(default_factory=set)
    wishes: dict[Kind, WishRecord] = field(default_factory=dict)
    in_vain: dict[Kind, VainRecord] = field(default_factory=dict)
    asks: dict[str, AskRecord] = field(default_factory=dict)
    allocations: dict[str, AllocationRecord] = field(default_factory=dict)
    pairs: dict[str, PairRecord] = field(default_factory=dict)
    placeholders: list[AskRecord] = field(default_factory=list)
    held: bool = False
    terms: Any = None
    elastic: Any = None
    given_priority: int | None = None

    def add(self, ask: AskRecord) -> None:
        """Add a pending ask; those of its kind, assumed ones too, share their state."""
        assumed = [self.allocations[key].ask for key in self.assumed_keys()]
        matched = [self.pairs[key].ask for key in self.matched_keys()]
        self.forget_wishes()
        others = [*self.awake(), *assumed, *matched]
        alike = [one for one in others if one.kind == ask.kind]
        if not (alike or ask.attempted):
            self.nowhere.discard(ask.kind)
        if not alike:
            self.in_vain.pop(ask.kind, None)
        ask.attempted = ask.attempted or any(other.attempted for other in alike)
        self.asks[ask.key] = ask

    def refused_in_vain(self, ask: AskRecord, node: "NodeRecord", now: float) -> None:
        """Record that the RM refuses a node; after a stop in vain the ask's kind pauses its preemption."""
        kept = ask.reservation
        if kept is not None and kept.promised and kept.cleared == node.node_id:
            lost = self.in_vain.setdefault(ask.kind, VainRecord())
            lost.nodes.append((node, node.told))
            ask.refused_stops += 1
            lost.until = max(lost.until, now + [0.0, 15.0, 30.0, 60.0][ask.refused_stops])

    def forget_wishes(self) -> None:
        """Drop the preemption requests of kinds without pending asks."""
        kinds = {ask.kind for ask in self.awake()}
        self.wishes = {kind: wish for kind, wish in self.wishes.items() if kind in kinds}

    def wish(self, kind: Kind) -> WishRecord:
        """The preemption request of a kind."""
        return self.wishes.setdefault(kind, WishRecord())

    def asks_in_order(self) -> list[AskRecord]:
        """The pending asks in the order of tries."""
        return sorted(self.awake(), key=lambda ask: ask.place)

    def awake(self) -> list[AskRecord]:
        """The pending asks that are tried, without those in a back-off."""
        return [ask for ask in self.asks.values() if ask.rests_until is None]

    def wake(self, ask: AskRecord) -> None:
        """End the back-off of an ask."""
        del self.asks[ask.key]
        ask.rests_until = None
        self.add(ask)

    def priority(self) -> int:
        """The highest priority of its pending asks; only for an application with asks."""
        return max(ask.priority for ask in self.asks.values())

    @property
    def allocating(self) -> bool:
        """True if it is accepted and about to run (spec § 4.12)."""
        return self.state == "Accepted" and (
            bool(self.allocations) or any(ask.reservation for ask in self.asks.values())
        )

    def assumed_keys(self) -> list[str]:
        """The allocations that wait for the RM's acceptance."""
        return [key for key, allocation in self.allocations.items() if allocation.assumed]

    def matched_keys(self) -> list[str]:
        """The real asks whose nodes wait for the RM's acceptance."""
        return [key for key, pair in self.pairs.items() if not pair.linked]

    def waiting_ask(self, key: str) -> AskRecord:
        """The ask that waits for an answer under the key."""
        return self.pairs[key].ask if key in self.pairs else self.allocations[key].ask

    def pair_of(self, placeholder: str) -> PairRecord | None:
        """The real ask that will replace a placeholder."""
        return next((p for p in self.pairs.values() if p.placeholder == placeholder), None)

    def booked(self) -> list[tuple[str, Amounts]]:
        """The nodes with their bookings, including pairs, which count nowhere else."""
        own = [(one.node_id, one.ask.size) for one in self.allocations.values()]
        pairs = ((pair.node_id, pair.ask.size) for pair in self.pairs.values())
        return own + [(node_id, size) for node_id, size in pairs if node_id is not None]

    def trackers(self) -> list[tuple[str, str]]:
        """The trackers in which it counts: its user's, and its group's if there is one."""
        return [("user", self.user), *([("group", self.group)] if self.group else [])]


@dataclass(eq=False)
class NodeRecord:
    """A node and its foreign allocations; our allocations are in the applications.

    `told` differs after every change that the RM knows of; till then `results` hold, empty for
    «accepted», of asks of a class that are to be allocated, or (False) to have it reserved.
    `given_up`: which one it was of all nodes that were reserved and are no more, 0 for none.
    """

    node_id: str
    capacity: Amounts
    wanted: bool
    attributes: dict[str, str] = field(default_factory=dict)
    cordon: CordonRecord | None = None
    foreign: dict[str, Amounts] = field(default_factory=dict)
    told: int = 0
    narrowed: int = 0
    results: dict[tuple[AskClass, bool], str] = field(default_factory=dict)
    reserved: bool = False
    yielded: bool = False
    given_up: int = 0

    @property
    def schedulable(self) -> bool:
        """True if both its RM and operators allow allocations on it."""
        return self.wanted and self.cordon is None

    def changed(self, *, narrowed: bool = True) -> None:
        """Record a change by the RM; not `narrowed` if something was only removed."""
        self.told += 1
        self.narrowed += narrowed
        self.results.clear()

    def holds(self, size: Amounts) -> bool:
        """True if the amounts would fit on the empty node."""
        return all(wanted <= self.capacity.get(name, 0) for name, wanted in size.items())

    def free(self) -> Amounts:
        """The capacity without foreign allocations."""
        left = dict(self.capacity)
        for size in self.foreign.values():
            add_to(left, {name: -value for name, value in size.items()})
        return left
