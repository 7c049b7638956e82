"""Enforcement of a changed maximum: its time, and its victims (spec § 9.6).

A queue may exceed its maximum after a configuration lowered it, or after allocations were recovered
or resized. The settings may name a delay, and after it enough of the queue's allocations are
stopped. This is done once: an excess that remains may stay until the configuration changes again,
or more is put into the queue by force.

Usage is allocated amounts. For the choice of victims, present victims do not count. Promises do not
count either, as they will be placed only below the maximum.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.losses import UNIT, Losses, loss_of
from licorne_core.scheduling.preemption.ranks import kind_of, seconds_run
from licorne_core.scheduling.preemption.whatif import Victim
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import EMPTY, Items, Resources, charge, sum_of, without_zeros

CHECK_INTERVAL = 1.0
"""Seconds between two looks at the queues that have a start time."""

_HOUR = 3600.0


# When


class QuotaTerms(NamedTuple):
    """Settings of a queue for the enforcement of its maximum.

    `delay` is in seconds, 0.0 for a queue that is never enforced.
    """

    max: Resources | None
    delay: float


def terms_of(queue: Queue, *, enabled: bool) -> QuotaTerms:
    """Return the terms of the queue now; `enabled` is its partition's own switch."""
    enforced = enabled and queue.managed and queue.parent is not None
    return QuotaTerms(queue.max, queue.settings.quota_preemption_delay if enforced else 0.0)


def start_time(
    before: QuotaTerms, after: QuotaTerms, *, above_max: bool, start: float | None, now: float
) -> float | None:
    """Time of enforcement after a configuration update; None for never (table of § 9.6).

    `start` is the time so far. `above_max`: the queue exceeds its new maximum. A first maximum
    counts as lowered, as the queue was unlimited.
    """
    if not (after.delay and after.max and above_max):
        return None
    if start is not None:
        return start + (after.delay - before.delay)
    switched_on = not before.delay and after.max == before.max
    if switched_on or _is_lower(after.max, before.max):
        return now + after.delay
    return None


def _is_lower(after: Resources, before: Resources | None) -> bool:
    """True if a maximum allows less of any type; a type without a bound is unlimited."""
    bounds = before or EMPTY
    return any(name not in bounds or value < bounds[name] for name, value in after.items())


def is_above_max(queue: Queue) -> bool:
    """True if more of some type is allocated in the queue than its maximum says."""
    allocated = queue.allocated
    return any(allocated.get(name, 0) > bound for name, bound in (queue.max or EMPTY).items())


class QuotaClock:
    """Times of enforcement of the queues of a partition.

    Managed queues are, but for root: its maximum is the size of the cluster.
    """

    __slots__ = ("_starts", "enabled")

    def __init__(self, *, enabled: bool) -> None:
        """Start without start times; `enabled` is the partition's own switch."""
        self.enabled = enabled
        self._starts: dict[Queue, float] = {}

    def start(self, queue: Queue) -> float:
        """Time at which the queue is enforced, in unix seconds; 0.0 for never."""
        return self._starts.get(queue, 0.0)

    @property
    def is_waiting(self) -> bool:
        """True if a queue has a start time."""
        return bool(self._starts)

    def on_reload(self, queue: Queue, before: QuotaTerms, now: float) -> None:
        """Follow a new configuration of the queue; `before` are its old terms."""
        start = start_time(
            before,
            terms_of(queue, enabled=self.enabled),
            above_max=is_above_max(queue),
            start=self._starts.pop(queue, None),
            now=now,
        )
        if start is not None:
            self._starts[queue] = start

    def on_growth(self, lineage: Iterable[Queue], now: float) -> None:
        """More was allocated in these queues whatever their maxima say (recovery, resize)."""
        for queue in lineage:
            delay = terms_of(queue, enabled=self.enabled).delay
            if delay and queue not in self._starts and is_above_max(queue):
                self._starts[queue] = now + delay

    def next_deadline(self, now: float) -> float | None:
        """Time of the next call of `due`; None while no queue has a start time."""
        return now + CHECK_INTERVAL if self._starts else None

    def due(self, now: float) -> list[Queue]:
        """The queues to enforce now, parents before children; each is due once.

        A queue that is within its maximum again loses its start time. Whatever is below a queue
        that is due has to wait until the next look, as the victims of the one are those of the
        other as well.
        """
        self._starts = {queue: at for queue, at in self._starts.items() if is_above_max(queue)}
        due: list[Queue] = []
        for queue in sorted(self._starts, key=lambda queue: queue.path.split(".")):
            if self._starts[queue] <= now and not any(above in due for above in queue.lineage):
                due.append(queue)
        for queue in due:
            del self._starts[queue]
        return due


# How much


def amount_of(queue: Queue) -> dict[str, int]:
    """By type, the amount to take from a queue that exceeds its maximum.

    It is the excess over the maximum, and at most the excess of it and each queue above it over
    their guarantees; so an amount may be zero.
    """
    amount = {}
    for name, bound in (queue.max or EMPTY).items():
        excess = _staying(queue, name) - bound
        if excess > 0:
            amount[name] = max(0, min(excess, *(_spare(above, name) for above in queue.lineage)))
    return amount


def split(queue: Queue, amount: Resources) -> Iterator[tuple[Queue, Resources]]:
    """The leaves in the queue, by name, each with its part of an amount to be taken.

    The children of a queue divide its part in proportion to their excess over their guarantees,
    rounded down. A type of which a leaf is to lose nothing is zero in its part.
    """
    waiting = [(queue, amount)]
    while waiting:
        parent, part = waiting.pop()
        if parent.is_leaf:
            yield parent, part
            continue
        children = [parent.children[name] for name in sorted(parent.children, reverse=True)]
        totals = {name: sum(_spare(child, name) for child in children) for name in part}
        for child in children:
            waiting.append((child, _part(child, part, totals)))


def _part(child: Queue, amount: Resources, totals: Resources) -> dict[str, int]:
    """A child's part: never more than it has above its guarantee."""
    part = {}
    for name, value in amount.items():
        spare = _spare(child, name)
        part[name] = min(value * spare // totals[name], spare) if spare else 0
    return part


def _staying(queue: Queue, name: str) -> int:
    """Usage of a type without present victims."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


def _spare(queue: Queue, name: str) -> int:
    """Amount of a type above the queue's guarantee."""
    return max(0, _staying(queue, name) - (queue.guaranteed or EMPTY).get(name, 0))


# Which


class Enforcement(NamedTuple):
    """Enforcement of a queue's maximum: its victims.

    `amount` is to be taken, and the victims have `claimed`. They were chosen among `selected` many
    allocations; without any of those, there are no victims.
    """

    queue: Queue
    amount: Resources
    selected: int
    victims: tuple[Victim, ...]
    claimed: Resources


def victims_of(
    queue: Queue, nodes: Mapping[NodeId, Node], now: float, losses: Losses
) -> Enforcement:
    """Choose the victims for one enforcement of a queue's maximum; nothing is changed.

    They fit into the amount, each by itself and all together, so the queue may keep more than its
    maximum but never loses more than it has above it. No queue loses what it is guaranteed.
    """
    amount = amount_of(queue)
    selected = 0
    victims: list[Victim] = []
    taken: dict[Queue, dict[str, int]] = {}
    for leaf, part in split(queue, amount):
        candidates = _candidates(leaf, part, nodes, now)
        selected += len(candidates)
        victims += _taken(leaf, part, candidates, taken, now, losses)
    return Enforcement(
        queue=queue,
        amount=without_zeros(amount),
        selected=selected,
        victims=tuple(victims),
        claimed=sum_of(dict(victim.request.ask.ask_class.items) for victim in victims),
    )


def _candidates(
    leaf: Queue, part: Resources, nodes: Mapping[NodeId, Node], now: float
) -> list[Victim]:
    """The allocations of a leaf that could be victims, in the order in which they are taken."""
    wanted = {name for name, value in part.items() if value > 0}
    if not wanted:
        return []
    minimum = leaf.settings.preemption_minimum_runtime
    found = []
    for app in leaf.applications.values():
        for request in app.booked():
            allocation, ask_class = request.allocation, request.ask.ask_class
            if allocation is None or request.state not in MAY_GO:
                continue
            if ask_class.required_node is not None or seconds_run(request, now) < minimum:
                continue
            if any(name in wanted for name, _ in ask_class.items):
                found.append(Victim(app, request, nodes[allocation.node_id]))
    return sorted(found, key=lambda victim: _rank(victim.request, wanted, now))


def _rank(request: Request, wanted: set[str], now: float) -> tuple[object, ...]:
    """Rank of a candidate, cheapest first.

    First come those that allow it, and started no application. Then come those with all wanted
    types, of lower priority, younger by whole hours, and smaller by the sum of amounts.
    """
    ask = request.ask
    sizes = [value for name, value in ask.ask_class.items if name in wanted]
    return (
        kind_of(request),
        len(sizes) < len(wanted),
        ask.priority,
        max(0.0, now - request.create_time) // _HOUR,
        sum(sizes),
        ask.app_id,
        ask.key,
    )


def _taken(
    leaf: Queue,
    part: Resources,
    candidates: Iterable[Victim],
    taken: dict[Queue, dict[str, int]],
    now: float,
    losses: Losses,
) -> Iterator[Victim]:
    """Victims among a leaf's candidates; `taken` are each queue's losses so far.

    Only queues that guarantee something are among `taken`.
    """
    allowed = _may_lose(leaf, now, losses)
    guaranteeing = [queue for queue in leaf.lineage if queue.guaranteed]
    rest = dict(part)
    for victim in candidates:
        items = victim.request.ask.ask_class.items
        loss = loss_of(items, seconds_run(victim.request, now)) if allowed else ()
        if not (_fits(items, rest) and _fits(loss, allowed)):
            continue
        if not all(_keeps_guarantee(queue, items, taken) for queue in guaranteeing):
            continue
        _take_off(items, rest)
        _take_off(loss, allowed)
        for queue in guaranteeing:
            charge(taken.setdefault(queue, {}), items)
        yield victim


def _may_lose(leaf: Queue, now: float, losses: Losses) -> dict[str, int]:
    """Amounts that a leaf may still lose in this hour, of the types that its settings limit."""
    limit = leaf.settings.preemption_loss_limit
    lost = losses.lost(leaf.path, now) if limit else EMPTY
    return {name: value * UNIT - lost.get(name, 0) for name, value in limit}


def _fits(items: Items, rest: Resources) -> bool:
    """True if there is enough left of each type that is bounded at all."""
    return all(value <= rest[name] for name, value in items if name in rest)


def _take_off(items: Items, rest: dict[str, int]) -> None:
    """Subtract the amounts from each type in `rest`."""
    for name, value in items:
        if name in rest:
            rest[name] -= value


def _keeps_guarantee(queue: Queue, items: Items, taken: Mapping[Queue, Mapping[str, int]]) -> bool:
    """True if the queue keeps its guarantee of each type of which it loses more (law 2)."""
    guaranteed = queue.guaranteed or EMPTY
    gone = taken.get(queue, EMPTY)
    return all(
        _staying(queue, name) - gone.get(name, 0) - value >= guaranteed[name]
        for name, value in items
        if name in guaranteed
    )
