"""The oracle's records: flat and in dictionaries, without running totals.

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
"""Amounts, required node and predicate; with backfill the declared runtime, otherwise inf."""

Kind = tuple[AskClass, str, bool]
"""The class, the task group, and whether it is a placeholder: asks of one kind are tried as one."""

ASSUMED, ALLOCATED, PLACEHOLDER = "assumed", "allocated", "placeholder"
RELEASING, PREEMPTING, NOTICED = "releasing", "preempting", "noticed"
VICTIMS = (NOTICED, PREEMPTING)
"""The states of allocations whose end others count on."""
MATCHED, LINKED = "matched", "linked"
REPLACED, TIMED_OUT = "replaced", "timed out"


@dataclass
class AskRecord:
    """An ask. `told`: the RM was informed that no node fits it.

    `attempted`: an ask of its kind was tried within its user's quota. `fate` is the outcome of a placeholder
    that has ended or is stopping (spec § 6.4), empty before. `brought`: the RM placed it itself. `triggered`:
    victims were requested to stop for it, and `refused_stops` counts the RM's refusals of the node after
    that. `forms` counts its changes of size, and its placements by the RM. `failures` counts the latest
    failures on the RM in a row; the ask is skipped until `rests_until`, in Unix seconds, None for not at all.
    `own_priority` is that of the RM. `declared` is its declared runtime in seconds, inf for none, and `runs`
    the runtime that counts.
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
        """True if its victims' amounts are promised to it."""
        return bool(self.reservation and self.reservation.promised)

    def lose_node(self) -> None:
        """Release its node; a promise remains if the ask may use another node.

        If victims had to clear the node, they were stopped in vain: others may be stopped, and victims under
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
        """Change its size; a promise keeps the amounts that the ask still requests."""
        self.size = size
        kept = self.reservation
        if kept is not None:
            still = {name: min(size.get(name, 0), value) for name, value in kept.promised.items()}
            promised = {name: value for name, value in still.items() if value}
            # The RM's answers about the old size do not apply any more.
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
        """The key of asks that fit on the same nodes, and share the answers of the RM."""
        return (tuple(sorted(self.size.items())), self.required_node, self.predicate, self.runs)

    @property
    def place(self) -> tuple[int, float, int]:
        """The sort key of the asks of an application (spec § 5.3.2)."""
        return (-self.priority, self.created, self.arrival)


@dataclass
class NoticedUnit:
    """Victims that are spared together; after one of them was `stopped`, none is spared."""

    stopped: bool = False


@dataclass
class NoticeRecord:
    """A notice to the RM of a victim: the deadline in Unix seconds, and the message.

    The RM may have `answered` with an earlier time. `size` and `lost` count against the limit of losses of
    its leaf meanwhile.
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
    """An allocation: the ask at its placement, its node and its state.

    `number` counts bookings. `requested` is the time of its request, or that of the placeholder whose place
    it `took`. `started` is the time of its first booking. A victim that `is_let_go` is not counted on. Its
    work up to the `checkpoint` is saved, and `began` is its start as reported by the RM. `passed` is the ask
    with a planned start that it overtook: application, key and that start. `end` is its end as expected at
    its placement.
    """

    ask: AskRecord
    node_id: str
    state: str
    number: int
    requested: float
    started: float
    end: float
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
    """A real ask that will replace a placeholder, and is neither an ask nor an allocation meanwhile.

    It is booked on `node_id`, None for the placeholder's node. Before it is `linked`, the RM has not accepted
    the node, and the placeholder was not requested to stop.
    """

    ask: AskRecord
    placeholder: str
    node_id: str | None
    number: int
    linked: bool = False
    started: float = 0.0

    @property
    def state(self) -> str:
        """`LINKED` or `MATCHED`."""
        return LINKED if self.linked else MATCHED


@dataclass
class GangRecord:
    """The terms of an application's gang at its submission. `timeout` is in seconds."""

    ask: Amounts
    hard: bool
    timeout: float


@dataclass
class AppRecord:
    """An application with its asks and allocations.

    `group` is charged for its usage, and fixed at submission. Times are in Unix seconds: `backs_off_until` is
    the end of a back-off, `starts_until` the end of a start in a state-aware leaf. `nowhere` are the kinds of
    asks without a node at their last try. `wishes` are searches for victims by kind, and `in_vain` the nodes
    refused by the RM after victims had ended. `terms` are those of topology. `placeholders` are all that ever
    existed; `pairs` are keyed by the real ask. `withdrawn` has the amounts of pending placeholders that
    were withdrawn and not made up for, since none was pending.
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
    withdrawn: Amounts = field(default_factory=dict)
    given_priority: int | None = None

    def count_new(self, ask: AskRecord) -> None:
        """Count a new ask that is a placeholder; the first one that is pending starts anew."""
        if ask.placeholder:
            if not any(one.placeholder for one in self.awake()):
                self.withdrawn.clear()
            self.make_up(ask.size)

    def make_up(self, size: Amounts) -> None:
        """Count a placeholder that is asked for in place of withdrawn ones, as far as there are any."""
        for name, value in size.items():
            self.withdrawn[name] = max(0, self.withdrawn.get(name, 0) - value)

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
        """The highest priority of its pending asks, of which there must be one."""
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
        """The nodes with their bookings, including pairs, which are counted nowhere else."""
        own = [(one.node_id, one.ask.size) for one in self.allocations.values()]
        pairs = ((pair.node_id, pair.ask.size) for pair in self.pairs.values())
        return own + [(node_id, size) for node_id, size in pairs if node_id is not None]

    def trackers(self) -> list[tuple[str, str]]:
        """The trackers to which it is charged: its user's, and its group's if there is one."""
        return [("user", self.user), *([("group", self.group)] if self.group else [])]


@dataclass(eq=False)
class NodeRecord:
    """A node and its foreign allocations; other allocations are in the applications.

    `told` rises with every change that the RM knows of; until then `results` hold, empty for acceptance.
    Their key is the class, and whether the ask is to be allocated or the node reserved for it. `given_up` is
    the number of its release among all released reservations, 0 for none.
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
        """Record a change by the RM; `narrowed` is False if something was only removed."""
        self.told += 1
        self.narrowed += narrowed
        self.results.clear()

    def holds(self, size: Amounts) -> bool:
        """True if the amounts fit on the empty node."""
        return all(wanted <= self.capacity.get(name, 0) for name, wanted in size.items())

    def free(self) -> Amounts:
        """The capacity without foreign allocations."""
        left = dict(self.capacity)
        for size in self.foreign.values():
            add_to(left, {name: -value for name, value in size.items()})
        return left
