"""Measures of a run: waiting times, utilisation, and lost work.

Definitions. An *ask* is a request for an allocation or a placeholder; a request with a node (a running
allocation after a restart of its RM) does not count. It *waits* from the command that submits it to the
effect that reports the node to its RM; an allocation that the RM could not run waits again from then on. A
restart of the RM does not interrupt the wait. An ask that its RM releases, or whose application ends, is
*withdrawn*: its wait does not count. Asks that wait at the end count with their wait so far, so a scheduler
gains nothing by starving some.

All other measures are sampled once in each `STEP`, counted from the beginning. *Utilisation* of a resource is
the allocated amount (with placeholders, and asks assumed on a node) divided by the capacity of all nodes
(with cordoned ones), each summed over samples and partitions. A queue is *below its guarantee* while it uses
less of a resource than is guaranteed to it, and asks in the queue or its descendants wait for that resource.

A *victim* is an allocation that the RM was asked to stop: for another ask, for a lowered maximum, or
as its node is drained. *Lost work* is its amounts times the seconds from its last checkpoint, or
else from its placement, until the request to stop; a placeholder has none.

The measures of a queue include all queues below it, so those of root are for the partition.
"""

from collections.abc import Sequence
from typing import Final

from licorne_core.messages.commands import (
    Command,
    RemoveApplication,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
)
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased, ApplicationsUpdated, Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_core.values.resources import EMPTY, Resources, add
from licorne_server.lab.simulation.summary import PartitionUse, Summary, Tally, Totals
from licorne_server.lab.simulation.waits import Course

STEP: Final = 1.0
"""Seconds from one sample to the next."""

MOST_QUEUES: Final = 5_000
"""Maximum number of queues with their own measures; other queues of a partition count for `OTHERS`."""

OTHERS: Final = "(others)"

_OVER = frozenset({"Completed", "Failed", "Rejected", "Expired"})
"""States of applications that have no asks."""


class _Waiting:
    """The waiting asks of one application, each with the time since which it waits."""

    __slots__ = ("asks", "tallies")

    def __init__(self, tallies: Sequence[Tally]) -> None:
        self.asks: dict[AllocationKey, float] = {}
        self.tallies = tallies
        """The tallies of the application's queue, and of the queues above it."""


class Measures:
    """Watches a player and measures the outcomes of its decisions, without changing them.

    Its memory is bounded by the number of waiting asks and of queues.
    """

    def __init__(self, scheduler: Scheduler, *, step: float = STEP) -> None:
        """Measure the scheduler's decisions, with a sample each `step` seconds of virtual time."""
        self._views = scheduler.views
        self._step = step
        self._course: Course | None = None
        self._samples = 0
        self._now = 0.0
        self._tallies: dict[PartitionName, dict[str, Tally]] = {}
        self._usage: dict[PartitionName, PartitionUse] = {}
        self._lines: dict[tuple[PartitionName, str], tuple[Tally, ...]] = {}
        self._queues = 0
        self._waiting: dict[tuple[PartitionName, AppId], _Waiting] = {}
        self._count, self._sweep_at = 0, 1_000

    def passes(self, now: float) -> None:
        """Advance to `now`: the core has not changed since the last command."""
        if self._course is None:
            self._course = Course(now, self._step)
        self._now = max(self._now, now)
        begin = self._course.begin
        samples = int((self._now - begin) / self._step)
        if samples > self._samples:
            seconds = (samples - self._samples) * self._step
            self._samples = samples
            self._sample(self._course, begin + samples * self._step, seconds)

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Measure a command; `passes` was called with its time before."""
        if isinstance(command, UpdateAllocations):
            self._note_asks(command, now)
        elif isinstance(command, UpdateApplications):
            for removal in command.remove:
                self._note_removal(command.rm_id, removal)
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                self._note_placed(effect, now)
            elif isinstance(effect, AllocationsReleased):
                self._note_victims(effect, now)
            elif isinstance(effect, ApplicationsUpdated):
                self._note_ended(effect)

    def summary(self, now: float) -> Summary:
        """The measures up to `now`, which must not be before the time of the last command."""
        self.passes(now)
        self._sweep()
        assert self._course is not None
        still: dict[int, list[float]] = {}
        for waiting in self._waiting.values():
            for since in waiting.asks.values():
                for tally in waiting.tallies:
                    still.setdefault(id(tally), []).append(max(0.0, now - since))
        totals = Totals(self._tallies, still, self._usage)
        return totals.summary(self._course, now)

    # Asks and allocations.

    def _note_asks(self, command: UpdateAllocations, now: float) -> None:
        for ask in command.asks:
            if not ask.node_id:
                name = self._views.partition_meant(command.rm_id, ask.partition)
                request = None if name is None else self._views.request(name, ask.app_id, ask.key)
                if name is not None and request is not None and request.is_pending:
                    self._waits(name, ask.app_id, ask.key, now)
        for release in command.releases:
            name = self._views.partition_meant(command.rm_id, release.partition)
            if name is None or not release.app_id:
                continue
            request = self._views.request(name, release.app_id, release.key)
            if release.termination is not TerminationType.SCHEDULING_FAILED_ON_RM:
                waiting = self._waiting.get((name, release.app_id))
                if waiting is not None and request is None and release.key in waiting.asks:
                    self._withdraw(name, release.app_id, waiting, release.key)
            elif request is not None and request.is_pending:
                self._waits(name, release.app_id, release.key, now)
        if self._count > self._sweep_at:
            self._sweep()

    def _waits(self, name: PartitionName, app_id: AppId, key: AllocationKey, now: float) -> None:
        """Record that an ask of a live application waits, unless that is recorded already."""
        place = (name, app_id)
        waiting = self._waiting.get(place)
        if waiting is None:
            path = self._views.queue_of(name, app_id)
            assert path is not None
            waiting = self._waiting[place] = _Waiting(self._line(name, path))
        if key not in waiting.asks:
            waiting.asks[key] = now
            self._count += 1
            for tally in waiting.tallies:
                tally.asks += 1

    def _withdraw(self, name: PartitionName, app_id: AppId, waiting: _Waiting, *keys: AllocationKey) -> None:
        """Remove asks that were withdrawn, or that no longer wait."""
        for key in keys:
            del waiting.asks[key]
        self._count -= len(keys)
        for tally in waiting.tallies:
            tally.withdrawn += len(keys)
        if not waiting.asks:
            del self._waiting[name, app_id]

    def _note_placed(self, effect: AllocationsMade, now: float) -> None:
        name = effect.partition
        for made in effect.allocations:
            app_id = made.ask.app_id
            waiting = self._waiting.get((name, app_id))
            since = None if waiting is None else waiting.asks.pop(made.key, None)
            if waiting is None or since is None:
                # The allocation was running already, and its RM reports it after a restart.
                continue
            self._count -= 1
            for tally in waiting.tallies:
                tally.placed += 1
                tally.waits.add(now - since)
            if not waiting.asks:
                del self._waiting[name, app_id]
            if self._course is not None:
                point = self._course.at(now)
                point.placed += 1
                point.waited += now - since

    def _note_victims(self, effect: AllocationsReleased, now: float) -> None:
        for release in effect.releases:
            if release.termination is not TerminationType.PREEMPTED_BY_SCHEDULER:
                continue
            place = (effect.partition, release.app_id)
            path = self._views.queue_of(*place)
            if path is None:
                continue
            request = self._views.request(*place, release.key)
            allocation = None if request is None else request.allocation
            seconds = self._views.seconds_lost(*place, release.key, now)
            for tally in self._line(effect.partition, path):
                tally.victims += 1
                if allocation is not None and not allocation.ask.placeholder:
                    for name, value in allocation.ask.ask_class.items:
                        tally.lost[name] = tally.lost.get(name, 0.0) + value * seconds

    def _note_removal(self, rm_id: RmId, removal: RemoveApplication) -> None:
        name = self._views.partition_meant(rm_id, removal.partition)
        if name is not None and removal.app_id not in self._views.app_ids(name):
            self._forget(name, removal.app_id)

    def _note_ended(self, effect: ApplicationsUpdated) -> None:
        over = [update.app_id for update in effect.updates if update.state in _OVER]
        if over and self._waiting:
            for name in self._views.partition_names(effect.rm_id):
                for app_id in over:
                    if app_id not in self._views.app_ids(name):
                        self._forget(name, app_id)

    def _forget(self, name: PartitionName, app_id: AppId) -> None:
        waiting = self._waiting.get((name, app_id))
        if waiting is not None:
            self._withdraw(name, app_id, waiting, *waiting.asks)

    def _sweep(self) -> None:
        """Withdraw asks that ended without an effect, such as those of a gang that has timed out.

        A replaying RM is left out.
        """
        at_rest = {name for name in self._views.partitions_made() if not self._views.holds(name)}
        for (name, app_id), waiting in list(self._waiting.items()):
            if name in at_rest:
                gone = []
                for key in waiting.asks:
                    request = self._views.request(name, app_id, key)
                    if request is None or not request.is_ask:
                        gone.append(key)
                if gone:
                    self._withdraw(name, app_id, waiting, *gone)
        self._sweep_at = 2 * self._count + 1_000

    # Queues.

    def _line(self, name: PartitionName, path: str) -> tuple[Tally, ...]:
        """Tallies of a queue and of its ancestors."""
        line = self._lines.get((name, path))
        if line is not None:
            return line
        tallies = self._tallies.setdefault(name, {})
        parts = path.split(".")
        paths = [".".join(parts[: depth + 1]) for depth in range(len(parts))]
        if self._queues >= MOST_QUEUES:
            paths = [one if one in tallies or one == "root" else OTHERS for one in paths]
        for one in paths:
            if one not in tallies:
                self._queues += 1
                tallies[one] = Tally()
        line = tuple(tallies[one] for one in dict.fromkeys(paths))
        if len(self._lines) < 2 * MOST_QUEUES:
            self._lines[name, path] = line
        return line

    # Samples.

    def _sample(self, course: Course, now: float, seconds: float) -> None:
        """Take a sample: the current state of the core counts for the last `seconds`."""
        waiting = 0
        used: Resources = EMPTY
        capacity: Resources = EMPTY
        for partition in self._views.partitions_made():
            size, in_use, asks = self._views.partition_reading(partition)
            allocated = {name: in_use.get(name, 0) for name in size}
            waiting += asks
            used, capacity = add(used, allocated), add(capacity, size)
            usage = self._usage.setdefault(partition, PartitionUse())
            usage.add(allocated, size, seconds)
            for path in filter(None, self._views.below_guarantee(partition)):
                self._line(partition, path)[-1].below += seconds
        course.sampled(now, seconds, waiting, used, capacity)
