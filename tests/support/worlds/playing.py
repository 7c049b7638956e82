"""Plays a script to a core, and to core and oracle side by side."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from licorne_core.commands import Command, Tick
from licorne_core.effects import Effect
from licorne_core.events import Fact
from licorne_core.ids import AppId, PartitionName
from licorne_core.partition import Partition
from licorne_core.queues.states import QueueState
from licorne_core.tuning import Tuning
from support.driver import Driver, placed
from support.oracle import Decision, Oracle
from support.oracle.deciding import Outcome
from support.oracle.turns import carry_out, peek, send_to_rest
from support.oracle.usage import Usage

REST = None
"""Instead of a command: let the core decide until it has nothing left to do."""
TURN = 5


class Step(NamedTuple):
    """One thing that happens at a time in unix seconds."""

    now: float
    command: Command | None


class Disagreement(AssertionError):
    """Core and oracle differ; the text names the step."""


def play_watched(
    script: Sequence[Step], tuning: Tuning | None = None
) -> tuple[list[Effect], list[Fact]]:
    """All effects that a core answers to a script, and all that those who watch hear."""
    driver = Driver(tuning=tuning)
    effects: list[Effect] = []
    for now, command in script:
        driver.now = now
        effects += driver.run(TURN) if command is REST else driver.send(command)
    return effects, driver.facts


def compare(script: Sequence[Step], tuning: Tuning | None = None) -> int:
    """Play the script to both; raises Disagreement, or returns how many decisions were compared."""
    pair = _Pair(tuning)
    for number, (now, command) in enumerate(script):
        pair.driver.now = now
        try:
            if command is REST:
                pair.rest()
            else:
                pair.hand_in(command)
        except AssertionError as error:
            raise Disagreement(f"step {number}, {command}: {error}") from error
    return pair.decisions


class _Pair:
    """A core and an oracle that are told the same."""

    def __init__(self, tuning: Tuning | None) -> None:
        self.driver = Driver(tuning=tuning)
        self.oracle = Oracle()
        self.decisions = 0

    def hand_in(self, command: Command) -> None:
        """One command to both; after a Tick the oracle says what should have been decided."""
        partitions = self.driver.scheduler.partitions
        turns = {name: partition.counters.turns for name, partition in partitions.items()}
        effects = self.driver.send(command)
        self.oracle.handle(command, self.driver.now)
        if isinstance(command, Tick):
            for name, before in turns.items():
                if partitions[name].counters.turns > before:
                    self._follow(name, effects, command.decisions)
        self._compare_books()

    def rest(self) -> None:
        """Let the core come to rest; then the oracle must have nothing left either."""
        for _ in range(1000):
            deadline = self.driver.scheduler.next_deadline()
            if deadline is None or deadline > self.driver.now:
                break
            self.hand_in(Tick(decisions=TURN))
        else:
            raise AssertionError("the core never comes to rest")
        for name, partition in self.oracle.partitions.items():
            if self.oracle.runnable(name):
                left = peek(partition, self.driver.now)
                assert left == Outcome(None, []), f"{name} rests, though there is {left}"
        self._compare_books()

    def _follow(self, name: PartitionName, effects: list[Effect], budget: int) -> None:
        """The oracle decides for the partition whose turn it was, as often as the core did.

        Of the core's decisions the reservations do not show. But it makes as many decisions as it
        may, unless it finds nothing more, or is tired and stops in the middle of a pass.
        """
        assert self.oracle.runnable(name), f"{name} is on hold"
        core = self.driver.scheduler.partitions[name]
        made = [Decision(*got) for got in placed(effects)]
        for _ in range(budget):
            if not made and core.cycle.tired and self._reservations(name) == _reserved(core):
                self._end_tired_turn(core)
                break
            wanted = self._pass(name)
            if wanted is None:
                break
            if not wanted.reserves:
                got = made.pop(0) if made else None
                assert wanted == got, f"in {name} the core says {got}, oracle {wanted}"
            carry_out(self.oracle.partitions[name], wanted, self.driver.now)
            self.decisions += 1
        assert not made, f"in {name} the core also says {made}"

    def _pass(self, name: PartitionName) -> Decision | None:
        """One pass of the oracle, with the rests that it finds due."""
        partition = self.oracle.partitions[name]
        decision, resting = peek(partition, self.driver.now)
        for app_id in resting:
            send_to_rest(partition, app_id, self.driver.now)
        return decision

    def _end_tired_turn(self, core: Partition) -> None:
        """The core has seen the first of those that must rest, and maybe not the others."""
        theirs = self.oracle.partitions[core.name]
        for app_id in peek(theirs, self.driver.now).resting:
            if core.applications[AppId(app_id)].backoff_until <= self.driver.now:
                break
            send_to_rest(theirs, app_id, self.driver.now)

    def _reservations(self, name: str) -> dict[tuple[str, str], str]:
        return {
            (app.app_id, ask.key): ask.reservation.node_id
            for app, ask in self.oracle.partitions[name].reserved_asks()
            if ask.reservation
        }

    def _compare_books(self) -> None:
        """Both have the same applications, nodes, usage and free room."""
        names = sorted(self.driver.scheduler.partitions)
        assert names == sorted(self.oracle.partitions), f"partitions {names}"
        for name in names:
            ours, theirs = self._books_of_core(name), self._books_of_oracle(name)
            for what, value in ours.items():
                assert value == theirs[what], f"{name} {what}: core {value}, oracle {theirs[what]}"

    def _books_of_core(self, name: Any) -> dict[str, Any]:
        partition = self.driver.scheduler.partitions[name]
        return {
            "apps": {
                app.app_id: (
                    app.queue_path,
                    app.state.value,
                    app.backoff_until,
                    set(app.pending),
                    set(app.allocations),
                )
                for app in partition.applications.values()
            },
            "reservations": _reserved(partition),
            "nodes": {
                node.node_id: (node.schedulable, _without_zeros(node.available))
                for node in partition.nodes.by_id.values()
            },
            "queues": {
                queue.path: (
                    queue.state is QueueState.DRAINING,
                    _without_zeros(queue.allocated),
                    _without_zeros(queue.pending),
                    queue.running_applications + len(queue.allocating),
                )
                for queue in partition.tree.walk()
            },
            "trackers": {
                (tracker.kind, tracker.name, tracker.path): (
                    _without_zeros(tracker.allocated),
                    set(tracker.applications),
                )
                for kind in ("user", "group")
                for trackers in partition.limits.of_kind(kind).values()
                for tracker in trackers.values()
                if tracker.applications
            },
        }

    def _books_of_oracle(self, name: str) -> dict[str, Any]:
        partition = self.oracle.partitions[name]
        usage = Usage(partition.queues, partition.apps, partition.nodes)
        return {
            "apps": {
                app.app_id: (
                    app.queue,
                    app.state,
                    app.rests_until,
                    set(app.asks),
                    set(app.allocations),
                )
                for app in partition.apps.values()
            },
            "reservations": self._reservations(name),
            "nodes": {
                node.node_id: (node.schedulable, _without_zeros(usage.available[node.node_id]))
                for node in partition.nodes.values()
            },
            "queues": {
                path: (
                    queue.draining,
                    _without_zeros(usage.allocated[path]),
                    _without_zeros(usage.pending[path]),
                    usage.running[path],
                )
                for path, queue in partition.queues.items()
            },
            "trackers": {
                tracker: (_without_zeros(usage.tracked[tracker]), apps)
                for tracker, apps in usage.tracked_apps.items()
            },
        }


def _reserved(partition: Partition) -> dict[tuple[str, str], str]:
    return {
        (app.app_id, key): reservation.node_id
        for app in partition.applications.values()
        for key, reservation in app.reservations.items()
    }


def _without_zeros(size: Any) -> dict[str, int]:
    return {name: value for name, value in size.items() if value}
