"""Drives a core like the engine, with a clock that a test moves.

After every step the core's records are checked, and every decision against the rules that bind decisions, so
a core test needs no checks of its own for them. Events are shown as lines.
"""

from collections.abc import Iterable

from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import Command, NotePredicatesSent, RegisterRm, RemoveRm, Tick
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsAnswered,
    ApplicationsUpdated,
    AskedCheck,
    Effect,
    Happened,
    PredicatesAsked,
    PreemptionsAsked,
    Unfinished,
)
from licorne_core.messages.events.records import EventRecord, Fact
from licorne_core.messages.reports import Explanation
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import PartitionName
from licorne_core.values.rm_caps import RmCaps
from licorne_core.values.slices import Tuning
from licorne_core.views.applications import AppReport
from licorne_core.views.audit.invariants import check_invariants
from licorne_core.views.nodes import NodeReport
from licorne_core.views.queues import QueueReport
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register
from support.core.ledger import Ledger
from support.core.steps import last

START = 1_000_000.0
DEFAULT = PartitionName(f"[{RM}]default")
MAX_TURNS = 100_000


class Driver:
    """A scheduler, its clock, and all of its answers so far."""

    def __init__(
        self,
        *,
        default_config: Configuration | None = None,
        reservations: bool = True,
        tuning: Tuning | None = None,
        rm_caps: RmCaps | None = None,
        sweep: int = 1,
        writes: bool = True,
    ) -> None:
        """A core without RMs, at an arbitrary time.

        Its records are checked after every command, or after each `sweep` commands. Predicate checks count as
        written to their RM at once, unless `writes` is False.
        """
        self.scheduler = Scheduler(
            default_config=default_config,
            reservations=reservations,
            tuning=tuning,
            rm_caps=rm_caps,
        )
        self.views = self.scheduler.views
        self.now = START
        self.ledger = Ledger()
        self._sweep = sweep
        self._writes = writes
        self._sent = 0
        self.facts: list[Fact] = []
        self.rest: Command | None = None
        """The remainder of the last command that was begun."""

    @property
    def partition(self) -> Partition:
        """The default partition of `RM`."""
        return self.scheduler.partitions[DEFAULT]

    def queue(self, path: str) -> QueueReport:
        """A queue of the partition."""
        return self.views.queue(DEFAULT, path)

    def app(self, app_id: str) -> AppReport:
        """An application of the partition."""
        return self.views.application(DEFAULT, app_id)

    def node(self, node_id: str) -> NodeReport:
        """A node of the partition."""
        return self.views.node(DEFAULT, node_id)

    def explain(self, app_id: str, key: str = "") -> Explanation:
        """The explanation of an ask of the partition, or of the application's first one."""
        return last(self.views.explain(DEFAULT, app_id, key))

    def begin(self, command: Command) -> list[Effect]:
        """Process one command at the present time, and keep its remainder in `rest`.

        Effects for watchers are added to `facts`.
        """
        effects: list[Effect] = []
        self.rest = None
        for effect in self.scheduler.handle(command, self.now):
            if isinstance(effect, Happened):
                self.facts += effect.facts
            elif isinstance(effect, Unfinished):
                self.rest = effect.rest
            else:
                effects.append(effect)
        if self.rest is not None:
            check_invariants(self.scheduler)
        return effects

    def send(self, command: Command) -> list[Effect]:
        """Process a command with its remainders at the present time."""
        effects = self.begin(command)
        while self.rest is not None:
            effects += self.begin(self.rest)
        self._sent += 1
        if self._sent % self._sweep == 0:
            check_invariants(self.scheduler)
        if isinstance(command, RegisterRm | RemoveRm):
            self.ledger.forget(command.rm_id, effects)
        self.ledger.watch(self.scheduler, effects, decided=isinstance(command, Tick))
        for effect in effects:
            if self._writes and isinstance(effect, PredicatesAsked | PreemptionsAsked):
                self.send(NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check))
        return effects

    def run(self, decisions: int = 256) -> list[Effect]:
        """Run turns until the core has no work at the present time."""
        effects: list[Effect] = []
        for _ in range(MAX_TURNS):
            deadline = self.scheduler.next_deadline()
            if deadline is None or deadline > self.now:
                return effects
            effects += self.send(Tick(decisions=decisions))
        raise AssertionError("the core never comes to rest")

    def do(self, *commands: Command) -> list[Effect]:
        """Process commands one by one; after each, run the core until it is idle."""
        effects: list[Effect] = []
        for command in commands:
            effects += self.send(command)
            effects += self.run()
        return effects

    def wait(self, seconds: float) -> list[Effect]:
        """Let time pass, from deadline to deadline."""
        end = self.now + seconds
        effects = self.run()
        while (deadline := self.scheduler.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            effects += self.run()
        self.now = end
        return effects


def asked(effects: Iterable[Effect]) -> list[AskedCheck]:
    """The predicate checks, in order."""
    return [check for effect in effects if isinstance(effect, PredicatesAsked) for check in effect.checks]


def placed(effects: Iterable[Effect]) -> list[tuple[str, str, str]]:
    """Application, key and node of the allocations made, in order."""
    return [
        (allocation.ask.app_id, allocation.key, allocation.node_id)
        for effect in effects
        if isinstance(effect, AllocationsMade)
        for allocation in effect.allocations
    ]


def keys(effects: Iterable[Effect]) -> list[str]:
    """The keys of the allocations made, in order."""
    return [key for _, key, _ in placed(effects)]


def released(effects: Iterable[Effect]) -> list[tuple[str, str, str, str]]:
    """Application, key, termination and message of the releases, in order."""
    return [
        (release.app_id, release.key, release.termination.name, release.message)
        for effect in effects
        if isinstance(effect, AllocationsReleased)
        for release in effect.releases
    ]


def stopped(effects: Iterable[Effect]) -> list[str]:
    """The keys of the victims, in order."""
    return [key for _, key, why, _ in released(effects) if why == "PREEMPTED_BY_SCHEDULER"]


def messages(effects: Iterable[Effect]) -> list[tuple[str, str]]:
    """The states of applications that are sent to the RM, each with its message."""
    told = [effect for effect in effects if isinstance(effect, ApplicationsUpdated)]
    return [(update.state, update.message) for effect in told for update in effect.updates]


def refused(effects: Iterable[Effect]) -> dict[str, str]:
    """The reasons for refused asks, by key."""
    return {
        rejection.key: rejection.reason
        for effect in effects
        if isinstance(effect, AllocationsRejected)
        for rejection in effect.rejections
    }


def refused_apps(effects: Iterable[Effect]) -> dict[str, str]:
    """The reasons for refused applications, by id."""
    return {
        rejection.app_id: rejection.reason
        for effect in effects
        if isinstance(effect, ApplicationsAnswered)
        for rejection in effect.rejected
    }


def states(effects: Iterable[Effect], app_id: str) -> list[str]:
    """The reported states of an application, in order."""
    return [
        update.state
        for effect in effects
        if isinstance(effect, ApplicationsUpdated)
        for update in effect.updates
        if update.app_id == app_id
    ]


def reserved(core: Driver) -> dict[str, str]:
    """The node reserved for each ask of the partition, by the key of the ask."""
    (partition,) = core.scheduler.partitions.values()
    return {one.key: one.node_id for one in partition.wakeups.reserved if one.node_id is not None}


def shown(record: EventRecord) -> str:
    """``APP app SET APP_RUNNING``, followed by reference, amounts and message if there are any."""
    words = [record.type.name, record.object_id, record.change.name, record.detail.name]
    if record.reference_id:
        words.append(record.reference_id)
    words += [f"{name}={value}" for name, value in sorted(record.resource.items())]
    return " ".join(words) + (f": {record.message}" if record.message else "")


def records(driver: Driver) -> list[EventRecord]:
    """The events since the last call, in order; each fact must have as many records as it claims."""
    found: list[EventRecord] = []
    for fact in driver.facts:
        expanded = fact.records()
        assert len(expanded) == fact.count, fact
        found += expanded
    driver.facts.clear()
    return found


def heard(driver: Driver, *words: str) -> list[str]:
    """The events since the last call, each as a line; with words only lines that contain one of them."""
    lines = [shown(record) for record in records(driver)]
    return [line for line in lines if not words or set(words) & set(line.split())]


def preempted(*, rich_asks: int) -> tuple[Driver, str]:
    """A full node with allocations of root.rich, and the key of the victim for `k` of root.poor."""
    driver = Driver()
    poor = "{name: poor, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 1s}}"
    driver.do(register(config(f"[{poor}, {{name: rich}}]")), nodes(node("n1", vcore=4)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*(ask("rich", f"v{i}", vcore=2, policy="s") for i in range(rich_asks))))
    told = driver.do(asks(ask("poor", "k", vcore=2, policy="o"))) + driver.wait(60)
    ((_, victim, why, _),) = released(told)
    assert why == "PREEMPTED_BY_SCHEDULER"
    return driver, victim
