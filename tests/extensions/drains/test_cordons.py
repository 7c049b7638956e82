"""An operator cordons a node: a mark separate from the RM's own drain of the node."""

from dataclasses import replace

from extensions.drains.building import cordon
from extensions.queue_stops.building import start, stop
from licorne_core.extensions.drains.messages import Cordon, NodeSchedulableSet
from licorne_core.messages.commands import NodeAction, PredicatePolicy
from licorne_core.messages.effects import Effect, OperatorRefusal, OperatorRefused
from licorne_core.messages.operators import Marks, OperatorMark
from licorne_core.values.ids import NodeId, PartitionName, QueuePath
from support.core.builders import answering, app, apps, ask, asks, config, node, nodes, register, reload
from support.core.driver import Driver, asked, heard, placed
from support.core.steps import listed

DEFAULT = PartitionName("[rm1]default")
ANN = OperatorMark(by="ann", time=1_700_000_000.0, message="disk")


def cluster(predicates: PredicatePolicy | None = None, reservations: bool = True) -> Driver:
    """Nodes n1 and n2 of 10, and the application `app`."""
    driver = Driver(reservations=reservations)
    driver.do(register(config("[{name: a}]"), predicates=predicates))
    driver.do(nodes(node("n1", vcore=10), node("n2", vcore=10)), apps(app("app", "root.a")))
    return driver


def outcome(effects: list[Effect]) -> NodeSchedulableSet:
    """The answer that the operator receives."""
    (found,) = [effect for effect in effects if isinstance(effect, NodeSchedulableSet)]
    return found


def schedulable(driver: Driver, node_id: str = "n1") -> bool:
    """Whether new allocations may be placed on the node."""
    return driver.node(node_id).schedulable


def test_a_cordoned_node_gets_no_allocation() -> None:
    """Allocations on a cordoned node continue, and waiting asks are placed there after the cordon."""
    driver = cluster()
    driver.do(asks(ask("app", "k1", vcore=6)))
    effects = driver.do(cordon("n1"), cordon("n2"))
    (first, second) = [e for e in effects if isinstance(e, NodeSchedulableSet)]
    assert (first.changed, first.allocations + second.allocations) == (True, 1)
    assert not placed(driver.do(asks(ask("app", "k2", vcore=1))))
    assert [key for _, key, _ in placed(driver.do(cordon("n1", schedulable=True)))] == ["k2"]


def test_a_second_cordon_changes_nothing() -> None:
    """The answer to a second cordon of a node reports no change, and no event is sent."""
    driver = cluster()
    assert outcome(driver.do(cordon("n1"))).changed
    driver.facts.clear()
    assert not outcome(driver.do(cordon("n1"))).changed
    assert driver.facts == []


def test_a_node_is_schedulable_if_rm_and_operator_allow_it() -> None:
    """A node is schedulable only if the RM and the operator both allow it, in any order of requests."""
    driver = cluster()
    driver.do(nodes(node("n1", NodeAction.DRAIN_NODE)), cordon("n1"))
    assert not schedulable(driver)
    driver.do(nodes(node("n1", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert not schedulable(driver), "the operator still has it drained"
    driver.do(nodes(node("n1", NodeAction.DRAIN_NODE)), cordon("n1", schedulable=True))
    assert not schedulable(driver), "the RM still has it drained"
    driver.do(nodes(node("n1", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert schedulable(driver)


def test_a_cordon_has_events() -> None:
    """A cordon and its end cause one event each, as for a drain by the RM."""
    driver = cluster()
    driver.facts.clear()
    driver.do(cordon("n1"), cordon("n1", schedulable=True))
    assert heard(driver) == [
        "NODE n1 SET NODE_SCHEDULABLE: schedulable: false",
        "NODE n1 SET DETAILS_NONE: cordoned by an operator",
        "NODE n1 SET NODE_SCHEDULABLE: schedulable: true",
        "NODE n1 SET DETAILS_NONE: uncordoned by an operator",
    ]


def test_a_cordon_outlives_its_node() -> None:
    """A node that is removed and created again is cordoned, until an operator uncordons it."""
    driver = cluster()
    driver.do(cordon("n1"), nodes(node("n1", NodeAction.DECOMISSION), node("n1", vcore=10)))
    assert not schedulable(driver)
    driver.do(nodes(node("n1", NodeAction.DECOMISSION)))
    driver.do(cordon("n1", schedulable=True), nodes(node("n1", vcore=10)))
    assert schedulable(driver)


def test_a_registration_restores_the_marks_of_operators() -> None:
    """With the marks in a registration, the node is cordoned and the queue is stopped from the start."""
    driver = cluster()
    marks: Marks = {
        "drains": {(DEFAULT, NodeId("n1")): Cordon(mark=ANN)},
        "queue_stops": {(DEFAULT, QueuePath("root.a")): ANN},
    }
    driver.do(replace(register(config("[{name: a}]")), marks=marks), nodes(node("n1", vcore=10)))
    assert not schedulable(driver)
    assert driver.node("n1").closed == ANN
    queue = driver.queue("root.a")
    assert (queue.state, queue.stop) == ("Stopped", ANN)
    driver.do(start("root.a"), cordon("n1", schedulable=True))
    assert schedulable(driver)
    queue = driver.queue("root.a")
    assert (queue.state, queue.stop) == ("Active", None)


def test_explain_names_the_operator_of_a_cordon() -> None:
    """An explanation has operator and reason of a cordon; nodes drained by the RM are counted separately."""
    driver = cluster()
    driver.do(replace(cordon("n1"), mark=ANN), nodes(node("n2", NodeAction.DRAIN_NODE)))
    driver.do(asks(ask("app", "k", vcore=1)))
    report = driver.explain("app", "k")
    assert report.summary == 'fits on none of 2 nodes: 1 cordoned (n1 by ann: "disk"), 1 unschedulable'
    assert driver.node("n1").closed
    assert not driver.node("n2").closed


def test_a_cordon_rolls_back_assumed_asks() -> None:
    """The late answer of the RM about a cordoned node places nothing there, and the ask is pending again."""
    driver = cluster(PredicatePolicy(deadline=10.0), reservations=False)
    driver.do(cordon("n2"))
    (check,) = asked(driver.do(asks(ask("app", "k", vcore=3, predicate="p"))))
    assert check.nodes[0] == "n1"
    driver.do(cordon("n1"))
    assert not placed(driver.do(answering(check)))
    checks = asked(driver.do(cordon("n2", schedulable=True)))
    assert [one.nodes[0] for one in checks] == ["n2"]
    assert placed(driver.do(answering(checks[0]))) == [("app", "k", "n2")]


def test_a_cordon_ends_the_reservation_of_its_node() -> None:
    """The ask of the reservation is placed on another node as soon as that has room."""
    driver = cluster()
    driver.do(cordon("n2"), asks(ask("app", "small", vcore=5)))
    driver.do(asks(ask("app", "large", vcore=8)))
    driver.wait(5)
    (reservation,) = driver.views.first_reservations(DEFAULT, "n1", 2)
    assert reservation.key == "large"
    driver.do(cordon("n1"))
    assert driver.node("n1").reserved == 0
    assert placed(driver.do(cordon("n2", schedulable=True))) == [("app", "large", "n2")]


def test_asks_that_require_a_cordoned_node_are_placed_there() -> None:
    """A daemon is placed on its required node although that is cordoned (spec § 7.7)."""
    driver = cluster()
    driver.do(cordon("n1"))
    wanted = asks(ask("app", "daemon", vcore=1, required_node="n1"))
    driver.do(wanted)
    driver.wait(5)
    held = listed(driver.views.allocations_on(DEFAULT, NodeId("n1")))
    assert [allocation.key for allocation, *_ in held] == ["daemon"]


def test_an_unknown_node_is_refused() -> None:
    """An unknown node, or a node of an unknown partition, is refused by name."""
    driver = cluster()
    refused = [
        effect
        for effect in driver.do(cordon("n9"), cordon("n1", partition="other"))
        if isinstance(effect, OperatorRefused)
    ]
    assert [one.refusal for one in refused] == [OperatorRefusal.NOT_FOUND] * 2
    assert [one.reason for one in refused] == [
        "node n9 not found in partition [rm1]default",
        "partition [rm1]other not found",
    ]


def test_a_partition_that_is_added_again_has_its_cordons_and_stops() -> None:
    """A partition that was removed and added again has the cordons and stops in force at its removal."""
    both = config("[{name: a}]") + "  - name: second\n    queues: [{name: root, queues: [{name: a}]}]\n"
    second = PartitionName("[rm1]second")
    place = {(second, NodeId("n2")): Cordon(mark=ANN)}
    driver = Driver()
    driver.do(replace(register(both), marks={"drains": place}))
    there = nodes(node("n1", vcore=1, partition="second"), node("n2", vcore=1, partition="second"))
    driver.do(there, cordon("n1", partition="second"), cordon("n2", schedulable=True, partition="second"))
    driver.do(stop("root.a", partition="second"))
    driver.do(reload(config("[{name: a}]")), reload(both), there)
    found = [driver.views.node(second, NodeId(node_id)).closed is not None for node_id in ("n1", "n2")]
    assert (found, driver.views.queue(second, "root.a").state) == ([True, False], "Stopped")
