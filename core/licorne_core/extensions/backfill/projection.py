"""A simple estimate of when pending asks start: in the present order, each as soon as it has room.

Allocations end at their expected ends (`start_search.py`); an allocation of unknown runtime never ends here.
Only asks ahead of the ask use room before it, and no new asks arrive. A gang starts as a whole, on one set of
nodes if its terms require that; bundles of members inside of a set are not considered. While its leaf is
closed no ask starts. An ask that would run on at a shadow start gets none of the room that is held for it, on
nodes and under maxima.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

from licorne_core.extensions.backfill.charges import free_of, most_of
from licorne_core.extensions.backfill.expected_ends import ExpectedEnds
from licorne_core.extensions.backfill.shadows import Shadows
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.groups import AskGroup, waits
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.apps.states import SCHEDULABLE
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.users import in_order
from licorne_core.model.quotas import Quota, headroom
from licorne_core.model.runtimes import Confidence
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.gang_sets import sets_for
from licorne_core.values.asks import Ask, AskClass, extended
from licorne_core.values.resources import Items, charge, refund

MOST_LOOKS = 100_000
"""Most allocations, groups of asks, and nodes for an ask that one estimate examines; beyond that there is
none.

As many take less than a second of CPU.
"""

STEP = 200
"""Number of examinations without a pause: about a millisecond."""


class Guess(NamedTuple):
    """Estimated start of an ask in unix seconds, and its confidence; None without an estimate.

    `ahead` is the number of asks ahead of it if there are too many, else 0.
    """

    start: float | None
    confidence: Confidence
    ahead: int = 0


NO_GUESS = Guess(None, Confidence.UNKNOWN)


class _End(NamedTuple):
    """The expected end of an allocation; `serial` distinguishes equal times."""

    time: float
    serial: int
    node: Node
    quotas: tuple[Quota, ...]
    items: Items
    confidence: Confidence


class _Item:
    """Asks of one application in the line: an ask of each kind, with the number still pending.

    `was_tried` if they have found no room since the last end, in an open leaf.
    """

    __slots__ = ("app", "together", "wants", "was_tried")

    def __init__(self, app: Application, wants: list[tuple[Ask, int]], *, together: bool) -> None:
        """Create the item; `together` for a gang, which starts as a whole."""
        self.app = app
        self.wants = wants
        self.together = together
        self.was_tried = False


_Steps = Generator[None, None, bool]


class Projection:
    """One estimate. It reads the books and changes nothing."""

    def __init__(
        self,
        partition: Partition,
        shadows: Shadows,
        ends: ExpectedEnds,
        app: Application,
        request: Request,
        now: float,
    ) -> None:
        """Begin at `now`, in unix seconds, for a pending ask of a partition."""
        self._partition = partition
        self._shadows, self._known = shadows, ends
        self._app, self._request = app, request
        self._now = now
        self.looks = self._paused = 0
        """Number of objects examined so far."""
        self._ahead = 0
        self._opens = inf
        """The next opening of a closed leaf with asks that have not been tried since the last end."""
        self._free: dict[Node, dict[str, int]] = {}
        self._rooms: dict[Quota, dict[str, int]] = {}
        self._ends: list[_End] = []
        self._serial = 0
        self._nowhere: dict[AskClass, dict[Node, None]] = {}
        """Classes that fit no node, except perhaps these nodes, which have gained room since."""
        self._confidence = Confidence.DECLARED

    def steps(self) -> Iterator[Guess | None]:
        """The estimate, after a None wherever the reader may pause."""
        guess = yield from self._guess()
        yield guess

    def _guess(self) -> Generator[None, None, Guess]:
        line: list[_Item] = []
        known = yield from self._find_ends()
        if not known or not (yield from self._find_line(line)):
            return self._none()
        time, target = self._now, line[-1]
        while self.looks < MOST_LOOKS:
            self._opens = inf
            for item in line:
                yield from self._look()
                yield from self._start(item, time)
                if self.looks >= MOST_LOOKS:
                    return self._none()
            if not target.wants:
                return Guess(time, self._confidence)
            line = [item for item in line if item.wants]
            end = self._ends[0].time if self._ends else inf
            time = min(self._opens, end)
            if time == inf:
                break
            for item in line if time == end else ():
                item.was_tried = False
            yield from self._pass(time)
        return self._none()

    def _none(self) -> Guess:
        """No estimate: a runtime is unknown, or too many asks are ahead."""
        return NO_GUESS._replace(ahead=self._ahead) if self.looks >= MOST_LOOKS else NO_GUESS

    def _look(self) -> Iterator[None]:
        """Count an examination; pause after every `STEP` of them."""
        self.looks += 1
        if self.looks >= self._paused + STEP:
            self._paused = self.looks
            yield

    def _find_ends(self) -> _Steps:
        """Find the expected ends of allocations; False if there are too many."""
        for app in list(self._partition.applications.values()):
            for request in list(app.requests.values()) if app.allocation_count else ():
                yield from self._look()
                if self.looks >= MOST_LOOKS:
                    return False
                allocation = request.allocation
                if allocation is not None and request.state in MAY_GO:
                    node = self._partition.nodes.by_id[allocation.node_id]
                    self._expect(app, node, request.ask, allocation.allocation_time)
        for shadow in self._shadows:
            for node in shadow.places:
                if shadow.expected_end < inf:
                    # From then on the held room is free.
                    self._push(shadow.expected_end, node, (), (), shadow.confidence)
        return True

    def _expect(self, app: Application, node: Node, ask: Ask, begin: float) -> None:
        """Note the end of an allocation that runs from `begin` on, unless it is unknown."""
        runtime, confidence = self._known.runtimes.expected(app, ask)
        if runtime is not None:
            end = extended(begin + runtime, self._now)
            self._push(end, node, app.quotas, ask.ask_class.items, confidence)

    def _push(
        self, time: float, node: Node, quotas: tuple[Quota, ...], items: Items, confidence: Confidence
    ) -> None:
        self._serial += 1
        heappush(self._ends, _End(time, self._serial, node, quotas, items, confidence))

    def _find_line(self, line: list[_Item]) -> _Steps:
        """Find the asks up to the estimated ask, in order; False if that ask is not among them."""
        # The room of holders is held in any case.
        holders = [shadow.request for shadow in self._shadows]
        for app in in_order(self._partition.tree.root.ranking):
            yield from self._look()
            if self.looks >= MOST_LOOKS:
                return False
            if app is None or app.state not in SCHEDULABLE or app.held or not app.pending_count:
                continue
            groups = [group for group in app.ranking.ordered() if isinstance(group, AskGroup)]
            members = [(group.first().request.ask, group.waiting) for group in groups if group.key[2]]
            is_one = app is self._app and self._request.ask.placeholder
            is_held = any(holder.ask.placeholder and holder.ask.app_id == app.app_id for holder in holders)
            if members and (is_one or not is_held):
                line.append(_Item(app, members, together=True))
                self._ahead += 0 if is_one else sum(count for _, count in members)
            if is_one:
                return bool(members)
            for group in groups:
                yield from self._look()
                if group.key[2] or app.gang.open_group(group.key[1], placeholder=False) is not None:
                    continue
                first, count = group.first().request.ask, group.waiting
                is_last = group is self._request.group
                if is_last:
                    place = self._request.place
                    count = 1 + sum(waits(one) and one < place for one in group.heap)
                count -= sum(holder.group is group for holder in holders)
                if is_last or count > 0:
                    line.append(_Item(app, [(first, max(1, count))], together=False))
                    self._ahead += max(0, count - is_last)
                if is_last:
                    return True
        return False

    def _start(self, item: _Item, time: float) -> Iterator[None]:
        """Start the asks that have room at the time; all of a gang or none, on one set of nodes."""
        is_open, until = self._shadows.openings.at(item.app.leaf, time)
        if not is_open:
            self._opens = self._opens if item.was_tried else min(self._opens, until)
            return
        item.was_tried = True
        sets = sets_for(item.app, self._partition.nodes, is_gang=item.together)
        if isinstance(sets, str):
            return
        for key in sets.names():
            yield from self._start_on(list(sets.nodes(key)), item, time)
            if not item.wants:
                return

    def _start_on(self, nodes: Sequence[Node], item: _Item, time: float) -> Iterator[None]:
        """Start those asks that have room on these nodes."""
        placed: list[tuple[Ask, Node]] = []
        left: list[tuple[Ask, int]] = []
        for ask, count in item.wants:
            found: list[Node] = []
            yield from self._take(nodes, item.app, ask.ask_class, count, time, found)
            placed += [(ask, node) for node in found]
            if len(found) < count:
                left.append((ask, count - len(found)))
            if left and item.together:
                for taken, node in placed:
                    self._free_again(item.app.quotas, node, taken.ask_class.items)
                    self._nowhere.pop(taken.ask_class, None)
                return
        item.wants = left
        for ask, node in placed:
            self._expect(item.app, node, ask, time)

    def _take(
        self,
        nodes: Sequence[Node],
        app: Application,
        ask_class: AskClass,
        count: int,
        time: float,
        found: list[Node],
    ) -> Iterator[None]:
        """Use room on these nodes for at most `count` asks, each on a node that is appended to `found`."""
        is_whole = len(nodes) == len(self._partition.nodes.by_id)
        gained = self._nowhere.get(ask_class)
        if gained is not None:
            nodes = list(gained) if is_whole else [node for node in nodes if node in gained]
        quotas = [quota for quota in app.quotas if most_of(quota) is not None]
        for node in nodes:
            yield from self._look()
            if self.looks >= MOST_LOOKS:
                return
            while self._fits(ask_class, node, time):
                if not all(_holds(self._beside(quota, ask_class, time), ask_class.items) for quota in quotas):
                    return
                refund(self._free_on(node), ask_class.items)
                for quota in quotas:
                    _post(self._room(quota), ask_class.items, -1)
                found.append(node)
                if len(found) == count:
                    return
        if is_whole:
            self._nowhere[ask_class] = {}

    def _beside(self, quota: Quota, ask_class: AskClass, time: float) -> dict[str, int]:
        """Amounts left of a quota for an ask that starts at the time, without the held amounts."""
        left = self._room(quota)
        for held in quota.claims.values():
            if time < held.end and time + ask_class.runtime > held.start:
                left = dict(left)
                _post(left, held.items, -1)
        return left

    def _fits(self, ask_class: AskClass, node: Node, time: float) -> bool:
        """True if the node takes an ask of the class at the time, and has room for it."""
        self.looks += 1
        if not node.schedulable or node.is_refused(ask_class):
            return False
        if ask_class.required_node not in (None, node.node_id):
            return False
        free = self._free_on(node)
        for room in node.claims.values():
            if time < room.end and time + ask_class.runtime > room.start:
                free = dict(free)
                refund(free, room.items)
        return all(free.get(name, 0) >= value for name, value in ask_class.items)

    def _pass(self, time: float) -> Iterator[None]:
        """Advance the time, and free the room of all allocations that have ended by then."""
        changed: dict[Node, None] = {}
        while self._ends and self._ends[0].time <= time:
            yield from self._look()
            end = heappop(self._ends)
            self._free_again(end.quotas, end.node, end.items)
            changed[end.node] = None
            if end.confidence is not Confidence.DECLARED:
                self._confidence = end.confidence
        for ask_class, gained in self._nowhere.items():
            for node in changed:
                yield from self._look()
                if self.looks >= MOST_LOOKS:
                    return
                if self._fits(ask_class, node, time):
                    gained[node] = None

    def _free_again(self, quotas: Iterable[Quota], node: Node, items: Items) -> None:
        charge(self._free_on(node), items)
        for quota in quotas:
            if most_of(quota) is not None:
                _post(self._room(quota), items)

    def _free_on(self, node: Node) -> dict[str, int]:
        """Amounts free on a node at the present time of the estimate, without reserved ones."""
        free = self._free.get(node)
        if free is None:
            free = self._free[node] = dict(node.available)
            refund(free, tuple(node.kept.items()))
        return free

    def _room(self, quota: Quota) -> dict[str, int]:
        room = self._rooms.get(quota)
        if room is None:
            room = self._rooms[quota] = headroom(quota) if quota.max is not None else free_of(quota)
        return room


def _holds(room: Mapping[str, int], items: Items) -> bool:
    """True if the amounts fit into the remaining amounts of the types that a maximum names."""
    return all(room.get(name, value) >= value for name, value in items)


def _post(room: dict[str, int], items: Items, times: int = 1) -> None:
    """Add to the remaining amounts of the types that a maximum names."""
    for name, value in items:
        if name in room:
            room[name] += times * value
