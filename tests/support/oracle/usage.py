"""Usage, pending amounts and limits, added up from the records for one decision (spec §§ 10.2-10.3)."""

from support.oracle.books import VICTIMS, Amounts, AppRecord, AskRecord, NodeRecord, add_to, total
from support.oracle.queues import QueueRecord, lineage
from support.oracle.terms import LimitRecord

Tracker = tuple[str, str, str]
"""A kind, ``user`` or ``group``, a name, and the path of a queue."""


NOTHING: Amounts = {}


class Usage:
    """All sums over one partition's records.

    `kept` are amounts promised to asks, by queue or tracker, and `kept_for` the part of it for one ask.
    `running` counts by queue the applications that run or are about to. `tracked_apps` are applications with
    allocations, by user or group and queue. `reserved` are nodes with a reservation, `keeping` nodes whose
    victims others cannot use, `planned` nodes with room for planned starts, `exclusive` nodes closed to other
    asks. `kept_on` are the reserved amounts on a node. Usage for an application's fair share
    (`app_allocated`) excludes placeholders.
    """

    def __init__(
        self,
        queues: dict[str, QueueRecord],
        apps: dict[str, AppRecord],
        nodes: dict[str, NodeRecord],
        now: float = 0.0,
    ) -> None:
        """Add up everything, with the priorities at `now`."""
        self.cluster = total(node.capacity for node in nodes.values())
        self.allocated: dict[str, Amounts] = {path: {} for path in queues}
        self.kept: dict[str | Tracker, Amounts] = {}
        self.kept_for: dict[tuple[int, str | Tracker], Amounts] = {}
        self.pending: dict[str, Amounts] = {path: {} for path in queues}
        self.running = dict.fromkeys(queues, 0)
        self.app_allocated: dict[str, Amounts] = {}
        self.available = {node.node_id: node.free() for node in nodes.values()}
        self.waiting_priority: dict[str, int | None] = dict.fromkeys(queues)
        self.reserved: set[str] = set()
        self.keeping: set[str] = set()
        self.planned: set[str] = set()
        self.exclusive: set[str] = set()
        self.kept_on: dict[str, Amounts] = {}
        self.tracked: dict[Tracker, Amounts] = {}
        self.tracked_apps: dict[Tracker, set[str]] = {}
        for app in apps.values():
            self._count(app, queues[app.queue], now)
        self.overhang = self._overhang(nodes)
        for app in apps.values():
            for ask in app.asks.values():
                if ask.is_promised:
                    self._keep(app, ask, apps)
        for path in sorted(queues, key=lambda path: -path.count(".")):
            self._hand_up(queues[path])

    def _count(self, app: AppRecord, leaf: QueueRecord, now: float) -> None:
        """Add an application to its leaf, its nodes, its user and its group."""
        allocated = total(allocation.ask.size for allocation in app.allocations.values())
        reals = [one.ask for one in app.allocations.values() if not one.ask.placeholder]
        self.app_allocated[app.app_id] = total(ask.size for ask in reals)
        add_to(self.allocated[app.queue], allocated)
        self.running[app.queue] += app.state == "Running" or app.allocating
        for ask in (*app.asks.values(), *(one.ask for one in app.allocations.values())):
            if ask.reservation is not None and ask.reservation.node_id is not None:
                node_id = ask.reservation.node_id
                self.reserved.add(node_id)
                if not ask.reservation.provisional:
                    self.keeping.add(node_id)
                if ask.reservation.exclusive:
                    self.exclusive.add(node_id)
                add_to(self.kept_on.setdefault(node_id, {}), ask.size)
        self.planned |= {ask.shadow.node_id for ask in app.asks.values() if ask.shadow is not None}
        for node_id, size in app.booked():
            add_to(self.available[node_id], {name: -value for name, value in size.items()})
        if app.allocations:
            for kind, name in app.trackers():
                for path in lineage(app.queue):
                    add_to(self.tracked.setdefault((kind, name, path), {}), allocated)
                    self.tracked_apps.setdefault((kind, name, path), set()).add(app.app_id)
        if app.asks:
            add_to(self.pending[app.queue], total(ask.size for ask in app.asks.values()))
            before = self.waiting_priority[app.queue]
            here = leaf.priority_of(app, now)
            self.waiting_priority[app.queue] = here if before is None else max(before, here)

    def _keep(self, app: AppRecord, ask: AskRecord, apps: dict[str, AppRecord]) -> None:
        """Add the part of an ask's promise that its remaining victims do not cover (spec § 9.4)."""
        assert ask.reservation is not None, f"nothing is kept for {ask}"
        leaving = [
            (other, one)
            for other in apps.values()
            for one in other.allocations.values()
            if one.state in VICTIMS and any(one is victim for victim in ask.reservation.victims)
        ]
        for quota in _quotas(app):
            covered = total(one.ask.size for other, one in leaving if quota in _quotas(other))
            rest = {
                name: value - covered.get(name, 0)
                for name, value in ask.reservation.promised.items()
                if value > covered.get(name, 0)
            }
            add_to(self.kept.setdefault(quota, {}), rest)
            self.kept_for[id(ask), quota] = rest

    def claimed(self, path: str, ask: AskRecord | None = None) -> Amounts:
        """The unavailable amounts of a queue: booked ones, and those promised to others.

        With an ask, its own promise is excluded. Excess over a node's capacity is not taken from other nodes.
        """
        claimed = self._claimed(path, self.allocated[path], ask)
        if path == "root":
            add_to(claimed, {name: -value for name, value in self.overhang.items()})
        return claimed

    def _overhang(self, nodes: dict[str, NodeRecord]) -> Amounts:
        """The excess of bookings over capacity, of all nodes."""
        beyond: Amounts = {}
        for node in nodes.values():
            booked = node.free()
            add_to(booked, {name: -left for name, left in self.available[node.node_id].items()})
            over = {name: value - node.capacity.get(name, 0) for name, value in booked.items()}
            add_to(beyond, {name: value for name, value in over.items() if value > 0})
        return beyond

    def claimed_of(self, tracker: Tracker, ask: AskRecord | None = None) -> Amounts:
        """The unavailable amounts of a user or a group."""
        return self._claimed(tracker, self.tracked.get(tracker, {}), ask)

    def in_the_end(self, apps: dict[str, AppRecord], path: str, name: str) -> int:
        """A queue's usage of a type once all victims have ended and all promised amounts are used."""
        inside = [app for app in apps.values() if path in lineage(app.queue)]
        used = self.allocated[path].get(name, 0)
        for app in inside:
            for one in app.allocations.values():
                used -= one.ask.size.get(name, 0) if one.state in VICTIMS else 0
            for ask in app.asks.values():
                used += ask.reservation.promised.get(name, 0) if ask.reservation else 0
        return used

    def _claimed(self, quota: str | Tracker, allocated: Amounts, ask: AskRecord | None) -> Amounts:
        claimed = dict(allocated)
        add_to(claimed, self.kept.get(quota, {}))
        own = NOTHING if ask is None else self.kept_for.get((id(ask), quota), NOTHING)
        add_to(claimed, {name: -value for name, value in own.items()})
        return claimed

    def _hand_up(self, queue: QueueRecord) -> None:
        """Add a queue to its parent, and convert its inside priority into the outside one."""
        path, parent = queue.path, queue.parent
        outside = queue.priority_seen_outside(self.waiting_priority[path])
        self.waiting_priority[path] = outside
        if not parent:
            return
        add_to(self.allocated[parent], self.allocated[path])
        add_to(self.pending[parent], self.pending[path])
        self.running[parent] += self.running[path]
        if outside is not None:
            above = self.waiting_priority[parent]
            self.waiting_priority[parent] = outside if above is None else max(above, outside)


def _quotas(app: AppRecord) -> list[str | Tracker]:
    """The quotas that bound the application: its queues, its user and its group."""
    paths = lineage(app.queue)
    return [*paths, *((kind, name, path) for kind, name in app.trackers() for path in paths)]


def limit_for(queue: QueueRecord, kind: str, name: str) -> LimitRecord | None:
    """The limit of a user or group in one queue: by name, or for users by the wildcard."""
    if kind == "group":
        return next((limit for limit in queue.limits if name in limit.groups), None)
    named = next((limit for limit in queue.limits if name in limit.users), None)
    return named or next((limit for limit in queue.limits if "*" in limit.users), None)


def group_of(queues: dict[str, QueueRecord], leaf: str, groups: tuple[str, ...]) -> str:
    """The group to which an application is charged, empty for none.

    It is the first configured one of the user's groups, from the leaf up, or else the wildcard of that queue.
    """
    for path in lineage(leaf):
        configured = [group for limit in queues[path].limits for group in limit.groups]
        mine = [group for group in configured if group in groups]
        if mine:
            return mine[0]
        if "*" in configured:
            return "*"
    return ""


def is_limited(queues: dict[str, QueueRecord], leaf: str, group: str) -> bool:
    """True if a queue from the leaf up has a limit for that group: then the group stays assigned (§ 10.7)."""
    limits = [limit for path in lineage(leaf) for limit in queues[path].limits]
    return any(group in limit.groups for limit in limits)
