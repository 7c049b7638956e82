"""An operator stops a queue: no ask in it or below is tried, and allocations continue (spec § 4.2)."""

import pytest

from extensions.queue_stops.building import start, stop
from extensions.stops.building import kill
from licorne_core.extensions.queue_stops.messages import QueueStoppedSet
from licorne_core.messages.commands import NodeAction, PredicatePolicy, TerminationType
from licorne_core.messages.effects import Effect, OperatorRefusal, OperatorRefused
from licorne_core.values.ids import PartitionName
from licorne_core.values.slices import Tuning
from support.core.builders import (
    answering,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, asked, keys, placed, preempted, refused_apps, released
from support.core.steps import listed

DEFAULT = PartitionName("[rm1]default")
QUEUES = "[{name: up, queues: [{name: a}, {name: b}]}, {name: c}]"


def cluster(
    predicates: PredicatePolicy | None = None, rest: str = "", tuning: Tuning | None = None
) -> Driver:
    """A node of 10 cores, and in each leaf an application with the name of the leaf."""
    driver = Driver(tuning=tuning)
    driver.do(register(config(QUEUES, rest=rest), predicates=predicates))
    driver.do(nodes(node("n1", vcore=10)))
    driver.do(apps(app("a", "root.up.a"), app("b", "root.up.b"), app("c", "root.c")))
    return driver


def outcome(effects: list[Effect]) -> QueueStoppedSet:
    """The answer that the operator receives."""
    (found,) = [effect for effect in effects if isinstance(effect, QueueStoppedSet)]
    return found


STOPPED = {
    "root.up.a": ["k-b", "k-c"],
    "root.up": ["k-c"],
    "root.c": ["k-a", "k-b"],
    "root": [],
}
"""Asks that are placed although a queue is stopped."""


@pytest.mark.parametrize("queue", STOPPED)
def test_a_stopped_queue_has_no_new_allocation_until_its_start(queue: str) -> None:
    """Asks in other queues are placed; asks in the stopped queue are placed after its start."""
    driver = cluster()
    assert outcome(driver.do(stop(queue))).state == "Stopped"
    made = driver.do(asks(*(ask(leaf, f"k-{leaf}", vcore=1) for leaf in "abc")))
    assert sorted(keys(made)) == STOPPED[queue]
    late = driver.do(start(queue))
    assert outcome(late).state == "Active"
    assert sorted(keys(late)) == sorted({"k-a", "k-b", "k-c"} - set(STOPPED[queue]))


def test_allocations_in_a_stopped_queue_continue() -> None:
    """A stop of a queue releases no allocation."""
    driver = cluster()
    driver.do(asks(ask("a", "k", vcore=3)))
    assert released(driver.do(stop("root.up"))) == []
    assert driver.queue("root.up.a").allocated == {"vcore": 3}


def test_a_second_stop_changes_nothing() -> None:
    """A second stop changes nothing, and neither does the start of an active queue."""
    driver = cluster()
    assert outcome(driver.do(stop("root.c"))).changed
    assert not outcome(driver.do(stop("ROOT.C"))).changed
    assert outcome(driver.do(start("root.c"))).changed
    assert not outcome(driver.do(start("root.c"))).changed


def test_a_stopped_queue_accepts_no_application() -> None:
    """The rejection names the stopped queue, which may be a parent of the leaf."""
    driver = cluster()
    driver.do(stop("root.up"))
    told = refused_apps(driver.do(apps(app("new", "root.up.a"))))
    wanted = "failed to place application new: application rejected: queue root.up is stopped"
    assert told == {"new": wanted}
    driver.do(start("root.up"))
    assert not refused_apps(driver.do(apps(app("new", "root.up.a"))))


def test_no_queue_is_created_below_a_stopped_queue() -> None:
    """An application is rejected if a placement rule would create its queue below a stopped one."""
    driver = cluster(rest="placementrules: [{name: provided, create: true}]")
    driver.do(stop("root"))
    told = refused_apps(driver.do(apps(app("new", "root.fresh"))))
    assert told["new"].endswith("cannot add a child queue when queue is stopped: root")


def test_room_freed_during_a_stop_is_used_after_the_start() -> None:
    """Room that became free during a stop serves waiting asks at the start."""
    driver = cluster()
    driver.do(asks(ask("c", "full", vcore=10)), asks(ask("a", "k", vcore=4)))
    driver.do(stop("root.up.a"), releases(release("c", "full")))
    assert keys(driver.do(start("root.up.a"))) == ["k"]


def test_explain_names_the_operator_of_a_stop() -> None:
    """The only failed check has the code `QUEUE_STOPPED`, and the summary names the stopped queue."""
    driver = cluster()
    driver.do(stop("root.up"), asks(ask("a", "k", vcore=1)))
    report = driver.explain("a", "k")
    assert report.summary == "queue root.up is stopped by an operator"
    assert [check.code for check in report.checks if not check.passed] == ["QUEUE_STOPPED"]


def test_an_answer_about_an_ask_in_a_stopped_queue_has_no_effect() -> None:
    """The answer to a check sent before the stop places nothing; after the start the RM is asked again."""
    driver = cluster(PredicatePolicy(deadline=10))
    (check,) = asked(driver.do(asks(ask("a", "k", vcore=1, predicate="p"))))
    driver.do(stop("root.up"))
    assert not placed(driver.do(answering(check)))
    (again,) = asked(driver.do(start("root.up")))
    assert keys(driver.do(answering(again))) == ["k"]


def test_reservations_in_a_stopped_queue_end() -> None:
    """A stop ends the reservations of asks in the queue."""
    driver = cluster()
    driver.do(nodes(node("n2", NodeAction.CREATE_DRAIN, vcore=10)))
    driver.do(asks(ask("c", "first", vcore=6)), asks(ask("a", "large", vcore=8)))
    driver.wait(5)
    assert [kept.key for kept in listed(driver.views.reservations(DEFAULT))] == ["large"]
    driver.do(stop("root.up"))
    assert not list(listed(driver.views.reservations(DEFAULT)))
    assert keys(driver.do(asks(ask("c", "small", vcore=2)))) == ["small"]


def test_requested_stops_of_placeholders_are_completed() -> None:
    """A replacement requested before the stop is completed; no other begins before the start."""
    driver = cluster()
    driver.do(apps(app("job", "root.up.b", gang={"vcore": 2})))
    holders = (ask("job", f"p{i}", placeholder=True, group="g", vcore=1) for i in (1, 2))
    driver.do(asks(*holders))
    driver.do(asks(ask("job", "r1", group="g", vcore=1)))
    driver.do(stop("root.up"))
    assert released(driver.do(asks(ask("job", "r2", group="g", vcore=1)))) == []
    why = TerminationType.PLACEHOLDER_REPLACED
    assert keys(driver.do(releases(release("job", "p1", why=why)))) == ["r1"]
    ((_, key, _, _),) = released(driver.do(start("root.up")))
    assert key == "p2"


def test_victims_in_a_stopped_queue_are_still_stopped() -> None:
    """The ask that preempts allocations of a stopped queue is placed in their room."""
    driver, victim = preempted(rich_asks=2)
    driver.do(stop("root.rich"))
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    assert keys(driver.do(releases(release("rich", victim, why=why)))) == ["k"]


def test_an_ask_in_a_stopped_queue_loses_its_promise() -> None:
    """When the queue of the preempting ask is stopped, any ask may use the room of its victims."""
    driver, victim = preempted(rich_asks=3)
    driver.do(stop("root.poor"))
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    assert keys(driver.do(releases(release("rich", victim, why=why)))) == ["v2"]


def test_a_reload_does_not_start_a_stopped_queue() -> None:
    """After a reload a stopped queue is still stopped, until an operator starts it."""
    driver = cluster()
    driver.do(stop("root.up"), asks(ask("a", "k", vcore=1)))
    assert not placed(driver.do(reload(config(QUEUES.replace("{name: c}", "{name: d}")))))
    assert driver.queue("root.up").state == "Stopped"
    assert keys(driver.do(start("root.up"))) == ["k"]


def test_a_draining_queue_is_neither_stopped_nor_started() -> None:
    """The stop and the start of a draining queue are refused, with a reason."""
    driver = cluster()
    driver.do(stop("root.up"), reload(config("[{name: c}]")))
    assert driver.queue("root.up").state == "Draining"
    told = driver.do(stop("root.up"), start("root.up"), stop("root.nowhere"))
    found = [effect for effect in told if isinstance(effect, OperatorRefused)]
    draining = "queue root.up is draining, because it is no longer configured"
    assert [(one.refusal, one.reason) for one in found] == [
        (OperatorRefusal.QUEUE_DRAINING, draining),
        (OperatorRefusal.QUEUE_DRAINING, draining),
        (OperatorRefusal.NOT_FOUND, "queue root.nowhere not found in partition [rm1]default"),
    ]


def test_a_large_queue_is_stopped_in_slices() -> None:
    """The stop of a queue with many queues below takes several slices, after which the queue is stopped."""
    driver = cluster(tuning=Tuning(slice_size=1))
    driver.do(asks(ask("c", "full", vcore=10)), *(asks(ask(leaf, leaf, vcore=1)) for leaf in "ab"))
    driver.begin(stop("root"))
    slices = 1
    while driver.rest is not None:
        slices += 1
        driver.begin(driver.rest)
    assert slices > 3
    assert driver.queue("root").state == "Stopped"


def test_an_application_in_a_stopped_queue_can_be_killed() -> None:
    """The asks of a killed application in a stopped queue are removed, and none is placed after the start."""
    driver = cluster()
    driver.do(stop("root.up"), asks(ask("a", "k", vcore=1)), kill("a"))
    assert not placed(driver.do(start("root.up")))
    assert driver.queue("root.up").pending == {}
