"""An hour of a cluster in virtual time: its utilisation, and the waits of asks.

The core runs in this process, without a wire. The RM of a `LoadWorld` submits its applications, ends each
allocation after its runtime, and confirms preemptions immediately. The figures depend only on the seed, so
two scheduling rules can be compared.
"""

import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf
from statistics import fmean, linear_regression, median

from licorne_core.extensions.queue_stops.messages import SetQueueStopped
from licorne_core.messages.commands import (
    Command,
    RegisterRm,
    ReleaseRequest,
    TerminationType,
    Tick,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    Effect,
    NodesAnswered,
    OperatorRefused,
    RegistrationFailed,
    Unfinished,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_core.values.resources import VCORE, Resources
from licorne_core.views.queues import QueueReport
from licorne_server.lab.demo.world import Submission, rounds
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.world import START, parsed
from licorne_tools.bench.utilisation_loads import LoadWorld, application_of, ask_of, created

ROUND = 60.0
"""The unit of time in a load, in seconds."""

STEP = 0.1
"""Resolution of the ends of allocations, in seconds."""

SAMPLE = 1.0
"""Seconds between two samples of queues and reservations."""

WARM_UP = 300.0
"""Seconds at the begin of a run that are excluded, but at most a quarter of the run."""

STOPPED_SECONDS = 90.0
RETRY = 5.0
"""Seconds after which the RM resubmits an application that a stopped queue has refused."""

UNSTEADY = 0.1
"""Maximum deviation of an allocation's runtime from its application's runtime, as a share."""

LARGE = 0.5
"""Share of the smallest node's cores from which an ask is large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilisationFigures:
    """The results of a run. Shares are of all cores; waits are in seconds.

    Asks that are pending at the end are counted with their waits so far.
    """

    cores_percent: float
    """Average share of allocated cores over the run, in percent."""
    warm_cores_percent: float
    """Average share of allocated cores after the warm-up, in percent."""
    below_guarantee_seconds: float
    """Seconds in which a queue had an ask that was due (see `is_due`), in total over all queues."""
    backlog_asks: int
    backlog_per_minute: float
    """Growth of the backlog over the second half of the run, in asks per minute."""
    large_asks: int
    large_p50_seconds: float
    large_max_seconds: float
    reserved_nodes_mean: float
    reserved_nodes_max: int
    preempted: int
    placed: int


@dataclass(slots=True)
class _Samples:
    """Values that are sampled in each second of a run."""

    backlog: list[tuple[float, int]] = field(default_factory=list)
    reserved: list[int] = field(default_factory=list)
    below_guarantee: float = 0.0


@dataclass(slots=True)
class _WaitingAsk:
    """An ask without an allocation."""

    ask: Ask
    queue: str
    since: float
    runs: float


@dataclass(slots=True)
class _Usage:
    """Cores in use now, and core seconds so far."""

    now: float
    cores: int = 0
    area: float = 0.0

    def advance(self, now: float) -> None:
        self.area += self.cores * (now - self.now)
        self.now = now


class Simulation:
    """A core, and the RM of one load that uses it."""

    def __init__(self, load: LoadWorld, *, seed: int, reservations: bool) -> None:
        """Register the RM and its nodes.

        Raises:
            BenchError: the core refuses the RM or a node.
        """
        self._load = load
        self._rm_id = RmId(load.world.rm_id)
        self._scheduler = Scheduler(reservations=reservations)
        self._dice = random.Random(f"{seed} {load.name}")
        self._now = START
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._actions = 0
        self._unanswered: dict[AppId, Submission] = {}
        self._waiting: dict[AllocationKey, _WaitingAsk] = {}
        self._shapes: defaultdict[str, Counter[AskClass]] = defaultdict(Counter)
        self._running: dict[AllocationKey, Ask] = {}
        self._ends: dict[float, list[AllocationKey]] = {}
        self._usage = _Usage(START)
        self._samples = _Samples()
        self._large_waits: list[float] = []
        self._placed = self._preempted = 0
        self._capacity = sum(node.capacity[VCORE] for node in load.world.nodes)
        self._large = LARGE * min(node.capacity[VCORE] for node in load.world.nodes)
        self._handle(RegisterRm(rm_id=self._rm_id, config=parsed(load.world.config)))
        self._handle(UpdateNodes(rm_id=self._rm_id, nodes=created(load.world.nodes)))
        self._partition = self._scheduler.views.partition_names(self._rm_id)[0]

    def run(self, seconds: float) -> UtilisationFigures:
        """Simulate `seconds`; may be called only once.

        Raises:
            BenchError: the core refused an item that it should accept.
        """
        self._submit_next(rounds(self._load.world))
        # Samples lie between two ends of allocations: at an end, the freed resources are not yet reallocated.
        self._at(START + SAMPLE + STEP / 2, self._sample)
        if self._load.stopped:
            stop = START + seconds / 6
            self._at(stop, partial(self._set_stopped, stopped=True))
            self._at(stop + STOPPED_SECONDS, partial(self._set_stopped, stopped=False))
        warm = min(WARM_UP, seconds / 4)
        self._play(START + warm)
        area = self._usage.area
        self._play(START + seconds)
        return self._figures(seconds, warm, area)

    def _play(self, until: float) -> None:
        """Perform the actions of RM and operator, and the deadlines of the core, in order of time."""
        while True:
            due = self._agenda[0][0]
            deadline = self._scheduler.next_deadline()
            moment = due if deadline is None else min(due, deadline)
            if moment > until:
                break
            self._now = max(self._now, moment)
            self._usage.advance(self._now)
            while self._agenda[0][0] <= self._now:
                heapq.heappop(self._agenda)[2]()
            while (deadline := self._scheduler.next_deadline()) is not None and (deadline <= self._now):
                self._handle(Tick())
        self._now = until
        self._usage.advance(until)

    def _at(self, moment: float, action: Callable[[], None]) -> None:
        self._actions += 1
        heapq.heappush(self._agenda, (moment, self._actions, action))

    def _submit_next(self, work: Iterator[Submission]) -> None:
        upcoming = next(work)

        def due() -> None:
            self._submit(upcoming)
            self._submit_next(work)

        self._at(START + upcoming.at * ROUND, due)

    def _submit(self, submission: Submission) -> None:
        """Send an application; its asks follow after it is accepted."""
        new = application_of(submission.application)
        self._unanswered[new.app_id] = submission
        self._handle(UpdateApplications(rm_id=self._rm_id, new=[new]))

    def _ask(self, submission: Submission) -> None:
        """Send the asks of an application, and draw the run time of each."""
        queue = submission.application.queue
        asks = []
        for wanted in submission.asks:
            ask = ask_of(wanted)
            runs = submission.runs * ROUND * self._dice.uniform(1 - UNSTEADY, 1 + UNSTEADY)
            self._waiting[ask.key] = _WaitingAsk(ask, queue, self._now, runs)
            self._shapes[queue][ask.ask_class] += 1
            asks.append(ask)
        self._handle(UpdateAllocations(rm_id=self._rm_id, asks=asks))

    def _set_stopped(self, *, stopped: bool) -> None:
        self._handle(
            SetQueueStopped(
                rm_id=self._rm_id,
                partition=self._partition,
                queue=self._load.stopped,
                stopped=stopped,
            )
        )

    def _handle(self, command: Command) -> None:
        """Pass a command and its remainder to the core, and let the RM react to the effects.

        Raises:
            BenchError: the core refused an item.
        """
        for effect in self._scheduler.handle(command, self._now):
            self._hear(effect)

    def _hear(self, effect: Effect) -> None:
        match effect:
            case Unfinished():
                self._handle(effect.rest)
            case ApplicationsAnswered():
                self._hear_answer(effect)
            case AllocationsMade():
                for allocation in effect.allocations:
                    self._begin(allocation.key)
            case AllocationsReleased():
                self._confirm(effect)
            case AllocationsRejected(rejections=[first, *_]):
                raise BenchError(f"ask {first.key}: {first.reason}")
            case NodesAnswered(rejected=[node, *_]):
                raise BenchError(f"node {node.node_id}: {node.reason}")
            case RegistrationFailed() | OperatorRefused():
                raise BenchError(effect.reason)

    def _hear_answer(self, answer: ApplicationsAnswered) -> None:
        """Send the asks of accepted applications; resubmit applications that a stopped queue refused."""
        for app_id in answer.accepted:
            self._ask(self._unanswered.pop(app_id))
        for refused in answer.rejected:
            submission = self._unanswered.pop(refused.app_id)
            if submission.application.queue != self._load.stopped:
                raise BenchError(f"application {refused.app_id}: {refused.reason}")
            self._at(self._now + RETRY, partial(self._submit, submission))

    def _begin(self, key: AllocationKey) -> None:
        """Start an allocation."""
        waited = self._waiting.pop(key)
        ask = waited.ask
        self._forget_shape(waited)
        self._running[key] = ask
        self._usage.cores += ask.ask_class.resources[VCORE]
        self._placed += 1
        if self._is_large(ask):
            self._large_waits.append(self._now - waited.since)
        end = START + ceil((self._now + waited.runs - START) / STEP) * STEP
        if end not in self._ends:
            self._ends[end] = []
            self._at(end, partial(self._end, end))
        self._ends[end].append(key)

    def _forget_shape(self, waited: _WaitingAsk) -> None:
        shapes = self._shapes[waited.queue]
        shapes[waited.ask.ask_class] -= 1
        if not shapes[waited.ask.ask_class]:
            del shapes[waited.ask.ask_class]

    def _end(self, moment: float) -> None:
        """Release the allocations that end now, except those that were preempted earlier."""
        done = [key for key in self._ends.pop(moment) if key in self._running]
        if done:
            self._release(done, TerminationType.STOPPED_BY_RM)

    def _confirm(self, effect: AllocationsReleased) -> None:
        """Confirm preemptions immediately."""
        victims = [
            release.key
            for release in effect.releases
            if release.termination is TerminationType.PREEMPTED_BY_SCHEDULER and release.key in self._running
        ]
        if victims:
            self._preempted += len(victims)
            self._release(victims, TerminationType.PREEMPTED_BY_SCHEDULER)

    def _release(self, keys: Sequence[AllocationKey], why: TerminationType) -> None:
        releases = []
        for key in keys:
            ask = self._running.pop(key)
            self._usage.cores -= ask.ask_class.resources[VCORE]
            releases.append(ReleaseRequest(app_id=ask.app_id, key=key, termination=why))
        self._handle(UpdateAllocations(rm_id=self._rm_id, releases=releases))

    def _is_large(self, ask: Ask) -> bool:
        return ask.ask_class.resources[VCORE] >= self._large

    def _sample(self) -> None:
        """Sample queues and reserved nodes, and schedule the next sample."""
        views = self._scheduler.views
        samples = self._samples
        reserved = {each.node_id for each in views.reservations(self._partition) if each is not None}
        samples.reserved.append(len(reserved))
        samples.backlog.append((self._now - START, len(self._waiting)))
        for path, shapes in self._shapes.items():
            queue = views.queue(self._partition, path)
            if any(is_due(queue, each.resources) for each in shapes):
                samples.below_guarantee += SAMPLE
        self._at(self._now + SAMPLE, self._sample)

    def _figures(self, seconds: float, warm: float, warm_area: float) -> UtilisationFigures:
        area = self._usage.area
        late = [each for each in self._samples.backlog if each[0] >= seconds / 2]
        waiting = [each for each in self._waiting.values() if self._is_large(each.ask)]
        waits = [*self._large_waits, *(self._now - each.since for each in waiting)]
        return UtilisationFigures(
            cores_percent=area / seconds / self._capacity * 100,
            warm_cores_percent=(area - warm_area) / (seconds - warm) / self._capacity * 100,
            below_guarantee_seconds=self._samples.below_guarantee,
            backlog_asks=len(self._waiting),
            backlog_per_minute=linear_regression(*zip(*late, strict=True)).slope * 60,
            large_asks=len(waits),
            large_p50_seconds=median(waits) if waits else 0.0,
            large_max_seconds=max(waits, default=0.0),
            reserved_nodes_mean=fmean(self._samples.reserved),
            reserved_nodes_max=max(self._samples.reserved),
            preempted=self._preempted,
            placed=self._placed,
        )


def played(load: LoadWorld, *, seed: int, seconds: float, reservations: bool) -> UtilisationFigures:
    """The figures of a load; equal seeds give equal figures.

    Raises:
        BenchError: the core refused an item that it should accept.
    """
    return Simulation(load, seed=seed, reservations=reservations).run(seconds)


def is_due(queue: QueueReport, wanted: Resources) -> bool:
    """True if an ask fits into the unused guarantee of the queue, into every maximum, and into the total of
    free resources of the cluster.
    """
    if not queue.guaranteed or queue.state != "Active":
        return False
    left = {name: amount - queue.allocated.get(name, 0) for name, amount in queue.guaranteed.items()}
    return _fits(wanted, left) and _fits(wanted, queue.headroom)


def _fits(wanted: Resources, room: Mapping[str, int]) -> bool:
    return all(amount <= room.get(name, inf) for name, amount in wanted.items())
