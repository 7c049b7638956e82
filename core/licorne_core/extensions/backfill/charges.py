"""Allocations charged to quotas by declared end, and amounts of quotas that planned starts hold.

A quota has a table from its first search on, as long as starts hold some of it. The table is made from the
applications that count in the quota. It follows the log of changed nodes: new allocations on a changed node
are added, ended ones are removed. Each start holds its amounts of every quota with a maximum, from its start
to its end (`HeldAmounts`). Root's maximum is the size of all nodes, where room is held already. A quota of
several partitions is planned for this partition only, within the amounts that other partitions do not use
(`most_of`): their usage never ends in the plan.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from math import inf
from typing import Any, Final

from licorne_core.extensions.backfill.expected_ends import is_charged
from licorne_core.extensions.backfill.planned_room import AllocationId, PlannedClaim, PlannedRoom
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.effort import Search
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, Tracker
from licorne_core.scheduling.node_search.index import StillLooking
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AppId
from licorne_core.values.resources import EMPTY, Items, Resources, charge, refund
from licorne_core.values.slices import PART, parts_of

ALLOCATIONS_AT_ONE: Final = 64
"""Number of compared allocations of a changed node that cost 1."""

ENDS_AT_ONE: Final = 8
"""Number of added ends that cost 1."""

COST_OF_A_PART: Final = 3
"""Cost of adding `PART` allocations to a table."""


def planned_quotas(app: Application) -> list[Quota]:
    """The quotas of its partition that starts of an application hold; some may have no maximum at present."""
    above = [one for quota in app.further for one in quota.above]
    return [quota for quota in app.quotas if not quota.strict and quota not in above]


def bounded(app: Application) -> list[Quota]:
    """The quotas with a maximum under which the starts of an application are planned."""
    return [quota for quota in planned_quotas(app) if most_of(quota) is not None]


def most_of(quota: Quota) -> Resources | None:
    """The maximum of a quota: the least of its own, and of what others leave of those above it."""
    bounding = quota.bounding()
    if len(bounding) == 1:
        return quota.max
    bounds = [one for one in bounding if one.max is not None]
    most: dict[str, int] = {}
    for one in bounds:
        for name, bound in (one.max or EMPTY).items():
            left = bound - _taken(one, name) + _taken(quota, name)
            most[name] = min(left, most.get(name, left))
    return most if bounds else None


def _taken(quota: Quota, name: str) -> int:
    return quota.allocated.get(name, 0) + quota.promised.get(name, 0)


def free_of(quota: Quota) -> dict[str, int]:
    """Free amounts of each type that the maximum names, after all promises; may be negative."""
    most: Resources = most_of(quota) or {}
    free: dict[str, int] = {}
    for name, bound in most.items():
        free[name] = bound - _taken(quota, name)
    return free


def declared_end(allocation: Allocation) -> float:
    """The end that an allocation declares in unix seconds, inf if it declares none."""
    return allocation.allocation_time + allocation.ask.ask_class.runtime


class Ending:
    """The allocations charged to a quota that declare the same end."""

    __slots__ = ("allocations", "amounts")

    def __init__(self) -> None:
        """Start empty."""
        self.amounts: dict[str, int] = {}
        self.allocations: dict[Allocation, None] = {}


class QuotaEnds:
    """The allocations charged to one quota, by their declared ends; inf if none is declared."""

    __slots__ = ("at", "rest", "times", "version")

    def __init__(self, requests: Iterator[Request | None]) -> None:
        """Start empty; `requests` are those of all applications that count in the quota."""
        self.at: dict[float, Ending] = {}
        self.times: list[float] = []
        """The ends in order."""
        self.version = 0
        """Rises with every change."""
        self.rest: Iterator[Request | None] | None = requests
        """Requests that have not been read yet; None for a complete table."""

    def has(self, allocation: Allocation) -> bool:
        """True if the allocation is charged to the quota."""
        ending = self.at.get(declared_end(allocation))
        return ending is not None and allocation in ending.allocations

    def add(self, allocation: Allocation) -> bool:
        """Add an allocation; False if it is in the table already."""
        time = declared_end(allocation)
        ending = self.at.get(time)
        if ending is None:
            ending = self.at[time] = Ending()
            insort(self.times, time)
        elif allocation in ending.allocations:
            return False
        ending.allocations[allocation] = None
        charge(ending.amounts, allocation.ask.ask_class.items)
        self.version += 1
        return True

    def remove(self, allocation: Allocation) -> bool:
        """Remove an allocation; False if it is not in the table."""
        time = declared_end(allocation)
        ending = self.at.get(time)
        if ending is None or allocation not in ending.allocations:
            return False
        del ending.allocations[allocation]
        refund(ending.amounts, allocation.ask.ask_class.items)
        if not ending.allocations:
            del self.at[time]
            del self.times[bisect_left(self.times, time)]
        self.version += 1
        return True

    def between(self, after: float, until: float) -> list[Ending]:
        """The ends after the time `after` and up to the time `until`."""
        times = self.times
        return [self.at[time] for time in times[bisect_right(times, after) : bisect_right(times, until)]]


class Charges:
    """The tables of the quotas of one partition that are searched or held."""

    def __init__(self, nodes: NodeBook, applications: Mapping[AppId, Application], search: Search) -> None:
        """Start without tables; reading counts as work of the search."""
        self._nodes, self._applications, self._search = nodes, applications, search
        self._tables: dict[Quota, QuotaEnds] = {}
        # The charged allocations on each node, with their quotas.
        self._known: dict[Node, dict[Allocation, tuple[Quota, ...]]] = {}
        self._read = 0
        # Nodes that have changed and are not examined yet.
        self._behind: dict[Node, None] = {}

    @property
    def is_current(self) -> bool:
        """True if no node has changed since it was examined."""
        return not self._behind and self._nodes.changed.count == self._read

    def prepare(self, quotas: Iterable[Quota], until: int) -> None:
        """Make the tables of these quotas, while the search's work is below `until`.

        Raises:
            StillLooking: there is more to read.
        """
        for quota in quotas:
            if not self._catch_up(until):
                raise StillLooking
            table = self._table(quota)
            while table.rest is not None:
                if self._search.work >= until:
                    raise StillLooking
                self._read_next(quota, table)

    def steps(self, quotas: Iterable[Quota]) -> Iterator[int]:
        """Make the tables of these quotas, in steps of a job."""
        for quota in quotas:
            while not self._catch_up(self._search.work + PART):
                yield 1
            table = self._table(quota)
            while table.rest is not None:
                self._read_next(quota, table)
                yield 1

    def of(self, quota: Quota) -> QuotaEnds:
        """The table of a quota."""
        table = self._table(quota)
        while table.rest is not None:
            self._read_next(quota, table)
        return table

    def named(self, name: AllocationId) -> Allocation | None:
        """The allocation of that name, if any."""
        app = self._applications.get(name[0])
        request = None if app is None else app.requests.get(name[1])
        return None if request is None else request.allocation

    def drop_unused(self, wanted: Sequence[Quota]) -> None:
        """Drop the tables of quotas of which no start holds anything, except the `wanted` quotas."""
        for quota in [quota for quota in self._tables if not quota.claims and quota not in wanted]:
            del self._tables[quota]
        if not (self._tables or wanted):
            self.clear()

    def follow(self, app: Application) -> Iterator[int]:
        """Count the allocations of an application in its present quotas, in steps of a job."""
        for part in parts_of(list(app.requests.values()) if self._tables else []):
            for request in part:
                if request.allocation is not None:
                    self._move(request.allocation, app.quotas)
            yield 1

    def _move(self, allocation: Allocation, quotas: tuple[Quota, ...]) -> None:
        node = self._nodes.by_id.get(allocation.node_id)
        known = {} if node is None else self._known.get(node, {})
        before = known.get(allocation, quotas)
        if before != quotas:
            self._ended(allocation, before)
            known[allocation] = quotas
            self._began(allocation, quotas)

    def forget(self, node: Node) -> None:
        """Drop the allocations of a removed node."""
        self._behind.pop(node, None)
        for allocation, quotas in self._known.pop(node, {}).items():
            self._ended(allocation, quotas)

    def clear(self) -> None:
        """Drop all tables and the data that were read for them."""
        self._tables, self._known, self._behind, self._read = {}, {}, {}, 0

    def _table(self, quota: Quota) -> QuotaEnds:
        self._catch_up(inf)
        table = self._tables.get(quota)
        if table is None:
            table = self._tables[quota] = QuotaEnds(self._counted(quota))
        return table

    def _read_next(self, quota: Quota, table: QuotaEnds) -> None:
        """Read the next few allocations that may be charged to the quota."""
        assert table.rest is not None, "there is more to read"
        self._search.work += COST_OF_A_PART
        part = list(islice(table.rest, PART))
        for request in part:
            allocation: Allocation | None = None if request is None else request.allocation
            if allocation is None:
                continue
            node = self._nodes.by_id.get(allocation.node_id)
            known = {} if node is None else self._known.get(node, {})
            if quota in known.get(allocation, ()) and table.add(allocation):
                _note(quota, allocation, charge)
        if len(part) < PART:
            table.rest = None

    def _counted(self, quota: Quota) -> Iterator[Request | None]:
        """The allocated requests of the applications that count in a quota; None for one without any."""
        for app_id in list(self._members(quota)):
            app = self._applications.get(app_id)
            requests = () if app is None or not app.allocation_count else app.requests.values()
            yield from [one for one in requests if one.allocation is not None] or (None,)

    def _members(self, quota: Quota) -> Iterable[AppId]:
        """The applications that may count in a quota."""
        if isinstance(quota, Tracker):
            return quota.members
        return _below(quota) if isinstance(quota, Queue) else self._applications

    def _catch_up(self, until: float) -> bool:
        """Follow the changes of nodes while the work is below `until`; False if changes are left."""
        changed, behind = self._nodes.changed, self._behind
        if changed.count != self._read:
            behind.update(dict.fromkeys(changed.since(self._read)))
            self._read = changed.count
        while behind:
            if self._search.work >= until:
                return False
            node = next(iter(behind))
            del behind[node]
            self._examine(node)
        return True

    def _examine(self, node: Node) -> None:
        known = self._known.setdefault(node, {})
        there = node.allocations
        self._search.work += 1 + (len(known) + len(there)) // ALLOCATIONS_AT_ONE
        for allocation in known.keys() - there.keys():
            self._ended(allocation, known.pop(allocation))
        for allocation in there.keys() - known.keys():
            ask = allocation.ask
            app = self._applications[ask.app_id]
            if is_charged(app, ask.key):
                known[allocation] = app.quotas
                self._began(allocation, app.quotas)

    def _began(self, allocation: Allocation, quotas: Iterable[Quota]) -> None:
        for quota in quotas if self._tables else ():
            table = self._tables.get(quota)
            if table is not None and table.add(allocation):
                _note(quota, allocation, charge)

    def _ended(self, allocation: Allocation, quotas: Iterable[Quota]) -> None:
        for quota in quotas if self._tables else ():
            table = self._tables.get(quota)
            if table is not None and table.remove(allocation):
                _note(quota, allocation, refund)


class HeldAmounts(PlannedRoom):
    """Amounts that a start holds of the quotas of its application.

    `going` are allocations expected to end by the start without having declared it (`StartPlan.ended`).
    `freed` has the amounts of each quota that are expected to be free by then, as far as they were computed.
    """

    quotas: Sequence[Quota] = ()
    freed: dict[Quota, dict[str, int]]
    _charges: "Charges"

    def enter(self, claim: PlannedClaim, charges: "Charges") -> None:
        """Hold the amounts of the present quotas of the application, after a reload as well."""
        self.leave(claim)
        self.quotas = planned_quotas(claim.app)
        self.freed, self._charges = {}, charges
        for quota in self.quotas:
            quota.claims[claim] = self

    def leave(self, claim: PlannedClaim) -> None:
        """Release the amounts of all quotas."""
        for quota in self.quotas:
            del quota.claims[claim]
        self.quotas = ()

    def move(self, delay: float) -> None:
        """Move the amounts with their start."""
        super().move(delay)
        self.freed = {}

    def note(self, holder: PlannedClaim, allocations: Set[AllocationId], now: float) -> None:
        """Count allocations of another start that begins now as ended by this one, if it was planned so."""
        super().note(holder, allocations, now)
        self.freed = {}

    def has_left(self, items: Items, thing: Any, holder: object) -> bool:
        """True if the amounts of the types that the maximum names are free at the start."""
        if most_of(thing) is None:
            return True
        left = self.left_on(thing, holder)
        return all(value <= 0 or left.get(name, value) >= value for name, value in items)

    def exceeds(self, quota: Quota) -> bool:
        """True if the maximum has no room at the start, in addition to starts that were published earlier."""
        left = self._left_of(quota, None, last=self.number)
        return any(value > 0 and left.get(name, 0) < 0 for name, value in self.items)

    def left_on(self, node: Any, holder: object = None) -> dict[str, int]:
        """Free amounts of a quota at the start, of the types that the maximum names."""
        return self._left_of(node, holder)

    def _left_of(self, quota: Quota, holder: object, *, last: float = inf) -> dict[str, int]:
        left = free_of(quota)
        names = tuple(left)
        table = self._charges.of(quota)
        freed = self.freed.get(quota)
        if freed is None:
            freed = self.freed[quota] = self._freed(table)
        charge(left, tuple(freed.items()))
        self.beside(left, quota, holder, last=last)
        return {name: left.get(name, 0) for name in names}

    def ends_before(self, allocation: Allocation) -> bool:
        """True if the allocation is expected to end by the start."""
        if self.planned < declared_end(allocation) <= self.start:
            return True
        return (allocation.ask.app_id, allocation.ask.key) in self.going

    def _freed(self, table: "QuotaEnds") -> dict[str, int]:
        found: dict[str, int] = {}
        ends = table.between(self.planned, self.start)
        for ending in ends:
            charge(found, tuple(ending.amounts.items()))
        for name in self.going:
            allocation = self._charges.named(name)
            if allocation is None or self.planned < declared_end(allocation) <= self.start:
                continue
            if table.has(allocation):
                charge(found, allocation.ask.ask_class.items)
        self._claims.work += (len(ends) + len(self.going)) // ENDS_AT_ONE
        return found


def _below(queue: Queue) -> Iterator[AppId]:
    """The applications in a queue."""
    yield from queue.applications
    for child in queue.children.values():
        yield from _below(child)


def _note(quota: Quota, allocation: Allocation, post: Callable[[dict[str, int], Items], None]) -> None:
    """Add an allocation to the freed amounts of starts that hold some of the quota, or subtract it."""
    for room in quota.claims.values():
        freed = room.freed.get(quota) if isinstance(room, HeldAmounts) else None
        if freed is not None and room.ends_before(allocation):
            post(freed, allocation.ask.ask_class.items)
