"""The search for a shadow start: the earliest time at which nodes have room for an ask, or for a whole gang.

Room on a node grows with time, as allocations end; what is held for other starts is taken from now on, until
their expected ends. At the earliest time the nodes are filled in node order, each before the next. A search
of very many nodes goes on in the next turn, like that of `node_search/heaps.py`; nodes that have changed
meanwhile are looked at again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Final, NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.nodes.planned import AllocationId
from licorne_core.model.runtimes import Confidence, Runtimes
from licorne_core.scheduling.gang_domains import rank_of
from licorne_core.scheduling.gang_slots import MAX_KINDS
from licorne_core.scheduling.node_search.heaps import StillLooking
from licorne_core.scheduling.shadows import GRACE, Plan, ShadowStart
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Items, charge, refund
from licorne_core.values.tags import RUNTIME, read_seconds

MOST_CLASSES = 1_000
"""Classes with a runtime that are kept in mind; beyond that all are forgotten."""

Classes = dict[tuple[AskClass, str], AskClass]
"""Classes with a runtime, by the class without and the text of the tag; `_NO_TEXT` leads back from there."""

_NO_TEXT: Final = ""
"""Stands for the tag of an ask that is to have no runtime in its class; no tag has this value."""

MOST_RESTARTS = 3
"""Times that a search begins anew for asks that have changed meanwhile, before it is given up for now."""

MOST_TIMES = 64
"""Times at which several kinds are tried beside each other; each costs a look at all nodes with room."""


def declared_runtime(app: Application, ask: Ask) -> float | None:
    """Seconds that the ask, or else its application, says it runs; None if neither does."""
    if ask.ask_class.runtime < inf:
        return ask.ask_class.runtime
    return read_seconds(ask.tags if RUNTIME in ask.tags else app.tags, RUNTIME)


def with_runtime(app: Application, ask: Ask, classes: Classes, *, backfills: bool = True) -> Ask:
    """The ask with its declared runtime in its class, or without backfill with none there.

    Asks of one class and runtime share one object, as `classes` has it: so the tag of most is not read.
    """
    known = ask.ask_class
    if backfills == (known.runtime < inf):
        return ask
    text = (ask.tags if RUNTIME in ask.tags else app.tags).get(RUNTIME) if backfills else _NO_TEXT
    if text is None:
        return ask
    found = classes.get((known, text))
    if found is None:
        declared = declared_runtime(app, ask) if backfills else None
        runtime = inf if declared is None else float(declared)
        found = AskClass.of(known.resources, known.required_node, known.predicate, runtime)
        if len(classes) >= MOST_CLASSES:
            classes.clear()
        classes[known, text] = found
    return ask.in_class(found)


def extended(end: float, now: float) -> float:
    """Expected end of what should have ended at `end`: soon, ever less soon the longer it is overdue."""
    if end > now:
        return end
    more = GRACE
    while end + more <= now:
        more *= 2
    return end + more


class Kind(NamedTuple):
    """Asks of one class that start together, in order."""

    ask_class: AskClass
    requests: Sequence[Request]


class _End(NamedTuple):
    """Amounts that are free from `time` on."""

    time: float
    items: Items


class _Room(NamedTuple):
    """Room on a node as time passes: from each time on, so many asks of each kind alone.

    `first_end` is the time of the first end on the node.
    """

    steps: Sequence[tuple[float, Sequence[int]]]
    first_end: float

    def slots(self, time: float) -> Sequence[int]:
        """Asks of each kind that have room at the time."""
        found: Sequence[int] = ()
        for since, slots in self.steps:
            if since > time:
                break
            found = slots
        return found


_Members = list[tuple[Request, Node]]


class StartSearch:
    """Searches the nodes of one partition; books nothing."""

    __slots__ = (
        "_applications",
        "_at",
        "_before",
        "_kinds",
        "_nodes",
        "_own",
        "_part",
        "_rest",
        "_restarts",
        "_rooms",
        "_tried_until",
        "classes",
        "runtimes",
        "work",
    )

    def __init__(
        self,
        nodes: NodeBook,
        applications: Mapping[AppId, Application],
        part: int,
        runtimes: Runtimes | None,
    ) -> None:
        """Search these nodes; a search of more than `part` looks goes on in another turn."""
        self._nodes = nodes
        self._applications = applications
        self._part = part
        self._kinds: Sequence[Kind] = ()
        self._before = inf
        self._own: ShadowStart | None = None
        self._at = 0
        # Times up to this one have been tried for several kinds together.
        self._tried_until = 0.0
        self._restarts = 0
        self._rooms: dict[Node, _Room] = {}
        self._rest: Iterator[Node] = iter(())
        self.classes: Classes = {}
        self.runtimes = runtimes
        """Learnt runtimes; None where backfill is off."""
        self.work = 0
        """Nodes, allocations and starts looked at so far."""

    def plan(
        self, app: Application, kinds: Sequence[Kind], now: float, *, before: float = inf
    ) -> Plan | None:
        """The earliest start of all these asks together at unix seconds `now`.

        None if no end that they need is known, or comes `before` a time: later ones are not looked at. None,
        too, for more than `MAX_KINDS`, and for asks that change again and again while they are planned: the
        pass would wait for them for ever.

        Raises:
            StillLooking: not all nodes, or not all times, have been searched yet.
        """
        if len(kinds) > MAX_KINDS:
            return None
        if self._kinds != kinds or self._before != before:
            is_same = bool(self._kinds) and self._kinds[0].requests[0].ask.app_id == app.app_id
            self._restarts = self._restarts + 1 if is_same else 0
            if self._restarts > MOST_RESTARTS:
                self._restarts, self._kinds, self._rooms = 0, (), {}
                return None
            self._kinds, self._before, self._own = kinds, before, kinds[0].requests[0].shadow
            self._at = self._nodes.changed.count
            self._tried_until = 0.0
            self._rooms = {}
            self._rest = iter(list(self._nodes.by_id.values()))
        until = self.work + self._part
        for node in self._rest:
            self._look(node, now)
            if self.work >= until:
                raise StillLooking
        for node in self._nodes.changed.since(self._at):
            self._look(node, now)
        for node, room in list(self._rooms.items()):
            if room.first_end <= now:
                self._look(node, now)
        known = self._nodes.by_id
        rooms = {node: room for node, room in self._rooms.items() if known.get(node.node_id) is node}
        in_order = sorted(rooms, key=rank_of)
        start = self._earliest(rooms)
        members: _Members | None = None
        if start is not None and len(kinds) > 1:
            start, members = self._together(rooms, in_order, start, now, until)
        elif start is not None:
            members = self._members(rooms, in_order, start, now)
        plan = None if start is None or members is None else self._made(app, members, start, now)
        self._kinds, self._rooms = (), {}
        return plan

    def _look(self, node: Node, now: float) -> None:
        """Note the room on the node, if there ever is any."""
        self.work += 1 + len(node.allocations)
        may = [_may_hold(node, kind.ask_class) for kind in self._kinds]
        room = self._room_on(node, may, now) if any(may) else None
        if room is None or not room.steps:
            self._rooms.pop(node, None)
        else:
            self._rooms[node] = room

    def _room_on(self, node: Node, may: Sequence[bool], now: float) -> _Room:
        free, ends = self._free_on(node, now)
        first = ends[0].time if ends else inf
        steps: list[tuple[float, Sequence[int]]] = []
        time, before = now, [0] * len(may)
        for end in (*ends, _End(inf, ())):
            if end.time > time:
                slots = [
                    min(_times(kind.ask_class.items, free), len(kind.requests)) if allowed else 0
                    for kind, allowed in zip(self._kinds, may, strict=True)
                ]
                if slots != before or (len(may) > 1 and steps):
                    steps.append((time, slots))
                    before = slots
                if end.time == inf or (len(may) == 1 and slots[0] == len(self._kinds[0].requests)):
                    break
                time = end.time
            charge(free, end.items)
        return _Room(steps, first)

    def _free_on(self, node: Node, now: float) -> tuple[dict[str, int], list[_End]]:
        """What is free on the node now beside other starts, and what ends there in time, in order."""
        free = dict(node.available)
        ends: list[_End] = []
        for allocation in node.allocations:
            time, _ = self._end_of(allocation, now)
            if time < self._before:
                ends.append(_End(time, allocation.ask.ask_class.items))
        for shadow, room in node.plans.items():
            if shadow is not self._own:
                refund(free, room.items)
                if room.end < self._before:
                    ends.append(_End(room.end, room.items))
        ends.sort()
        return free, ends

    def _earliest(self, rooms: Mapping[Node, _Room]) -> float | None:
        """The first time at which there are slots enough for each kind alone."""
        start = 0.0
        for number, kind in enumerate(self._kinds):
            lacks = len(kind.requests)
            for time, more in sorted(_gains(rooms.values(), number)):
                lacks -= more
                if lacks <= 0:
                    start = max(start, time)
                    break
            else:
                return None
        return start

    def _together(
        self, rooms: Mapping[Node, _Room], in_order: Sequence[Node], first: float, now: float, until: int
    ) -> tuple[float | None, _Members | None]:
        """The first time at which several kinds have room beside each other, among the next few."""
        times = sorted({time for room in rooms.values() for time, _ in room.steps})
        for time in [time for time in times if time >= first][:MOST_TIMES]:
            if time <= self._tried_until:
                continue
            if self.work >= until:
                raise StillLooking
            members = self._members(rooms, in_order, time, now)
            self._tried_until = time
            if members is not None:
                return time, members
        return None, None

    def _members(
        self, rooms: Mapping[Node, _Room], in_order: Sequence[Node], start: float, now: float
    ) -> _Members | None:
        """The asks on the nodes in their order, each filled before the next; None without room for all."""
        rest = [list(kind.requests) for kind in self._kinds]
        members: _Members = []
        for node in in_order:
            if not any(rest):
                break
            slots = rooms[node].slots(start)
            if not any(slots):
                continue
            self.work += 1 + len(node.allocations)
            free, ends = self._free_on(node, now)
            for end in ends:
                if end.time <= start:
                    charge(free, end.items)
            for number, kind in enumerate(self._kinds):
                fitting = min(_times(kind.ask_class.items, free), len(rest[number])) if slots[number] else 0
                members += [(request, node) for request in rest[number][:fitting]]
                del rest[number][:fitting]
                for name, value in kind.ask_class.items:
                    free[name] = free.get(name, 0) - fitting * value
        return None if any(rest) else members

    def _end_of(self, allocation: Allocation, now: float) -> tuple[float, Confidence]:
        """Expected end of an allocation, inf for unknown."""
        ask = allocation.ask
        seconds, known = self.expected(self._applications[ask.app_id], ask)
        time = inf if seconds is None else extended(allocation.allocation_time + seconds, now)
        return time, known

    def expected(self, app: Application, ask: Ask) -> tuple[float | None, Confidence]:
        """Expected runtime of an ask in seconds, None for unknown."""
        declared = declared_runtime(app, ask)
        if self.runtimes is None:
            return declared, Confidence.UNKNOWN if declared is None else Confidence.DECLARED
        return self.runtimes.expected(app.queue_path, ask.ask_class.shape, declared)

    def _made(self, app: Application, members: _Members, start: float, now: float) -> Plan:
        """The plan for the nodes that have room at the start."""
        places: dict[Node, dict[str, int]] = {}
        end = start
        for request, node in members:
            charge(places.setdefault(node, {}), request.ask.ask_class.items)
            seconds, _ = self.expected(app, request.ask)
            end = max(end, inf if seconds is None else start + seconds)
        learnt = False
        going: dict[Node, frozenset[AllocationId]] = {}
        for node in places:
            ends = [(one.ask, self._end_of(one, now)) for one in node.allocations]
            gone = [(ask, known) for ask, (time, known) in ends if time <= start]
            learnt = learnt or any(known is Confidence.LEARNT for _, known in gone)
            going[node] = frozenset((ask.app_id, ask.key) for ask, _ in gone)
        known = Confidence.LEARNT if learnt else Confidence.DECLARED
        items = {node: tuple(sorted(amounts.items())) for node, amounts in places.items()}
        return Plan(app, members, start, end, known, items, going)


def _gains(rooms: Iterable[_Room], number: int) -> Iterator[tuple[float, int]]:
    """Times at which a room has more slots for a kind, with their number."""
    for room in rooms:
        before = 0
        for time, slots in room.steps:
            if slots[number] != before:
                yield time, slots[number] - before
                before = slots[number]


def _may_hold(node: Node, ask_class: AskClass) -> bool:
    """True if room on the node may be held for asks of the class."""
    if not node.schedulable or node.reservations or not node.holds(ask_class.items):
        return False
    results = node.results
    return not (results and (results.get((ask_class, True)) or results.get((ask_class, False))))


def _times(items: Items, free: Mapping[str, int]) -> int:
    """How often the amounts fit."""
    return max(0, min(free.get(name, 0) // value for name, value in items))
