"""The shadow starts and runtimes of one partition, and the points of backfill."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.extensions.backfill import NAME, Backfill
from licorne_core.extensions.backfill.charges import Charges, bounded
from licorne_core.extensions.backfill.expected_ends import ExpectedEnds, with_runtime
from licorne_core.extensions.backfill.passing import Passing, UserRuns
from licorne_core.extensions.backfill.planned_starts import PlannedStarts, Starting, StartRequest
from licorne_core.extensions.backfill.recount import check_starts
from licorne_core.extensions.backfill.shadows import Shadows
from licorne_core.extensions.backfill.start_search import StartSearch
from licorne_core.handlers.allocations import replace_ask
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, place_of, ran
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AppId
from licorne_core.values.slices import put_in_order
from licorne_core.views.audit.rules import require


class PartitionStarts(Extension):
    """The shadow starts of a partition. With backfill on, each application has its bit."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without shadow starts, and switched off."""
        super().__init__(name, bit, context)
        self.ends = ExpectedEnds(context.node_book, context.applications, context.runtimes)
        """Expected ends of the allocations on each node."""
        self.charges = Charges(context.node_book, context.applications, context.claims)
        """The allocations charged to quotas, by their expected ends."""
        self.shadows = Shadows(context, Backfill.OFF, self.charges)
        self.passing = Passing(self.shadows, context.claims, self.timers)
        """The order of applications that may pass planned starts."""
        search = self._search = StartSearch(context, self.ends, self.shadows)
        self.shadows.decide = PlannedStarts(context, self.shadows.budget, search).decide
        self.remedies = {StartRequest: Starting(context, self.shadows, search)}
        self._is_new = True

    @property
    def is_on(self) -> bool:
        """True with backfill on."""
        return self.shadows.mode is not Backfill.OFF

    def configure(self, config: PartitionConfig) -> None:
        """Set the backfill order and the mode of a new partition; `adapt` changes the mode later."""
        self.passing.configure(config)
        if self._is_new:
            self._is_new = False
            self._switch(_mode_of(config))

    def adapt(self, partition: Partition, config: PartitionConfig, now: float) -> Iterator[int]:
        """Change the mode. If backfill is turned on or off, all requests for remedies are made again."""
        shadows, mode = self.shadows, _mode_of(config)
        before, shadows.mode = shadows.mode, mode
        self.charges.clear()
        shadows.follow(list(shadows), now)
        # With a higher maximum, starts may be earlier.
        shadows.budget.changes += 1
        self._search.end()
        for shadow in shadows:
            shadow.opens_at = -inf
            yield from self.charges.steps(bounded(shadow.app))
        yield 1
        if (before is Backfill.OFF) == (mode is Backfill.OFF):
            return
        self._switch(mode)
        applications = list(partition.applications.values())
        for app in applications:
            self._mark(app)
        for app in applications:
            for request in (yield from put_in_order(list(app.pending()), place_of)):
                ask = with_runtime(app, request.ask, self.ends.classes, backfills=mode is not Backfill.OFF)
                replace_ask(partition, app, request, ask, now)
                yield 1

    def apply_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """With backfill on, set the bit of the application; its usage and its starts count in its quotas."""
        self._mark(app)
        self.passing.follow(leaf)
        self.shadows.follow([shadow for shadow in self.shadows if shadow.app is app], now)
        return self.charges.follow(app)

    def arriving(self, app: Application, ask: Ask) -> Ask:
        """Add its declared runtime to its class: asks that end early enough may pass a start."""
        return with_runtime(app, ask, self.ends.classes) if self.is_on else ask

    def ended(self, app: Application, request: Request, now: float) -> None:
        """Let planned starts be searched again, and note the run for the order of those that pass."""
        self.shadows.budget.changes += 1
        seconds = ran(request, now)
        if seconds is not None:
            self.passing.ended(app, seconds, now)

    def answered(self, app: Application) -> None:
        """Plan a start on the nodes that its RM has accepted, if possible."""
        self.shadows.answered(app)

    def node_lost(self, node: Node) -> None:
        """Drop the expected ends of the node, and the results of the current search for it."""
        self.ends.forget(node)
        self.charges.forget(node)
        self._search.forget(node)

    def pass_time(self, now: float, most: int) -> int:
        """Return applications that have waited too long to the usual order."""
        return self.passing.pass_time(now, most)

    def dispose(self) -> Iterator[int]:
        """Drop all starts, because they refer to this object, and the nodes."""
        self._search.end()
        self.charges.clear()
        for shadow in self.shadows:
            shadow.held.leave(shadow)
        self.shadows.starts.clear()
        self.shadows.asking.clear()
        return self.ends.forget_all()

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """See `recount.py`."""
        check_starts(self.shadows, self.context, settled=settled)
        for app in applications.values():
            require("S3", bool(app.interests & self.bit) == self.is_on, f"{app!r} has {app.interests}")
            if settled and app.leaf is not None:
                self.passing.check(app)

    def _mark(self, app: Application) -> None:
        app.interests = app.interests | self.bit if self.is_on else app.interests & ~self.bit

    def _switch(self, mode: Backfill) -> None:
        self.shadows.mode = mode
        self.passing.runs = UserRuns()


def _mode_of(config: PartitionConfig) -> Backfill:
    mode: Backfill | None = config.root.settings.of(NAME)
    return mode or Backfill.OFF


def starts_of(partition: Partition) -> PartitionStarts:
    """The shadow starts of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, PartitionStarts)
    return own


KIND: Final = PartitionStarts
