"""The shadow starts of one partition, with what is known of runtimes, and its part at each point."""

from collections.abc import Iterator, Mapping
from typing import Final

from licorne_core.config.schema import PartitionConfig
from licorne_core.extensions.backfill import NAME, Backfill
from licorne_core.extensions.backfill.expected_ends import ExpectedEnds, with_runtime
from licorne_core.extensions.backfill.planned_starts import PlannedStarts, Starting, StartRequest
from licorne_core.extensions.backfill.recount import check_starts
from licorne_core.extensions.backfill.runtimes import Runtimes
from licorne_core.extensions.backfill.shadows import Shadows
from licorne_core.extensions.backfill.start_search import StartSearch
from licorne_core.handlers.allocations import replace_ask
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AppId
from licorne_core.views.audit.rules import require


class PartitionStarts(Extension):
    """Where backfill is on each application has its bit; else there are no starts and learnt runtimes."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without shadow starts, and switched off."""
        super().__init__(name, bit, context)
        self.runtimes: Runtimes | None = None
        """Learnt runtimes; None where backfill is off."""
        self.ends = ExpectedEnds(context.node_book, context.applications, None)
        """What is known of the expected ends on nodes."""
        self.shadows = Shadows(context, Backfill.OFF)
        search = StartSearch(context, self.ends)
        self.shadows.decide = PlannedStarts(context, search).decide
        self.remedies = {StartRequest: Starting(context, self.shadows, search)}
        self._is_new = True

    def configure(self, config: PartitionConfig) -> None:
        """A new partition has the mode of its configuration at once, another one by `adapt`."""
        if self._is_new:
            self._is_new = False
            self._switch(_mode_of(config))

    def adapt(self, partition: Partition, config: PartitionConfig, now: float) -> Iterator[int]:
        """Put another mode in force. Where it begins or ends, all asks wait anew."""
        shadows, mode = self.shadows, _mode_of(config)
        before, shadows.mode = shadows.mode, mode
        for shadow in list(shadows)[shadows.most :]:
            shadows.give_up(shadow, now)
        yield 1
        if (before is Backfill.OFF) == (mode is Backfill.OFF):
            return
        self._switch(mode)
        applications = list(partition.applications.values())
        for app in applications:
            self._mark(app)
        for app in applications:
            for request in list(app.pending()):
                ask = with_runtime(app, request.ask, self.ends.classes, backfills=mode is not Backfill.OFF)
                replace_ask(partition, app, request, ask, now)
                yield 1

    def follow(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Where backfill is on, what the application asks for and runs is of interest."""
        self._mark(app)
        return iter(())

    def arriving(self, app: Application, ask: Ask) -> Ask:
        """Its declared runtime is of its class: asks that end in time pass a start."""
        return ask if self.runtimes is None else with_runtime(app, ask, self.ends.classes)

    def ended(self, app: Application, request: Request, now: float) -> None:
        """Learn how long an allocation ran.

        Not from a placeholder, from one that the RM was asked to stop, or from one that was there before
        the RM told of it, whose beginning is unknown.
        """
        runtimes, allocation = self.runtimes, request.allocation
        if runtimes is None or allocation is None or request.state is not RequestState.ALLOCATED:
            return
        ask = request.ask
        if ask.node_id is None:
            runtimes.learn(app.queue_path, ask.ask_class.shape, now - allocation.allocation_time)

    def answered(self, app: Application) -> None:
        """A start may be planned on the nodes that its RM agrees to."""
        self.shadows.answered(app)

    def went(self, node: Node) -> None:
        """What was known of its ends is of no use."""
        self.ends.forget(node)

    def dispose(self) -> Iterator[int]:
        """Forget starts, which know this, and the nodes."""
        self.shadows.starts.clear()
        self.shadows.asking.clear()
        return self.ends.forget_all()

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """See `recount.py`."""
        check_starts(self.shadows, self.context)
        is_on = self.runtimes is not None
        for app in applications.values():
            require("S3", bool(app.interests & self.bit) == is_on, f"{app!r} has {app.interests}")

    def _mark(self, app: Application) -> None:
        app.interests = app.interests & ~self.bit if self.runtimes is None else app.interests | self.bit

    def _switch(self, mode: Backfill) -> None:
        self.shadows.mode = mode
        self.runtimes = None if mode is Backfill.OFF else Runtimes()
        self.ends.learn_from(self.runtimes)


def _mode_of(config: PartitionConfig) -> Backfill:
    mode: Backfill | None = config.root.settings.of(NAME)
    return mode or Backfill.OFF


def starts_of(partition: Partition) -> PartitionStarts:
    """Those of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, PartitionStarts)
    return own


KIND: Final = PartitionStarts
