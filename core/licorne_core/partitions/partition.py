"""One partition: its queues, applications and nodes, and the modules that book them together.

It lists ended applications for three days (spec §§ 3.12, 5.1.4). Their number and bytes are bounded by
`RmCaps`. Beyond that, the application that ended first in the partition is dropped.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from licorne_core.config.schema import PartitionConfig
from licorne_core.ledger.allocating import Allocations, Pairs
from licorne_core.ledger.moves import Cluster, Moves
from licorne_core.ledger.pending import PendingAsks, Placeholders
from licorne_core.ledger.reserving import Reservations
from licorne_core.ledger.stops import Ledger
from licorne_core.messages.commands import Options
from licorne_core.messages.kept import Kept
from licorne_core.messages.reports import Turn
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import TERMINATED_TIME
from licorne_core.model.claims import Claims
from licorne_core.model.effort import Effort
from licorne_core.model.limits import LimitBook
from licorne_core.model.meter import Meter
from licorne_core.model.nodes.book import NodeBook
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.queues.tree import QueueTree
from licorne_core.model.quotas import ApplicationTotals
from licorne_core.model.rm_context import RmContext
from licorne_core.model.runtimes import Runtimes
from licorne_core.model.usage import Usage
from licorne_core.partitions.jobs import Job
from licorne_core.points import Former, Kinds, Points
from licorne_core.scheduling.calls import OpenCalls
from licorne_core.scheduling.cycle import Cycle
from licorne_core.scheduling.escalation import Escalation
from licorne_core.scheduling.node_search.index import NodeIndex
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stays import Stays
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.scheduling.waiting.waiting import BlockedItemEvents
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.counters import Counters
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, rm_of
from licorne_core.values.rm_caps import APPLICATION_BYTES
from licorne_core.values.timers import Due, Timer, Timers


class Partition:
    """Books and schedules one partition.

    All changes of usage are made by `asks`, `allocations`, `pairs`, `moves` and `cluster`, so that a queue,
    its ancestors, the application and the node always agree.
    """

    foreign: dict[AllocationKey, Node]
    """The node of each foreign allocation."""

    def __init__(
        self,
        name: PartitionName,
        rm: RmContext,
        config: PartitionConfig,
        now: float,
        options: Options,
        extensions: Kinds = (),
    ) -> None:
        """Build an empty partition with these extensions; raises ConfigError if it cannot be built."""
        self.name, self.config = name, config
        self.state_time = now
        """Time of its creation, in unix seconds."""
        self.rm_id, self.rm = rm_of(name), rm
        """State shared by the partitions of its RM."""
        self.holds, self.journal = rm.holds, rm.journal
        self.job: Job | None = None
        """The unfinished work of a deadline, which `Due.GO_ON` continues."""
        self.tree = QueueTree(config.root, rm.holdings)
        self.tree.root.max = {}
        self.tally = ApplicationTotals()
        self.applications: dict[AppId, Application] = {}
        self.completed: dict[AppId, Application] = {}
        self.rejected: dict[AppId, Application] = {}
        self.nodes = NodeBook(config.node_sort, rm.holdings)
        self.points = Points(extensions)
        self.limits = LimitBook(self.points.further)
        self.types: dict[str, None] = {}  # all resource types named so far
        self.timers: Timers[Timer] = Timers()
        self.timeout_size, self.ask_backoff = options.tuning.timeout_size, options.ask_backoff
        self.counters, self.meter, self.foreign = Counters(), Meter(now), {}
        self.turn = Turn(name, self.rm_id, self.counters)
        """Report of a turn of the partition for readers, created once."""
        self.index, self.wakeups = NodeIndex(self.nodes, options.tuning), Wakeups(self.nodes, name)
        self.usage = Usage(now)
        self.dirty = Dirty(self.tree, self.index, self.wakeups, self.usage)
        self.escalation = Escalation(self.dirty, self.wakeups.waiting, self.timers)
        self.claims, self.effort = Claims(), Effort()
        self.effort.count(self.index.heaps, self.claims)
        self.ledger = Ledger()
        """Records of allocations that were stopped for others, with the beneficiary and the reason."""
        self.stays: Stays = {}
        """Noticed victims, whose stop is delayed."""
        self.runtimes = Runtimes()
        self.reservations = Reservations(
            self.nodes, self.wakeups, self.dirty, self.escalation, self.timers, self.journal, self.stays
        )
        self.calls = OpenCalls(name, rm, self.timers)
        """The open questions to the RM."""
        self._open_ledger()
        self.check_context = self._check_context(options)
        self.points.open(self.check_context)
        self.predicates = self.check_context.predicates
        self.cycle = Cycle(self.check_context, options, self.points.remedies, self.points.stages)

    def _open_ledger(self) -> None:
        """Create the modules that book asks, allocations and nodes."""
        keeping = self.placeholders = Placeholders(self.dirty, self.counters)
        self.asks = PendingAsks(
            self.index, self.wakeups, self.dirty, keeping, self.escalation, self.reservations, self.points
        )
        self.moves = Moves(self.nodes, self.dirty, self.asks, self.reservations)
        self.allocations = Allocations(
            self.moves,
            self.dirty,
            self.asks,
            keeping,
            self.reservations,
            self.counters,
            self.claims,
            self.runtimes,
        )
        self.pairs = Pairs(
            self.nodes, keeping, self.reservations, self.moves, self.allocations, self.runtimes
        )
        self.cluster = Cluster(self.tree.root, self.nodes, self.dirty, self.reservations)

    def _check_context(self, options: Options) -> CheckContext:
        return CheckContext(
            self.name,
            self.tree,
            self.applications,
            self.holds,
            self.nodes.by_id,
            self.nodes,
            self.index,
            self.dirty,
            self.wakeups,
            self.escalation,
            self.calls,
            self.timers,
            BlockedItemEvents(self.journal),
            self.journal,
            self.rm.core,
            self.effort,
            self.claims,
            self.tally,
            self.stays,
            self.runtimes,
            options.tuning,
            options.reservations,
            self.rm,
        )

    @property
    def is_runnable(self) -> bool:
        """True if a turn could make any decision: for an ask, or about room reserved for a gang member.

        False in the middle of a job.
        """
        may_decide = not self.holds and self.job is None and bool(self.nodes.by_id)
        tally = self.tally
        is_wanted = tally.requests > tally.allocations or bool(self.claims.rooms)
        return self.wakeups.waiting.runnable and may_decide and is_wanted

    def settle(self, now: float) -> None:
        """Report usage changed up to `now` to the extensions that track it."""
        touched, queues = self.usage.take(now)
        for extension in self.points.settle:
            extension.settle(touched, queues, now)

    def attach(self, queue: Queue, before: Former | None, now: float) -> None:
        """Report a queue with changed settings, or a new queue, to extensions (`Extension.settled`)."""
        for extension in self.points.settled:
            extension.settled(queue, before, now)

    def retained(self, now: float) -> Iterator[Kept | None]:
        """State that its extensions retain as of `now`, after a None wherever the reader may pause."""
        found: dict[str, Mapping[Any, Any]] = {}
        for extension in self.points.retained:
            for things in extension.retained(now):
                if things is None:
                    yield None
                elif things:
                    found[extension.name] = things
        yield found

    def leaf_of(self, app: Application) -> Queue:
        """The leaf of the application."""
        leaf = app.leaf
        assert isinstance(leaf, Queue), f"application {app.app_id} is in no queue"
        return leaf


def remember_completed(partition: Partition, app: Application, now: float) -> None:
    """List a terminated application under a unique name, so that its id can be used again (§ 5.1.4)."""
    name = AppId(f"{app.app_id}-{int(now)}")
    _remember(partition, Due.EXPIRE, name, app, now)


def remember_rejected(partition: Partition, app: Application, now: float) -> None:
    """List a rejected application (spec § 3.12).

    The latest rejection of an id is listed, even if a later application of that id was accepted: readers
    find the reason of the rejection, as in the events.
    """
    _remember(partition, Due.EXPIRE_REJECTED, app.app_id, app, now)


def latest_end(partition: Partition, app_id: str) -> Application | None:
    """The latest ended or rejected application with this id or listed name; None if there is none."""
    name = AppId(app_id)
    if name in partition.completed:
        return partition.completed[name]
    rejected = partition.rejected.get(name)
    completed = next((app for app in reversed(partition.completed.values()) if app.app_id == name), None)
    if completed is None or (rejected is not None and rejected.finished_time > completed.finished_time):
        return rejected
    return completed


def forget_ended(partition: Partition, due: Due, name: AppId) -> Application:
    """Drop a listed application, because its time has passed or other applications need its place."""
    app = _list_of(partition, due).pop(name)
    partition.tally.dropped(app.state.value)
    holdings = partition.rm.holdings
    holdings.ended -= 1
    holdings.ended_memory -= _bytes_of(app)
    return app


def forget_all_ended(partition: Partition) -> None:
    """Drop all ended applications of a removed partition, whose RM still exists."""
    for due in (Due.EXPIRE, Due.EXPIRE_REJECTED):
        for name in list(_list_of(partition, due)):
            forget_ended(partition, due, name)


def _remember(partition: Partition, due: Due, name: AppId, app: Application, now: float) -> None:
    listed = _list_of(partition, due)
    if name in listed:
        # Removed and added again, so that the latest one is the last to be dropped for others.
        forget_ended(partition, due, name)
    listed[name] = app
    partition.tally.listed(app.state.value)
    partition.timers.set(Timer(due, name), now + TERMINATED_TIME)
    holdings = partition.rm.holdings
    holdings.ended += 1
    holdings.ended_memory += _bytes_of(app)
    caps = holdings.caps
    while holdings.ended > caps.ended or holdings.ended_memory > caps.ended_memory:
        if not _make_room(partition):
            return


def _make_room(partition: Partition) -> bool:
    """Drop the application that ended first; return True if there was one."""
    oldest = [
        (app.finished_time, due, name)
        for due in (Due.EXPIRE, Due.EXPIRE_REJECTED)
        for name, app in _first(_list_of(partition, due))
    ]
    if not oldest:
        return False
    _, due, name = min(oldest)
    _give_way(partition, due, name)
    return True


def _give_way(partition: Partition, due: Due, name: AppId) -> None:
    """Drop a listed application early, as others need its place."""
    forget_ended(partition, due, name)
    partition.timers.cancel(Timer(due, name))


def _first(listed: dict[AppId, Application]) -> list[tuple[AppId, Application]]:
    return [next(iter(listed.items()))] if listed else []


def _list_of(partition: Partition, due: Due) -> dict[AppId, Application]:
    return partition.completed if due is Due.EXPIRE else partition.rejected


def _bytes_of(app: Application) -> int:
    return APPLICATION_BYTES + app.footprint
