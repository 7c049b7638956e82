"""Trials for a waiting ask: changes with which it starts at once, as the copied core decides.

A search finds changes step by step: the first obstacle is removed, the core decides, and the next obstacle
follows. A maximum is raised by the missing amounts. If other asks then use that room, the maximum is removed;
the queue's usage when the ask starts is the necessary maximum. For a lack of nodes, one node is freed or
added. If other asks take that room as well, a search may assume that no other ask waits. The search leaves a
changed copy, so its changes are confirmed on another copy, all together.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from licorne_core.handlers.operators import give_up_waits
from licorne_core.messages.commands import (
    Hold,
    NodeAction,
    NodeUpdate,
    ReleaseRequest,
    SetHold,
    UpdateAllocations,
    UpdateNodes,
)
from licorne_core.messages.operators import UNKNOWN_MARK
from licorne_core.messages.plans import (
    ALONE,
    FREED_NODE,
    MAXIMUM,
    NEW_NODE,
    NEW_NODE_ID,
    RUNNING,
    Spent,
    StartChange,
    StartTrial,
    WaitingAskName,
)
from licorne_core.messages.reasons import Check, LimitCheck, NodesCheck, QueueCheck, RunningCheck, SizeCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import Quota, claimed
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import AskClass
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey, AppId, NodeId, normalize_partition, partition_key
from licorne_core.values.resources import Items, Resources
from licorne_core.views.explain import checks_before_nodes, subject_of
from licorne_core.views.explain_checks import STEP, nodes_check
from licorne_core.whatif.rehearsal import CopiedCore, Rehearsal

MOST_CHANGES = 4
"""Maximum number of changes of one search."""

MOST_FREED = 200
"""Maximum number of allocations on a node to free: no operator stops more for one ask."""

MOST_WITHDRAWN = 1_000
"""Maximum number of other asks of the application that are withdrawn for a trial without them."""

AT_ONCE = 16
"""Number of decisions of a turn: small, so that few decisions follow the start of the ask."""


def search_start(
    scheduler: CopiedCore,
    name: WaitingAskName,
    now: float,
    spent: Spent,
    *,
    adds_node: bool,
    alone: bool = False,
) -> StartTrial:
    """Search changes with which the ask starts at `now`, in unix seconds.

    The scheduler is changed, so pass a copy. For lack of a node, one is added (`adds_node`) or freed. With
    `alone` no other ask of its partition waits.

    Raises:
        NotFound: there is no such pending ask.
    """
    return _Search(_Copy(scheduler, name, now, spent), adds_node=adds_node, alone=alone).found()


def try_start(
    scheduler: CopiedCore, name: WaitingAskName, changes: Sequence[StartChange], now: float, spent: Spent
) -> StartTrial:
    """Try whether the ask starts with all these changes; pass a new copy, as a search changes its own."""
    copy = _Copy(scheduler, name, now, spent)
    copy.carry_out(changes)
    copy.run()
    return copy.trial(changes)


def lacks(partitions: Iterable[Partition], name: WaitingAskName) -> Iterator[StartTrial | None]:
    """Missing amounts in the checks of a waiting ask; nothing is tried or changed.

    Yields None first, and wherever the reader may pause.

    Raises:
        NotFound: there is no such pending ask, or none any more after a pause.
    """
    waiting_ask(partitions, name)
    yield None
    while True:
        partition, app, request = waiting_ask(partitions, name)
        ask_class, most, fits = request.ask.ask_class, None, False
        nodes = partition.nodes.by_id
        for number, node in enumerate(list(nodes.values()), 1):
            fits = fits or node.refusal(ask_class, reserved=bool(request.reservation)) is None
            like = (_likeness(node, ask_class.items), node)
            most = like if most is None or like[0] > most[0] else most
            if not number % STEP:
                yield None
        # During a pause the ask may have been replaced, and the node removed.
        is_current = most is None or nodes.get(most[1].node_id) is most[1]
        if waiting_ask(partitions, name)[2] is request and is_current:
            break
    checks = checks_before_nodes(partition.check_context, subject_of(app, request))
    changes = [
        _widened(check)
        for check in checks
        if not check.passed
        and isinstance(check, QueueCheck | LimitCheck | RunningCheck)
        and not (isinstance(check, QueueCheck) and check.is_root)
    ]
    if most is not None and not fits and ask_class.required_node is None:
        changes.append(_one_more(most[1], ask_class.items))
    yield StartTrial(changes=changes)


def waiting_ask(
    partitions: Iterable[Partition], name: WaitingAskName
) -> tuple[Partition, Application, Request]:
    """The pending ask of a name, among the partitions of its RM.

    Raises:
        NotFound: there is no such ask; the text says what is unknown, or is not pending.
    """
    full = normalize_partition(name.rm_id, name.partition)
    found = (one for one in partitions if full and partition_key(one.name) == partition_key(full))
    partition = next(found, None)
    if partition is None:
        raise NotFound(f"partition {shown(name.partition)} not found")
    app = partition.applications.get(name.app_id)
    if app is None:
        raise NotFound(f"application {shown(name.app_id)} not found in partition {partition.name}")
    request = app.requests.get(name.key)
    if request is None or not request.is_pending:
        raise NotFound(f"application {shown(name.app_id)} has no pending ask {shown(name.key)}")
    return partition, app, request


class _Copy:
    """A copied core in which a waiting ask may start."""

    def __init__(self, scheduler: CopiedCore, name: WaitingAskName, now: float, spent: Spent) -> None:
        self._rehearsal = Rehearsal(scheduler, name.rm_id, now, spent, AT_ONCE)
        self.partition, self.app, self.request = waiting_ask(self._rehearsal.partitions, name)
        self._looked = 0
        self._at = -1  # place of the ask in the order of starts

    def run(self) -> bool:
        """Let the core decide without advancing the time; True if the ask has started."""
        self._rehearsal.settle(self._has_started)
        return self._has_started()

    def _has_started(self) -> bool:
        placed = self._rehearsal.placed
        for at in range(self._looked, len(placed)):
            made = placed[at]
            own = made.partition == self.partition.name and made.allocation.ask.app_id == self.app.app_id
            if own and made.allocation.key == self.request.key:
                self._at = at
                break
        self._looked = len(placed)
        return self._at >= 0

    def trial(self, changes: Sequence[StartChange]) -> StartTrial:
        """The outcome so far."""
        placed = self._rehearsal.placed
        before = placed[: max(0, self._at)]
        return StartTrial(
            changes=tuple(changes),
            node_id=placed[self._at].allocation.node_id if self._at >= 0 else "",
            others=sum(made.partition == self.partition.name for made in before),
            stopped=len(self._rehearsal.stopped),
            unasked=self.request.ask.ask_class.predicate is not None,
            complete=not self._rehearsal.is_cut_short,
        )

    @property
    def started(self) -> int:
        """Number of asks that have started."""
        return len(self._rehearsal.placed)

    def used_since(self, quota: Quota, begin: int) -> dict[str, int]:
        """Amounts of the asks that started in the quota, in order from position `begin` to this ask."""
        used: dict[str, int] = {}
        for made in self._rehearsal.placed[begin : self._at + 1]:
            app = self.partition.applications.get(made.allocation.ask.app_id)
            if app is not None and made.partition == self.partition.name and quota in app.quotas:
                for name, value in made.allocation.ask.ask_class.items:
                    used[name] = used.get(name, 0) + value
        return used

    def carry_out(self, changes: Sequence[StartChange]) -> None:
        """Apply changes; the core decides nothing meanwhile."""
        with_hold, without = (
            SetHold(rm_id=self._rehearsal.rm_id, hold=Hold.DEFECT, on=on) for on in (True, False)
        )
        self._rehearsal.carry_out(with_hold)
        for change in changes:
            if change.kind == NEW_NODE:
                self._add_node(change)
            elif change.kind == FREED_NODE:
                self._free_node(self.partition.nodes.by_id[NodeId(change.name)])
            elif change.kind == ALONE:
                self._be_alone()
            else:
                self.widen(self.quota_of(change), change)
        # Ending the hold opens the blockers of all changed objects.
        self._rehearsal.carry_out(without)

    def quota_of(self, change: StartChange) -> Quota:
        """The quota of a change."""
        who = (change.holder, change.name, change.path)
        return next(quota for quota in self.app.quotas if (quota.kind, _name(quota), quota.path) == who)

    def widen(self, quota: Quota, change: StartChange) -> None:
        """Raise a maximum, or the number of applications that may run."""
        if change.kind == RUNNING:
            quota.max_applications = change.count
        else:
            quota.max = {**(quota.max or {}), **change.amounts}
        self.note_widened(quota)

    def note_widened(self, quota: Quota) -> None:
        """Mark a quota that has more room."""
        dirty = self.partition.dirty
        if isinstance(quota, Queue) and quota.is_leaf:
            dirty.mark_resized(quota)
        elif isinstance(quota, Queue):
            self.partition.tree.shares_stale = True
            if dirty.demands is not None:
                dirty.demands.note(quota)
        dirty.mark((quota,))

    def _add_node(self, change: StartChange) -> None:
        like = self.partition.nodes.by_id[NodeId(change.name)]
        added = NodeUpdate(
            node_id=NEW_NODE_ID,
            action=NodeAction.CREATE,
            partition=self.partition.name,
            attributes=like.attributes,
            capacity=change.amounts,
        )
        self._rehearsal.carry_out(UpdateNodes(rm_id=self._rehearsal.rm_id, nodes=[added]))

    def _free_node(self, node: Node) -> None:
        self._release((one.ask.app_id, one.key) for one in node.allocations)

    def _release(self, names: Iterable[tuple[AppId, AllocationKey]]) -> None:
        releases = [
            ReleaseRequest(app_id=app_id, key=key, partition=self.partition.name) for app_id, key in names
        ]
        self._rehearsal.carry_out(UpdateAllocations(rm_id=self._rehearsal.rm_id, releases=releases))

    @property
    def others(self) -> int:
        """Number of other asks of the partition that wait."""
        return self.partition.tally.asks - 1

    def _be_alone(self) -> None:
        """Hold all other applications with pending asks; withdraw other asks of this one, if they are few."""
        partition, own = self.partition, self.app
        waiters = {claim.app for claim in partition.claims.held}
        for app in list(partition.applications.values()):
            if app is own or not app.pending_count or app.held is not None:
                continue
            # Asks without a claim on nodes stay parked: when woken, they are found to be on hold.
            if app.reserved or app in waiters:
                for _ in give_up_waits(partition, app, self._rehearsal.now):
                    continue
            partition.wakeups.replacing.forget(app)
            app.held = UNKNOWN_MARK
            partition.dirty.mark_app(app)
        if own.pending_count <= MOST_WITHDRAWN:
            pending = [one for one in own.requests.values() if one.is_pending and one is not self.request]
            # Placeholders remain, because the members of a gang start together.
            self._release((own.app_id, one.key) for one in pending if not one.ask.placeholder)


class _Search:
    """Finds changes for an ask, in the order of its checks."""

    def __init__(self, copy: _Copy, *, adds_node: bool, alone: bool) -> None:
        self._copy = copy
        self._adds_node = adds_node
        self._alone = StartChange(kind=ALONE, count=copy.others) if alone and copy.others else None
        if self._alone is not None:
            copy.carry_out([self._alone])
        self._changes: list[StartChange] = []
        self._lifted: dict[int, tuple[int, Resources]] = {}
        """Changes whose quota's bound was removed, each with the number of starts and the usage before."""

    def found(self) -> StartTrial:
        """The changes with which the ask has started, or those found so far."""
        copy = self._copy
        while not copy.run():
            check = _first_failing(copy.partition, copy.app, copy.request)
            step = None if check is None else self._step(check)
            if step is None:
                return copy.trial(self._changes)
            step()
        needed = [self._needed(at) for at in range(len(self._changes))]
        return copy.trial(needed if self._alone is None else [*needed, self._alone])

    def _step(self, check: Check) -> Callable[[], None] | None:
        """The change that removes a failing check; None if there is none."""
        if isinstance(check, NodesCheck) or (isinstance(check, QueueCheck) and check.is_root):
            if any(change.kind in (FREED_NODE, NEW_NODE) for change in self._changes):
                return None
            node = self._node_change()
            return None if node is None else partial(self._begin, node)
        if not isinstance(check, QueueCheck | LimitCheck | RunningCheck):
            return None
        change = _widened(check)
        for at, former in enumerate(self._changes):
            if _place(former) == _place(change):
                # Other asks have taken the room.
                return None if at in self._lifted else partial(self._lift, at, change)
        return None if len(self._changes) >= MOST_CHANGES else partial(self._begin, change)

    def _begin(self, change: StartChange) -> None:
        self._changes.append(change)
        self._copy.carry_out([change])

    def _lift(self, at: int, change: StartChange) -> None:
        """Remove the quota's bound of the kind of the change."""
        copy = self._copy
        quota = copy.quota_of(change)
        names = self._changes[at].amounts.keys() | change.amounts.keys()
        self._lifted[at] = (copy.started, {name: claimed(quota).get(name, 0) for name in names})
        if change.kind == RUNNING:
            quota.max_applications = 0
        else:
            quota.max = {name: value for name, value in (quota.max or {}).items() if name not in names}
        copy.note_widened(quota)
        copy.carry_out([])

    def _needed(self, at: int) -> StartChange:
        """The change; if the trial removed the quota's bound, with the bound that is necessary."""
        change = self._changes[at]
        if at not in self._lifted:
            return change
        begin, before = self._lifted[at]
        quota = self._copy.quota_of(change)
        if change.kind == RUNNING:
            return replace(change, count=quota.started_applications)
        used = self._copy.used_since(quota, begin)
        return replace(change, amounts={name: before[name] + used.get(name, 0) for name in sorted(before)})

    def _node_change(self) -> StartChange | None:
        """A node to free or to add; None if neither helps."""
        ask_class, nodes = self._copy.request.ask.ask_class, self._copy.partition.nodes.by_id.values()
        if self._adds_node:
            like = max(nodes, key=lambda node: _likeness(node, ask_class.items), default=None)
            return None if ask_class.required_node or like is None else _one_more(like, ask_class.items)
        able = [node for node in nodes if _can_be_freed(node, ask_class)]
        if not able:
            return None
        node = min(able, key=_cost)
        size = {name: value for name, value in node.capacity.items() if value}
        return StartChange(kind=FREED_NODE, name=node.node_id, amounts=size, count=len(node.allocations))


def _one_more(like: Node, items: Items) -> StartChange:
    """A node like this one, and large enough."""
    size = dict(like.capacity)
    for name, value in items:
        size[name] = max(value, size.get(name, 0))
    before = {} if size == like.capacity else dict(like.capacity)
    return StartChange(kind=NEW_NODE, name=like.node_id, amounts=size, before=before)


def _first_failing(partition: Partition, app: Application, request: Request) -> Check | None:
    """The first check that the ask fails, except the size check, which other checks repeat; or None."""
    for check in checks_before_nodes(partition.check_context, subject_of(app, request)):
        if not check.passed and not isinstance(check, SizeCheck):
            return check
    nodes = nodes_check(partition, request)
    return None if nodes.passed else nodes


def _widened(check: QueueCheck | LimitCheck | RunningCheck) -> StartChange:
    """A bound that is as high as the check needs."""
    if isinstance(check, RunningCheck):
        name = "" if check.kind == "queue" else check.name
        count = check.running + 1
        return StartChange(kind=RUNNING, holder=check.kind, name=name, path=check.queue, count=count)
    most = check.max or {}
    before = {name: most.get(name, 0) for name in check.short}
    amounts = {name: before[name] + value for name, value in check.short.items()}
    holder, name = ("queue", "") if isinstance(check, QueueCheck) else (check.kind, check.name)
    return StartChange(
        kind=MAXIMUM, holder=holder, name=name, path=check.queue, amounts=amounts, before=before
    )


def _place(change: StartChange) -> tuple[str, str, str, str]:
    return change.kind, change.holder, change.name, change.path


def _name(quota: Quota) -> str:
    """Name of the quota in a change; for a queue, its path."""
    return "" if quota.kind == "queue" else quota.name


def _can_be_freed(node: Node, ask_class: AskClass) -> bool:
    """True if the ask may be placed on the node once all allocations on it have ended."""
    if ask_class.required_node not in (None, node.node_id) or node.is_refused(ask_class):
        return False
    if not node.schedulable and ask_class.required_node is None:
        return False
    occupied, capacity = node.occupied, node.capacity
    fits = all(capacity.get(name, 0) - occupied.get(name, 0) >= value for name, value in ask_class.items)
    return fits and 0 < len(node.allocations) <= MOST_FREED


def _cost(node: Node) -> tuple[bool, int, str]:
    """Sort key, cheapest first: no reservation of others, then few allocations."""
    return bool(node.reservations), len(node.allocations), node.node_id


def _likeness(node: Node, items: Items) -> tuple[int, tuple[int, ...], str]:
    """Sort key: greatest for the node that has enough of the most requested types, then by amounts."""
    amounts = [node.capacity.get(name, 0) for name, _ in items]
    enough = sum(have >= value for have, (_, value) in zip(amounts, items, strict=True))
    return enough, tuple(amounts), node.node_id
