"""Plays a script to core and oracle side by side: they have to agree on everything."""

from collections.abc import Iterable, Sequence
from typing import Any

from licorne_core.apps.requests import RequestState
from licorne_core.commands import Command, NotePredicatesSent, Tick
from licorne_core.effects import AllocationsMade, ContainerStatesChanged, Effect, PredicatesAsked
from licorne_core.ids import AppId, PartitionName
from licorne_core.partition import Partition
from licorne_core.queues.states import QueueState
from licorne_core.scheduling.predicate_checks import MAX_ASSUMED, MAX_ASSUMED_IN_SILENCE
from licorne_core.tuning import Tuning
from support.driver import Driver, placed
from support.oracle import Decision, Oracle, PartitionOracle
from support.oracle.books import AskClass
from support.oracle.turns import carry_out, end_turn, mark_attempted, peek, send_to_rest
from support.oracle.usage import Usage
from support.worlds.answering import Answers
from support.worlds.playing import REST, TURN, Step

SWEEP = 7
"""Commands after which the core adds up its books; the oracle's are compared after each."""

Keys = dict[tuple[str, str], str]
"""Nodes by application and key."""


class Disagreement(AssertionError):
    """Core and oracle differ; the text names the step."""


def compare(
    script: Sequence[Step],
    tuning: Tuning | None = None,
    *,
    reserving: bool = True,
    most_assumed: tuple[int, int] = (MAX_ASSUMED, MAX_ASSUMED_IN_SILENCE),
) -> int:
    """Play the script to both; raises Disagreement, or returns how many decisions were compared.

    Without `reserving` neither reserves nodes. `most_assumed` says how many asks may wait for
    answers of an RM, and how many of a silent one; the core has to be told otherwise.
    """
    driver = Driver(tuning=tuning, reservations=reserving, sweep=SWEEP, writes=False)
    pair = _Pair(driver, Oracle(reserving=reserving, most_assumed=most_assumed))
    for number, (now, command) in enumerate(script):
        pair.driver.now = now
        try:
            pair.hear_answers()
            if command is REST:
                pair.rest()
            else:
                pair.hand_in(command)
        except AssertionError as error:
            raise Disagreement(f"step {number}, {command}: {error}") from error
    return pair.decisions


class _Pair:
    """A core and an oracle that are told the same."""

    def __init__(self, driver: Driver, oracle: Oracle) -> None:
        self.driver = driver
        self.oracle = oracle
        self.answers = Answers(self.driver.scheduler)
        self.unwritten: list[NotePredicatesSent] = []
        self.decisions = 0

    def hand_in(self, command: Command) -> None:
        """One command to both; after a Tick the oracle says what should have been decided."""
        partitions = self.driver.scheduler.partitions
        turns = {name: partition.counters.turns for name, partition in partitions.items()}
        effects = self.driver.send(command)
        self.answers.hear(effects)
        asked = [effect for effect in effects if isinstance(effect, PredicatesAsked)]
        self.unwritten += [
            NotePredicatesSent(rm_id=effect.rm_id, check=effect.checks[-1].check)
            for effect in asked
        ]
        self.oracle.handle(command, self.driver.now, asked)
        for name, told in self.oracle.told.items():
            core = PartitionName(name)
            made = _made(effects, name)
            assert made[: len(told)] == told, f"in {name} the core tells {made}, oracle {told}"
            if isinstance(command, Tick) and partitions[core].counters.turns > turns[core]:
                self._follow(name, made[len(told) :], command.decisions)
            else:
                assert len(made) == len(told), f"in {name} the core also tells {made}"
        for name, waiting in self.oracle.waiting.items():
            told_of = _waiting(effects, name)
            # Asks behind a full house are not looked at again when a maximum gets in the way too;
            # whether they count as looked at then makes no difference to anybody.
            assert told_of == sorted(waiting) or self.oracle.partitions[name].was_full, (
                f"in {name} core says {told_of} wait, oracle {sorted(waiting)}"
            )
        for name, theirs in self.oracle.partitions.items():
            said = theirs.checks.said
            assert not said, f"in {name} the core also asks {said}"
        self._compare_books(self._concerned(command))

    def _concerned(self, command: Command) -> list[PartitionName]:
        """The partitions that the command can have changed; time changes all."""
        rm_id = None if isinstance(command, Tick) else command.rm_id
        partitions = self.driver.scheduler.partitions.values()
        names = [known.name for known in partitions if rm_id in (None, known.rm_id)]
        assert len(partitions) == len(self.oracle.partitions), f"partitions {sorted(names)}"
        return names

    def hear_answers(self) -> bool:
        """Checks are written, and RMs answer what they have thought about long enough."""
        written, self.unwritten = self.unwritten, []
        due = self.answers.due()
        for command in (*written, *due):
            self.hand_in(command)
        return bool(written or due)

    def rest(self) -> None:
        """Let the core come to rest; then the oracle must have nothing left either."""
        for _ in range(1000):
            deadline = self.driver.scheduler.next_deadline()
            if deadline is not None and deadline <= self.driver.now:
                self.hand_in(Tick(decisions=TURN))
            elif not self.hear_answers():
                break
        else:
            raise AssertionError("the core never comes to rest")
        for name, partition in self.oracle.partitions.items():
            if self.oracle.runnable(name):
                left = peek(partition, self.driver.now)
                assert left[:2] == (None, []), f"{name} rests, though there is {left}"

    def _follow(self, name: str, made: list[Decision], budget: int) -> None:
        """The oracle decides for the partition whose turn it was, as often as the core did.

        Of the core's decisions, reservations and what is assumed do not show. But it makes as many
        as it may, unless it finds nothing more, or is tired and stops in the middle of a pass.
        """
        assert self.oracle.runnable(name), f"{name} is on hold"
        core = self.driver.scheduler.partitions[PartitionName(name)]
        theirs = self.oracle.partitions[name]
        for _ in range(budget):
            if not made and core.cycle.tired and _unseen(core) == _unseen_by_oracle(theirs):
                self._end_tired_turn(core)
                break
            wanted = self._pass(name)
            if wanted is None:
                end_turn(theirs, self.driver.now)
                break
            if carry_out(theirs, wanted, self.driver.now):
                got = made.pop(0) if made else None
                assert wanted == got, f"in {name} the core says {got}, oracle {wanted}"
            self.decisions += 1
        assert not made, f"in {name} the core also says {made}"

    def _pass(self, name: str) -> Decision | None:
        """One pass of the oracle, with the back-offs that it finds due."""
        partition = self.oracle.partitions[name]
        outcome = peek(partition, self.driver.now)
        mark_attempted(partition, outcome)
        for app_id in outcome.backing_off:
            send_to_rest(partition, app_id, self.driver.now)
        return outcome.decision

    def _end_tired_turn(self, core: Partition) -> None:
        """The core has seen the first of those that must back off, and maybe not the others."""
        theirs = self.oracle.partitions[core.name]
        outcome = peek(theirs, self.driver.now)
        for app_id, asks in outcome.attempted.items():
            groups = core.applications[AppId(app_id)].groups.values()
            kinds = [group.ask_class for group in groups if group.attempted]
            seen = {(kind.items, kind.required_node, kind.predicate) for kind in kinds}
            looked_at = [ask for ask in asks if ask.ask_class in seen]
            nowhere: dict[AskClass, bool] = {
                (kind.items, kind.required_node, kind.predicate): group.nowhere
                for group in groups
                for kind in [group.ask_class]
                if (kind.items, kind.required_node, kind.predicate) in seen
            }
            mark_attempted(
                theirs,
                outcome._replace(attempted={app_id: looked_at}, nowhere={app_id: nowhere}),
            )
        for app_id in outcome.backing_off:
            if core.applications[AppId(app_id)].backoff_until <= self.driver.now:
                break
            send_to_rest(theirs, app_id, self.driver.now)

    def _compare_books(self, names: list[PartitionName]) -> None:
        """Both have the same applications, nodes, usage and free room."""
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
                    {request.key for request in app.pending()},
                    {request.key for request in app.booked()},
                )
                for app in partition.applications.values()
            },
            "reserved and assumed": _unseen(partition),
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
                    app.backs_off_until,
                    set(app.asks),
                    set(app.allocations),
                )
                for app in partition.apps.values()
            },
            "reserved and assumed": _unseen_by_oracle(partition),
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


def _made(effects: Iterable[Effect], name: str) -> list[Decision]:
    """The allocations of one partition that the RM is told of, in order."""
    made = [e for e in effects if isinstance(e, AllocationsMade) and e.partition == name]
    return [Decision(*told) for told in placed(made)]


def _waiting(effects: Iterable[Effect], name: str) -> list[tuple[str, str]]:
    """The asks of one partition that an autoscaler is told of; their order says nothing."""
    return sorted(
        (state.app_id, state.key)
        for effect in effects
        if isinstance(effect, ContainerStatesChanged) and effect.partition == name
        for state in effect.states
    )


def _unseen(partition: Partition) -> tuple[Keys, Keys]:
    """What shows in no effect: which nodes are reserved for which asks, and what is assumed."""
    reserved: Keys = {
        (app.app_id, key): request.reservation.node_id
        for app in partition.applications.values()
        for key, request in app.reserved.items()
        if request.reservation is not None
    }
    assumed: Keys = {
        (app.app_id, request.key): request.allocation.node_id
        for app in partition.applications.values()
        for request in app.booked()
        if request.state is RequestState.ASSUMED and request.allocation is not None
    }
    return reserved, assumed


def _unseen_by_oracle(partition: PartitionOracle) -> tuple[Keys, Keys]:
    reserved: Keys = {
        (app.app_id, ask.key): ask.reservation.node_id
        for app, ask in partition.reserved_asks()
        if ask.reservation
    }
    assumed: Keys = {
        (app.app_id, key): app.allocations[key].node_id
        for app in partition.apps.values()
        for key in app.assumed_keys()
    }
    return reserved, assumed


def _without_zeros(size: Any) -> dict[str, int]:
    return {name: value for name, value in size.items() if value}
