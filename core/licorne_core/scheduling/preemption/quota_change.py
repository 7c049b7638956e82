"""Enforcement of a changed maximum: its time, and its victims (spec § 9.6).

A queue may exceed its maximum after a configuration lowered the maximum, or after allocations were
recovered or resized. If the settings have a delay, enough of the queue's allocations are stopped
after it. This is done once: an excess that remains is tolerated until the configuration changes
again, or further allocations are recovered or resized.

Usage is allocated amounts. The choice of victims does not count present victims. It does not count
promises either: promised asks are placed only below the maximum.
"""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from math import inf
from typing import NamedTuple

from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.ledger import Losses, loss_of
from licorne_core.scheduling.preemption.units import Units
from licorne_core.scheduling.preemption.victims import Victim, amounts_of, kind_of, seconds_lost, seconds_run
from licorne_core.values.resources import EMPTY, Items, Resources, charge, without_zeros
from licorne_core.values.slices import PART, in_runs, put_in_order

CHECK_INTERVAL = 1.0
"""Seconds between two checks of the queues with a start time."""

_HOUR = 3600.0


# When


class QuotaTerms(NamedTuple):
    """Settings of a queue for the enforcement of its maximum.

    `delay` is in seconds; 0.0 means that the maximum is never enforced.
    """

    max: Resources | None
    delay: float


def terms_of(queue: Queue, *, enabled: bool) -> QuotaTerms:
    """Return the present terms of the queue; `enabled` is the switch of its partition."""
    enforced = enabled and queue.managed and queue.parent is not None
    return QuotaTerms(queue.max, queue.settings.quota_preemption_delay if enforced else 0.0)


def start_time(
    before: QuotaTerms, after: QuotaTerms, *, above_max: bool, start: float | None, now: float
) -> float | None:
    """Time of enforcement after a configuration update; None for never (table of § 9.6).

    `start` is the previous time. `above_max`: the queue exceeds its new maximum. A first maximum
    counts as lowered, as the queue was unlimited. Times are in unix seconds.
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
    """True if the new maximum allows less of any type. A missing type is unlimited."""
    bounds = before or EMPTY
    return any(name not in bounds or value < bounds[name] for name, value in after.items())


def is_above_max(queue: Queue) -> bool:
    """True if the queue's allocations exceed its maximum in any type."""
    allocated = queue.allocated
    return any(allocated.get(name, 0) > bound for name, bound in (queue.max or EMPTY).items())


class QuotaClock:
    """Times of enforcement of the maxima in a partition.

    Only managed queues below root are enforced: root's maximum is the size of the cluster.
    """

    __slots__ = ("_starts", "enabled")

    def __init__(self, *, enabled: bool) -> None:
        """Start without start times; `enabled` is the switch of the partition."""
        self.enabled = enabled
        self._starts: dict[Queue, float] = {}

    def start(self, queue: Queue) -> float:
        """Time of enforcement of the queue, in unix seconds; 0.0 for never."""
        return self._starts.get(queue, 0.0)

    @property
    def is_waiting(self) -> bool:
        """True if a queue has a start time."""
        return bool(self._starts)

    def on_reload(self, queue: Queue, before: QuotaTerms, now: float) -> None:
        """Set the start time after a new configuration of the queue; `before` are its old terms."""
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
        """Set start times after allocations in these queues regardless of maxima (recovery, resize)."""
        for queue in lineage:
            delay = terms_of(queue, enabled=self.enabled).delay
            if delay and queue not in self._starts and is_above_max(queue):
                self._starts[queue] = now + delay

    def next_deadline(self, now: float) -> float | None:
        """Time of the next call of `due`; None while no queue has a start time."""
        return now + CHECK_INTERVAL if self._starts else None

    def due(self, now: float) -> Generator[int, None, list[Queue]]:
        """Find the queues to enforce now, parents before children; yield the costs of the steps.

        A queue that is within its maximum again loses its start time. Queues below a queue that is
        due wait for the next check, as its victims count for them as well.
        """
        found = []
        for number, queue in enumerate(list(self._starts), 1):
            if not is_above_max(queue):
                self._starts.pop(queue, None)
            elif self._starts.get(queue, inf) <= now:
                found.append(queue)
            if not number % PART:
                yield 1
        due: dict[Queue, None] = {}
        for number, queue in enumerate((yield from put_in_order(found, key=_names)), 1):
            if not any(above in due for above in queue.lineage):
                due[queue] = None
            if not number % PART:
                yield 1
        return list(due)

    def take(self, queue: Queue, now: float) -> bool:
        """Delete the start time of a queue that was due. True if it is still due and above its maximum."""
        if self._starts.get(queue, inf) > now:
            return False
        del self._starts[queue]
        return is_above_max(queue)

    def enforces(self, queue: Queue) -> bool:
        """True if the settings of the queue have its maximum enforced after a delay."""
        return bool(terms_of(queue, enabled=self.enabled).delay)


def _names(queue: Queue) -> list[str]:
    return queue.path.split(".")


# How much


def amount_of(queue: Queue) -> dict[str, int]:
    """Amounts to stop in a queue that exceeds its maximum, by type.

    An amount is the excess over the maximum. It is at most the excess over the guarantee of the queue
    and of each queue above, so it may be zero.
    """
    amount = {}
    for name, bound in (queue.max or EMPTY).items():
        excess = _staying(queue, name) - bound
        if excess > 0:
            amount[name] = max(0, min(excess, *(_spare(above, name) for above in queue.lineage)))
    return amount


def split(queue: Queue, amount: Resources) -> Iterator[tuple[Queue, Resources] | None]:
    """Leaves in the queue, by name, each with its part of the amount to stop.

    The children of a queue divide its part in proportion to their excess over their guarantees,
    rounded down. The part of a leaf has all types, zeros included. A None marks a possible pause.
    """
    waiting = [(queue, amount)]
    while waiting:
        parent, part = waiting.pop()
        if parent.is_leaf:
            yield parent, part
            continue
        totals = dict.fromkeys(part, 0)
        spares: list[tuple[Queue, dict[str, int]]] = []
        for child in in_runs(list(parent.children.values()), key=_name):
            if child is not None:
                spare = {name: _spare(child, name) for name in part}
                spares.append((child, spare))
                for name, value in spare.items():
                    totals[name] += value
            yield None
        while spares:
            child, spare = spares.pop()
            waiting.append((child, _part(spare, part, totals)))
            yield None


def _name(queue: Queue) -> str:
    return queue.name


def _part(spare: Resources, amount: Resources, totals: Resources) -> dict[str, int]:
    """Part of a child: at most its excess over its guarantee."""
    part = {}
    for name, value in amount.items():
        most = spare[name]
        part[name] = min(value * most // totals[name], most) if most else 0
    return part


def _staying(queue: Queue, name: str) -> int:
    """Usage of a type without present victims."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


def _spare(queue: Queue, name: str) -> int:
    """Amount of a type above the queue's guarantee."""
    return max(0, _staying(queue, name) - (queue.guaranteed or EMPTY).get(name, 0))


# Which


class Enforcement:
    """The enforcement of one queue's maximum, step by step.

    All victims together fit into the excess. So the queue may keep more than its maximum, but never
    falls below it. No queue falls below its guarantee. Each victim is stopped as soon as it is chosen,
    by the books at that time: the books may change between two steps.
    """

    __slots__ = (
        "_assumed",
        "_losses",
        "_now",
        "_parts",
        "_queue",
        "_units",
        "amount",
        "claimed",
        "selected",
        "victims",
    )

    def __init__(
        self,
        queue: Queue,
        losses: Losses,
        assumed: Callable[[Queue], float | None],
        units: Callable[[], Units],
        now: float,
    ) -> None:
        """Start without victims; `now` is in unix seconds.

        `assumed` gives the checkpoint of allocations of a leaf whose RM has said none.
        """
        amount = amount_of(queue)
        self.amount: Resources = without_zeros(amount)
        """Amounts to stop, by type."""
        self.selected = 0
        """Number of candidates."""
        self.victims = 0
        """Number of victims."""
        self.claimed: dict[str, int] = {}
        """Sum of the victims, by type."""
        self._queue, self._losses, self._assumed, self._now = queue, losses, assumed, now
        self._units = units
        self._parts = split(queue, amount)

    def steps(self, stop: Callable[[Sequence[Victim]], None]) -> Iterator[int]:
        """Choose the victims and call `stop`, which books each unit; yield the costs of the steps."""
        for found in self._parts:
            yield 1
            if found is None:
                continue
            leaf, part = found
            candidates = yield from self._candidates(leaf, part)
            rest, units = dict(part), self._units()
            for number, request in enumerate(candidates, 1):
                app = leaf.applications.get(request.ask.app_id)
                together = () if app is None else units.with_others(app, request)
                if together and self._may_go(leaf, together, rest):
                    items = amounts_of(together)
                    _take_off(items, rest)
                    charge(self.claimed, items)
                    self.victims += len(together)
                    stop(together)
                    yield len(together)
                    units = self._units()
                elif not number % PART:
                    yield 1
                    units = self._units()

    def _candidates(self, leaf: Queue, part: Resources) -> Generator[int, None, Iterator[Request]]:
        """Find the candidates of a leaf, cheapest first; yield the costs of the steps."""
        now, minimum, units = self._now, leaf.settings.preemption_minimum_runtime, self._units()
        wanted = {name for name, value in part.items() if value > 0}
        found: list[Request] = []
        steps: dict[Request, int] = {}
        looks = 0
        for app in list(leaf.applications.values()) if wanted else ():
            for request in (None, *app.requests.values()):
                if request is not None and _is_candidate(request, wanted, now, minimum):
                    found.append(request)
                    if app.gang.elastic is not None:
                        steps[request] = units.step(app, request)
                looks += 1
                if not looks % PART:
                    yield 1
        self.selected += len(found)
        return (yield from put_in_order(found, key=lambda one: (-steps.get(one, 0), _rank(one, wanted, now))))

    def _may_go(self, leaf: Queue, together: Sequence[Victim], rest: Resources) -> bool:
        """True if these run, fit into `rest` together, and the laws allow them as victims."""
        if any(victim.request.state not in MAY_GO for victim in together):
            return False
        items = amounts_of(together)
        if not (_fits(items, rest) and _exceeds_max(self._queue, items, rest)):
            return False
        allowed = self._losses.remaining(leaf, self._now)
        if allowed:
            losses: dict[str, int] = {}
            for victim in together:
                lost = seconds_lost(victim.request, self._assumed(leaf), self._now)
                charge(losses, loss_of(victim.request.ask.ask_class.items, lost))
            if not _fits(tuple(losses.items()), allowed):
                return False
        return all(_keeps_guarantee(queue, items) for queue in leaf.lineage)


def still_exceeds(queue: Queue, items: Items) -> bool:
    """True if the queue would exceed its maximum if these amounts, which are being stopped, stayed."""
    bounds = queue.max or EMPTY
    return any(name in bounds and _staying(queue, name) + value > bounds[name] for name, value in items)


def _is_candidate(request: Request, wanted: set[str], now: float, minimum: float) -> bool:
    """True if the request has a wanted type, and has run for `minimum` seconds."""
    ask_class = request.ask.ask_class
    if request.state not in MAY_GO or ask_class.required_node is not None:
        return False
    has_run = seconds_run(request, now) >= minimum
    return has_run and any(name in wanted for name, _ in ask_class.items)


def _rank(request: Request, wanted: set[str], now: float) -> tuple[object, ...]:
    """Rank of a candidate, cheapest first.

    The criteria: its kind (`kind_of`), all wanted types before some, low priority, youth in whole
    hours, small sum of wanted amounts.
    """
    ask = request.ask
    sizes = [value for name, value in ask.ask_class.items if name in wanted]
    return (
        kind_of(request),
        len(sizes) < len(wanted),
        request.priority,
        max(0.0, now - request.create_time) // _HOUR,
        sum(sizes),
        ask.app_id,
        ask.key,
    )


def _fits(items: Items, rest: Resources) -> bool:
    """True if the amounts fit into `rest`. A type missing there is unlimited."""
    return all(value <= rest[name] for name, value in items if name in rest)


def _take_off(items: Items, rest: dict[str, int]) -> None:
    """Subtract the amounts from each type in `rest`."""
    for name, value in items:
        if name in rest:
            rest[name] -= value


def _exceeds_max(queue: Queue, items: Items, wanted: Resources) -> bool:
    """True if the queue still reaches its maximum without the items, in each wanted type."""
    bounds = queue.max or EMPTY
    return all(
        name in bounds and _staying(queue, name) - value >= bounds[name]
        for name, value in items
        if name in wanted
    )


def _keeps_guarantee(queue: Queue, items: Items) -> bool:
    """True if the queue stays at its guarantee or above without the items (law 2)."""
    guaranteed = queue.guaranteed or EMPTY
    return all(
        _staying(queue, name) - value >= guaranteed[name] for name, value in items if name in guaranteed
    )
