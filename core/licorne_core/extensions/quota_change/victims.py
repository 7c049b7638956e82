"""Enforcement of a changed maximum: amounts to stop, and victims (spec § 9.6). `clock.py` has the times.

Usage is the allocated amounts except those of current victims. Promises are not included: promised asks are
placed only below the maximum.
"""

from collections.abc import Callable, Generator, Iterator, Sequence

from licorne_core.model.apps.requests import MAY_GO, Request, seconds_lost, seconds_run
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.losses import Losses, loss_of
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victims import Victim, amounts_of, kind_of
from licorne_core.values.resources import EMPTY, Items, Resources, charge, without_zeros
from licorne_core.values.slices import PART, in_runs, put_in_order

_HOUR = 3600.0


# Amounts


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
    """The leaves of the queue by name, each with its share of the amount to stop.

    The share of a queue is divided among its children in proportion to their excess over their guarantees,
    rounded down. The share of a leaf has all types, including zeros. A None marks a possible pause.
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
    """Share of a child, which is at most its excess over its guarantee."""
    part = {}
    for name, value in amount.items():
        most = spare[name]
        part[name] = min(value * most // totals[name], most) if most else 0
    return part


def _staying(queue: Queue, name: str) -> int:
    """Usage of a type without current victims."""
    return queue.allocated.get(name, 0) - queue.preempting.get(name, 0)


def _spare(queue: Queue, name: str) -> int:
    """Amount of a type above the queue's guarantee."""
    return max(0, _staying(queue, name) - (queue.guaranteed or EMPTY).get(name, 0))


# Choice


class Enforcement:
    """The enforcement of one queue's maximum, step by step.

    All victims together fit into the excess. So the queue may remain above its maximum, but is never reduced
    below it. No queue falls below its guarantee. Each victim is stopped as soon as it is chosen, by the books
    at that time, as they may change between two steps.
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

        `assumed` gives the checkpoint for allocations of a leaf whose RM reported none.
        """
        amount = amount_of(queue)
        self.amount: Resources = without_zeros(amount)
        """Amounts to stop, by type."""
        self.selected = 0
        """Number of candidates that were ranked."""
        self.victims = 0
        """Number of chosen victims."""
        self.claimed: dict[str, int] = {}
        """Total amounts of the victims, by type."""
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
                together: tuple[Victim, ...] = ()
                if app is not None and self._has_room(request.ask.ask_class.items, rest):
                    together = units.with_others(app, request)
                items = amounts_of(together)
                if together and self._may_go(leaf, together, items, rest):
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
        """Find the candidates of a leaf, cheapest first; yield the costs of the steps.

        A unit of a gang is one candidate: its youngest member.
        """
        now, minimum, units = self._now, leaf.settings.preemption_minimum_runtime, self._units()
        wanted = {name for name, value in part.items() if value > 0}
        ranks: dict[Request, tuple[object, ...]] = {}
        looks = 0
        for app in list(leaf.applications.values()) if wanted else ():
            in_units = app.gang.units is not None
            for request in (None, *app.requests.values()):
                if request is not None:
                    unit = units.unit(app, request) if in_units else None
                    together = (request,) if unit is None else unit.ranked_by(request)
                    if _are_candidates(together, wanted, now, minimum):
                        ranks[request] = _rank(
                            request, together, wanted, now, 0 if unit is None else unit.grows
                        )
                looks += 1
                if not looks % PART:
                    yield 1
        self.selected += len(ranks)
        return (yield from put_in_order(list(ranks), key=ranks.__getitem__))

    def _has_room(self, items: Items, rest: Resources) -> bool:
        """True if the queue remains at or above its maximum without these amounts."""
        return _fits(items, rest) and _exceeds_max(self._queue, items, rest)

    def _may_go(self, leaf: Queue, together: Sequence[Victim], items: Items, rest: Resources) -> bool:
        """True if these requests run, fit into `rest` with their amounts, and may be victims by the laws."""
        minimum = leaf.settings.preemption_minimum_runtime
        for victim in together:
            if victim.request.state not in MAY_GO or seconds_run(victim.request, self._now) < minimum:
                return False
        if len(together) > 1 and not self._has_room(items, rest):
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


def still_exceeds(queue: Queue, leaf: Queue, items: Items) -> bool:
    """True if these amounts of a leaf, whose stop is pending, still exceed the maximum.

    The queue would exceed its maximum with them, and no guarantee needs them (law 2).
    """
    bounds = queue.max or EMPTY
    if not all(_keeps_guarantee(above, tuple((name, 0) for name, _ in items)) for above in leaf.lineage):
        return False
    return any(name in bounds and _staying(queue, name) + value > bounds[name] for name, value in items)


def _are_candidates(together: Sequence[Request], wanted: set[str], now: float, minimum: float) -> bool:
    """True if any of the requests has a wanted type, and all have run for `minimum` seconds."""
    for request in together:
        if request.state not in MAY_GO or request.ask.ask_class.required_node is not None:
            return False
        if seconds_run(request, now) < minimum:
            return False
    return not all(wanted.isdisjoint(request.ask.ask_class.resources) for request in together)


def _rank(
    request: Request, together: Sequence[Request], wanted: set[str], now: float, grows: int
) -> tuple[object, ...]:
    """Rank of a candidate, cheapest first: of a request and all requests stopped `together` with it.

    The criteria: growth of a gang (`grows`, see `Unit`), its kind (`kind_of`), first those with all wanted
    types, low priority, youth in whole hours, small sum of wanted amounts.
    """
    sizes = {name: value for name, value in request.ask.ask_class.items if name in wanted}
    kind, priority = kind_of(request), request.priority
    for one in together if len(together) > 1 else ():
        kind |= kind_of(one)
        priority = max(priority, one.priority)
        if one is not request:
            charge(sizes, tuple([item for item in one.ask.ask_class.items if item[0] in wanted]))
    return (
        -grows,
        kind,
        len(sizes) < len(wanted),
        priority,
        max(0.0, now - request.create_time) // _HOUR,
        sum(sizes.values()),
        request.ask.app_id,
        request.key,
    )


def _fits(items: Items, rest: Resources) -> bool:
    """True if the amounts fit into the remainder `rest`. A type that it lacks is unlimited."""
    return all(value <= rest[name] for name, value in items if name in rest)


def _take_off(items: Items, rest: dict[str, int]) -> None:
    """Subtract the amounts from each type in `rest`."""
    for name, value in items:
        if name in rest:
            rest[name] -= value


def _exceeds_max(queue: Queue, items: Items, wanted: Resources) -> bool:
    """True if the queue without these amounts still reaches its maximum, in each wanted type."""
    bounds = queue.max or EMPTY
    return all(
        name in bounds and _staying(queue, name) - value >= bounds[name]
        for name, value in items
        if name in wanted
    )


def _keeps_guarantee(queue: Queue, items: Items) -> bool:
    """True if the queue remains at or above its guarantee without these amounts (law 2)."""
    guaranteed = queue.guaranteed or EMPTY
    return all(
        _staying(queue, name) - value >= guaranteed[name] for name, value in items if name in guaranteed
    )
