"""The core's work at level `debug`: commands, turns, checks and decisions."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from licorne_core.messages.commands import AnswerPreemptions as VictimAnswers
from licorne_core.messages.commands import (
    BeginReplay,
    Command,
    EndReplay,
    Hold,
    NodeRefusal,
    NotePredicatesSent,
    PredicatePolicy,
    PreemptionAnswer,
    RemoveRm,
    SetHold,
    TerminationType,
    Tick,
)
from licorne_core.messages.effects import (
    AllocationsReleased,
    ApplicationsUpdated,
    ApplicationUpdate,
    AskedCheck,
    AskedNode,
    AskedPreemption,
    Effect,
    PreemptionsAsked,
    Release,
)
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.scheduler_log import MAX_LOGGED, MAX_NAMED, WAITING_SECONDS, SchedulerLog, is_on
from support.core import builders
from support.core.driver import Driver, asked

RM = RmId(builders.RM)
PARTITION = PartitionName(f"[{RM}]default")
TICK = Tick()
CONFIG = builders.config("[{name: a, resources: {max: {vcore: 2m}}}]")
WIDE = builders.config("[{name: a}]")


class Told:
    """A core whose steps are all logged, and its lines."""

    def __init__(self, lines: list[Any]) -> None:
        self.driver = Driver(writes=False)
        self._lines = lines
        scheduler = self.driver.scheduler
        handle = scheduler.handle
        self.renew()

        def seen(command: Command, now: float) -> list[Effect]:
            effects = handle(command, now)
            if is_on():
                turn = scheduler.last_turn if isinstance(command, Tick) else None
                self.log.saw(command, effects, 0.0015, turn)
            return effects

        self.driver.scheduler = Seen(scheduler, seen)  # type: ignore[assignment]

    def renew(self) -> None:
        """Begin a new log after a change of levels."""
        self.log = SchedulerLog(self.driver.views, lambda: self.driver.now)

    def take(self, event: str = "") -> list[dict[str, Any]]:
        """The lines since the last call, or those of one event."""
        found = [dict(line) for line in self._lines]
        self._lines.clear()
        assert {line.pop("log_level") for line in found} <= {"debug"}
        return [line for line in found if event in ("", line["event"])]


class Seen:
    """A scheduler that passes all steps to a witness."""

    def __init__(self, scheduler: Scheduler, handle: Any) -> None:
        self._scheduler = scheduler
        self.handle = handle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scheduler, name)


@pytest.fixture
def told() -> Iterator[Told]:
    """A core whose steps are all logged."""
    levels().begin("info")
    levels().set("core.scheduler", "debug")
    with capture_logs() as lines:
        told = Told(lines)
        levels().followers.add(told.renew)
        yield told
        levels().followers.discard(told.renew)
    levels().begin("info")


def saw(told: Told, *effects: Effect, command: Command = TICK) -> list[dict[str, Any]]:
    """The lines of these effects."""
    told.log.saw(command, effects, 0.0, None)
    return told.take()


def test_each_command_has_a_line(told: Told) -> None:
    """The line of a command has its sizes, its results and its duration."""
    told.driver.send(builders.register(CONFIG))
    (step,) = told.take()
    assert step == {"event": "registration step", "rm_id": RM, "last": True, "ms": 1.5}
    told.driver.send(builders.nodes(builders.node("n", vcore=8), builders.node("n", vcore=8)))
    told.driver.send(builders.apps(builders.app("app", "root.a")))
    asks = (builders.ask("app", "k", vcore=1), builders.ask("none", "k", vcore=1))
    told.driver.send(builders.asks(*asks))
    told.driver.send(builders.releases(builders.release("app", "k")))
    told.driver.send(SetHold(rm_id=RM, hold=Hold.OUTBOX_FULL, on=True))
    told.driver.send(BeginReplay(rm_id=RM))
    told.driver.send(EndReplay(rm_id=RM, nodes=1, applications=0, allocations=0))
    common = {"event": "command", "rm_id": RM, "ms": 1.5}
    sizes = [{k: v for k, v in line.items() if k not in common} for line in told.take()]
    assert sizes == [
        {"command": "UpdateNodes", "nodes": 2, "accepted": 1, "rejected": 1},
        {"command": "UpdateApplications", "applications": 1, "accepted": 1},
        {"command": "UpdateAllocations", "asks": 2, "rejected": 1, "state_changes": 1},
        {"command": "UpdateAllocations", "releases": 1, **sizes[3]},
        {"command": "SetHold", "hold": "outbox full", "on": True},
        {"command": "BeginReplay"},
        {"command": "EndReplay", "nodes": 1},
    ]
    told.driver.send(builders.reload(WIDE))
    told.driver.send(builders.reload("partitions: 1"))
    done, refused = told.take()
    assert done == {"event": "configuration step", "rm_id": RM, "last": True, "ms": 1.5}
    assert refused == {**done, "refused": 1}


def test_a_turn_is_logged_with_its_effects_and_waiting_asks(told: Told) -> None:
    """Only turns with an effect are logged, and waiting asks are counted at intervals."""
    driver = told.driver
    driver.do(
        builders.register(CONFIG),
        builders.nodes(builders.node("n", vcore=8)),
        builders.apps(builders.app("app", "root.a")),
    )
    told.take()
    driver.do(builders.asks(*(builders.ask("app", f"k{n}", vcore=1) for n in range(3))))
    turns = told.take("turn")
    assert sum(turn.get("allocated", 0) for turn in turns) == 2
    assert {(turn["rm_id"], turn["partition"], turn["ms"]) for turn in turns} == {(RM, PARTITION, 1.5)}
    driver.now += WAITING_SECONDS
    driver.do(builders.asks(builders.ask("app", "k9", vcore=2)))
    (turn,) = told.take("turn")
    assert (turn["tried"], turn["waiting"]) == (1, {"QUEUE_MAX_EXCEEDED": 2})
    driver.do(builders.asks(builders.ask("app", "k10", vcore=4)))
    (turn,) = told.take("turn")
    assert "waiting" not in turn, "it was counted just now"
    told.log.saw(TICK, [], 0.0, None)
    assert told.take() == []


def test_a_turn_is_logged_with_its_reservations(told: Told) -> None:
    """The line of a turn has the number of reserved nodes."""
    driver = told.driver
    driver.do(
        builders.register(WIDE),
        builders.nodes(builders.node("n1", vcore=10), builders.node("n2", vcore=10)),
        builders.apps(builders.app("app", "root.a"), builders.app("big", "root.a")),
        builders.asks(*(builders.ask("app", key, vcore=4) for key in ("k1", "k2"))),
        builders.asks(builders.ask("big", "k3", vcore=8)),
    )
    told.take()
    driver.wait(3)
    turns = told.take("turn")
    assert sum(turn.get("reserved", 0) for turn in turns) == 1
    assert turns[-1]["waiting"] == {"NO_NODE_FITS": 1}


def test_checks_and_answers_are_logged(told: Told) -> None:
    """Predicate checks that are sent, answered, late or overdue are logged."""
    driver = told.driver
    driver.do(
        builders.register(WIDE, predicates=PredicatePolicy(deadline=2.0)),
        builders.nodes(builders.node("n1", vcore=8)),
        builders.apps(builders.app("app", "root.a")),
    )
    told.take()
    checks = asked(driver.do(builders.asks(builders.ask("app", "k1", vcore=1, predicate="p"))))
    (line,) = told.take("predicates asked")
    about = {"partition": PARTITION, "checks": 1, "nodes": 1, "deadline": 2.0}
    assert line == {"event": "predicates asked", "rm_id": RM, **about}
    driver.send(builders.answering(checks[0]))
    (line,) = told.take("predicates answered")
    counts = {"answers": 1, "accepted": 1, "refused": 0, "refused_nodes": 0, "late": 0}
    assert line.items() >= {"rm_id": RM, **counts, "allocated": 1}.items()
    checks = asked(driver.do(builders.asks(builders.ask("app", "k2", vcore=1, predicate="q"))))
    driver.send(NotePredicatesSent(rm_id=RM, check=checks[-1].check))
    driver.wait(2.5)
    (line,) = told.take("predicates overdue")
    assert line.items() >= {"rm_id": RM, "partition": PARTITION, "checks": 1}.items()
    driver.send(builders.answering(checks[0], [NodeRefusal(node_id=NodeId("n1"), reason="r")]))
    (line,) = told.take("predicates answered")
    counts = {"answers": 1, "accepted": 0, "refused": 1, "refused_nodes": 1, "late": 1}
    assert line.items() >= counts.items()


def test_checks_of_victims_are_logged(told: Told) -> None:
    """Preemption checks and their answers are logged with predicate checks."""
    node = AskedNode(node_id=NodeId("n"), victims=(), start=-1)
    check = AskedPreemption(check=1, app_id=AppId("a"), key=AllocationKey("k"), nodes=[node, node])
    effect = PreemptionsAsked(rm_id=RM, partition=PARTITION, checks=[check], deadline=2.0)
    (line,) = saw(told, effect, command=SetHold(rm_id=RM, hold=Hold.DRAINING, on=False))[1:]
    assert (line["event"], line["checks"], line["nodes"]) == ("victims asked about", 1, 2)
    answer = VictimAnswers(rm_id=RM, answers=[PreemptionAnswer(1)])
    (line,) = saw(told, command=answer)
    assert (line["event"], line["rm_id"], line["answers"]) == ("victims answered", RM, 1)


def released(count: int, why: TerminationType, message: str, app: str = "app") -> Sequence[Release]:
    """This number of releases for one reason."""
    return [
        Release(app_id=AppId(app), key=AllocationKey(f"k{n:02}"), termination=why, message=message)
        for n in range(count)
    ]


def test_decisions_to_stop_are_logged(told: Told) -> None:
    """Victims are logged by the ask that needs them, placeholders by application and reason."""
    number = MAX_NAMED + 5
    releases = [
        *released(number, TerminationType.PREEMPTED_BY_SCHEDULER, "to run ask: x"),
        *released(2, TerminationType.TIMEOUT, "on placeholder timeout"),
        *released(3, TerminationType.PLACEHOLDER_REPLACED, "replacing allocationKey: y"),
        *released(1, TerminationType.STOPPED_BY_RM, "as wanted"),
    ]
    effect = AllocationsReleased(rm_id=RM, partition=PARTITION, releases=releases)
    update = ApplicationUpdate(
        app_id=AppId("app"), state="Failing", time=0.0, message="ResourceReservationTimeout"
    )
    deadlines, victims, stopped, replaced, gang = saw(
        told, effect, ApplicationsUpdated(rm_id=RM, updates=[update])
    )
    about = {"rm_id": RM, "partition": PARTITION}
    counts = {"preempted": number, "timed_out": 2, "replaced": 3, "released": 1}
    assert deadlines == {"event": "deadlines", "rm_id": RM, **counts, "state_changes": 1}
    keys = [f"k{n:02}" for n in range(number)]
    assert victims.items() >= {**about, "event": "victims stopped", "number": number}.items()
    assert (victims["reason"], victims["keys"]) == ("to run ask: x", keys[:MAX_NAMED])
    assert stopped.items() >= {**about, "event": "placeholders stopped", "number": 2}.items()
    assert (stopped["reason"], stopped["application"]) == ("on placeholder timeout", "app")
    assert replaced.items() >= {**about, "event": "placeholders replaced", "number": 3}.items()
    assert gang == {
        "event": "gang timed out",
        "rm_id": RM,
        "application": "app",
        "state": "Failing",
    }


def test_the_lines_of_one_effect_are_bounded(told: Told) -> None:
    """If many gangs time out at once, a bounded number has lines."""
    releases = [
        release
        for number in range(10 * MAX_LOGGED)
        for release in released(1, TerminationType.TIMEOUT, "late", f"app{number}")
    ]
    lines = saw(told, AllocationsReleased(rm_id=RM, partition=PARTITION, releases=releases))
    assert sum(line["event"] == "placeholders stopped" for line in lines) == MAX_LOGGED


def test_each_logger_can_be_enabled_separately(told: Told) -> None:
    """Each logger can be enabled separately; if none is, nothing is computed."""
    levels().set("core.scheduler", "info")
    assert not is_on()
    levels().set("core.scheduler.preemption", "debug")
    releases = [
        *released(1, TerminationType.PREEMPTED_BY_SCHEDULER, "to run ask: x"),
        *released(1, TerminationType.TIMEOUT, "late"),
    ]
    effect = AllocationsReleased(rm_id=RM, partition=PARTITION, releases=releases)
    assert [line["event"] for line in saw(told, effect)] == ["victims stopped"]


def test_counts_begin_with_the_first_logged_turn(told: Told) -> None:
    """Tries from before the first logged turn are not counted for that turn."""
    driver = told.driver
    levels().set("core.scheduler", "info")
    driver.do(
        builders.register(WIDE),
        builders.nodes(builders.node("n", vcore=100)),
        builders.apps(builders.app("app", "root.a")),
        builders.asks(*(builders.ask("app", f"k{n}", vcore=1) for n in range(50))),
    )
    assert told.take() == []
    levels().set("core.scheduler", "debug")
    driver.do(builders.asks(builders.ask("app", "one", vcore=1)))
    driver.do(builders.asks(builders.ask("app", "two", vcore=1)))
    first, second = [turn for turn in told.take("turn") if turn.get("allocated")]
    assert "tried" not in first
    assert second["tried"] == 1


def partitions(*names: str) -> str:
    """A configuration with these partitions."""
    queues = "queues: [{name: root, submitacl: '*', queues: [{name: a}]}]"
    return f"partitions: [{', '.join(f'{{name: {name}, {queues}}}' for name in names)}]"


def work(rm: str, *names: str) -> list[Command]:
    """Turns in all partitions of an RM, and an answer without a check."""
    commands: list[Command] = [
        builders.answering(AskedCheck(7, AppId("a"), AllocationKey("k"), True, []), rm=rm)
    ]
    for name in names:
        commands += [
            builders.nodes(builders.node(f"n-{name}", partition=name, vcore=8), rm=rm),
            builders.apps(builders.app(f"app-{name}", "root.a", partition=name), rm=rm),
            builders.asks(builders.ask(f"app-{name}", "k", vcore=1, partition=name), rm=rm),
        ]
    return commands


def test_nothing_is_stored_of_removed_objects(told: Told) -> None:
    """Removed partitions and RMs leave no state in the log."""
    driver, kept = told.driver, told.log.seen
    assert is_on()
    for rm in ("one", "two"):
        driver.do(builders.register(partitions("p", "q"), rm), *work(rm, "p", "q"))
    assert {rm: set(seen.partitions) for rm, seen in kept.items()} == {
        "one": {"[one]p", "[one]q"},
        "two": {"[two]p", "[two]q"},
    }
    driver.do(builders.reload(partitions("q"), "one"))
    assert set(kept[RmId("one")].partitions) == {"[one]q"}
    driver.do(RemoveRm(rm_id=RmId("one")), *work("one", "q"))
    driver.do(builders.register(partitions("q"), "two"))
    assert kept == {}


@pytest.mark.slow
def test_a_turn_examines_its_own_partition_only(told: Told) -> None:
    """The cost of a line does not depend on the RM's number of partitions."""
    names = [f"p{number}" for number in range(50)]
    levels().set("core.scheduler", "info")
    told.driver.do(builders.register(partitions(*names)), *work(RM, *names))
    levels().set("core.scheduler", "debug")
    told.driver.do(builders.asks(builders.ask("app-p7", "k2", vcore=1, partition="p7")))
    assert set(told.log.seen[RM].partitions) == {f"[{RM}]p7"}
