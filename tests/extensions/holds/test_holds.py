"""An operator holds an application, gives it another priority, or moves it to another queue."""

from dataclasses import replace

import pytest

from extensions.holds.building import MARK, change, hold
from extensions.stops.building import kill
from licorne_core.extensions.holds import NAME
from licorne_core.extensions.holds.messages import (
    ApplicationChanged,
    ApplicationHeld,
    ApplicationMarks,
    MarksEnded,
)
from licorne_core.handlers.turn import LOOK_TIME
from licorne_core.messages.commands import BeginReplay, EndReplay, NodeAction, PredicatePolicy
from licorne_core.messages.effects import Effect, OperatorRefusal, OperatorRefused
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, PartitionName, QueuePath, RmId
from licorne_core.values.slices import Tuning
from support.core.builders import (
    RM,
    answering,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    refusing,
    register,
    release,
    releases,
    remove_apps,
)
from support.core.driver import Driver, asked, heard, keys, messages, placed, released
from support.core.steps import last

DEFAULT = PartitionName("[rm1]default")
QUEUES = "[{name: a}, {name: b}, {name: up, queues: [{name: c, resources: {max: {vcore: 2}}}]}]"


def cluster(queues: str = QUEUES, predicates: PredicatePolicy | None = None, vcore: int = 10) -> Driver:
    """A node `n1`, a drained node `n2`, and the applications `app` and `other` in root.a."""
    driver = Driver()
    driver.do(register(config(queues), predicates=predicates), nodes(node("n1", vcore=vcore)))
    driver.do(nodes(node("n2", NodeAction.CREATE_DRAIN, vcore=10)))
    driver.do(apps(app("app", "root.a"), app("other", "root.a")))
    return driver


def held(effects: list[Effect]) -> tuple[bool, int, int]:
    """The answer to a hold: whether anything changed, and the numbers of asks and allocations."""
    (found,) = [effect for effect in effects if isinstance(effect, ApplicationHeld)]
    return found.changed, found.asks, found.allocations


def changed(effects: list[Effect]) -> tuple[bool, str, int | None]:
    """The answer to a change: whether anything changed, the queue, and the priority."""
    (found,) = [effect for effect in effects if isinstance(effect, ApplicationChanged)]
    return found.changed, found.queue, found.marks.priority


def refusal(effects: list[Effect]) -> tuple[OperatorRefusal, str]:
    """The reason for which the operator's command is refused."""
    (found,) = [effect for effect in effects if isinstance(effect, OperatorRefused)]
    return found.refusal, found.reason


def test_a_held_application_causes_no_packing() -> None:
    """The asks of a held application do not cause nodes to be packed, until it is resumed."""
    driver = cluster()
    driver.do(asks(ask("other", "runs", vcore=1)), asks(ask("app", "large", vcore=10)))

    def packs() -> bool:
        driver.wait(2 * LOOK_TIME)
        driver.wait(LOOK_TIME)
        return driver.partition.nodes.order.packs is not None

    assert packs()
    driver.do(hold("app"))
    assert not packs()
    driver.do(hold("app", held=False), asks(ask("app", "another", vcore=10)))
    assert packs()


def test_a_held_application_gets_no_allocation() -> None:
    """During a hold allocations continue and other applications are served; then the asks are placed."""
    driver = cluster()
    driver.do(asks(ask("app", "k1", vcore=4)))
    assert held(driver.do(hold("app"))) == (True, 0, 1)
    assert not placed(driver.do(asks(ask("app", "k2", vcore=4))))
    assert keys(driver.do(asks(ask("other", "k3", vcore=1)))) == ["k3"]
    assert held(driver.do(hold("app"))) == (False, 1, 1)
    assert keys(driver.do(hold("app", held=False))) == ["k2"]
    assert not released(driver.do(hold("app", held=False)))


def test_a_hold_is_sent_to_the_rm_and_as_an_event() -> None:
    """The update has the unchanged state, and a message with operator and reason."""
    driver = cluster()
    driver.do(asks(ask("app", "k1", vcore=4)))
    driver.facts.clear()
    assert messages(driver.do(hold("app"))) == [("Running", 'held by ann: "because"')]
    assert messages(driver.do(hold("app", held=False, mark=OperatorMark()))) == [
        ("Running", "resumed by an operator")
    ]
    assert heard(driver) == [
        'APP app SET APP_RUNNING: held by ann: "because"',
        "APP app SET APP_RUNNING: resumed by an operator",
    ]


def test_explain_names_the_operator_of_a_hold() -> None:
    """Explanations and the census of reasons have the code `APPLICATION_HELD`."""
    driver = cluster()
    driver.do(hold("app"), asks(ask("app", "k1", vcore=4)))
    report = driver.explain("app", "k1")
    assert report.summary == 'application app is held by ann: "because"'
    assert [check.code for check in report.checks if not check.passed] == ["APPLICATION_HELD"]
    assert last(driver.views.census(DEFAULT)).pending == {(QueuePath("root.a"), "APPLICATION_HELD"): 1}


def test_a_hold_ends_reservations() -> None:
    """A hold ends the reservation of a waiting ask, and another ask may use the node."""
    driver = cluster(vcore=4)
    driver.do(asks(ask("other", "small", vcore=2)), asks(ask("app", "large", vcore=4)))
    driver.wait(5)
    assert driver.node("n1").reserved == 1
    driver.do(hold("app"))
    assert driver.node("n1").reserved == 0
    driver.wait(60)
    assert driver.node("n1").reserved == 0
    assert keys(driver.do(asks(ask("other", "next", vcore=2)))) == ["next"]


def test_a_state_aware_queue_skips_a_held_application() -> None:
    """A state-aware queue starts the next application while the first is held."""
    driver = cluster("[{name: a, properties: {application.sort.policy: stateaware}}]")
    driver.do(hold("app"), asks(ask("app", "k1", vcore=1)))
    assert keys(driver.do(asks(ask("other", "o1", vcore=1)))) == ["o1"]


def test_an_ask_assumed_before_a_hold_is_allocated() -> None:
    """If the RM accepts the node, the ask is allocated during the hold; after a refusal the ask waits."""
    driver = cluster(predicates=PredicatePolicy(deadline=10))
    (first,) = asked(driver.do(asks(ask("app", "k1", vcore=1, predicate="p"))))
    driver.do(hold("app"))
    assert keys(driver.do(answering(first))) == ["k1"]
    driver.do(hold("app", held=False))
    (second,) = asked(driver.do(asks(ask("app", "k2", vcore=1, predicate="q"))))
    driver.do(hold("app"))
    assert not asked(driver.do(refusing(second)))
    assert driver.app("app").pending_count == 1


def test_a_held_real_ask_replaces_no_placeholder() -> None:
    """A hold blocks the replacement of a placeholder, while the timeout of the placeholders continues."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=2)))
    driver.do(apps(app("job", "root.a", gang={"vcore": 2})))
    driver.do(asks(ask("job", "p1", placeholder=True, group="g", vcore=1)), hold("job"))
    assert not placed(driver.do(asks(ask("job", "p2", placeholder=True, group="g", vcore=1))))
    assert not released(driver.do(asks(ask("job", "r1", group="g", vcore=1))))
    deadline = driver.app("job").placeholder_deadline
    assert [key for _, key, _, _ in released(driver.do(hold("job", held=False)))] == ["p1"]
    assert driver.app("job").placeholder_deadline == deadline


def test_marks_of_a_registration_apply_to_replayed_applications() -> None:
    """Queue and priorities in a replay do not undo hold, move and priority of an operator."""
    driver = cluster()
    mark = OperatorMark("ann", 5.0, "why")
    marks = ApplicationMarks(hold=mark, change=mark, priority=7, queue=QueuePath("root.b"))
    ended = ApplicationMarks(hold=mark)
    gone = [(DEFAULT, AppId(f"gone-{number}")) for number in range(8)]
    of = {(DEFAULT, AppId("app")): marks, **dict.fromkeys(gone, ended)}
    again = replace(register(config(QUEUES)), marks={"holds": of})
    driver.do(again, BeginReplay(rm_id=RmId(RM)), nodes(node("n1", vcore=10)), apps(app("app", "root.a")))
    driver.do(asks(ask("app", "k1", vcore=1, priority=1)))
    effects = driver.do(EndReplay(rm_id=RmId(RM), nodes=1, applications=1, allocations=1))
    assert [e.applications for e in effects if isinstance(e, MarksEnded)] == [gone]
    report = driver.app("app")
    assert (report.queue, report.hold, report.change, report.operator_priority) == ("root.b", mark, mark, 7)
    assert report.max_priority == 7
    assert not placed(effects)
    assert keys(driver.do(hold("app", held=False))) == ["k1"]


def test_an_application_can_be_resumed_before_its_replay() -> None:
    """Before the RM has replayed an application, an operator may end its hold, once."""
    driver = cluster()
    of = {(DEFAULT, AppId("late")): ApplicationMarks(hold=MARK)}
    again = replace(register(config(QUEUES)), marks={"holds": of})
    driver.do(again)
    assert held(driver.do(hold("late", held=False))) == (True, 0, 0)
    assert refusal(driver.do(hold("late", held=False)))[0] is OperatorRefusal.NOT_FOUND


@pytest.mark.parametrize("end", [kill("app"), remove_apps("app")], ids=["stopped", "removed"])
def test_marks_end_with_their_application(end: object) -> None:
    """A later application under the id of an ended one is not held."""
    driver = cluster()
    driver.do(hold("app"))
    effects = driver.do(end)  # type: ignore[arg-type]
    assert [e.applications for e in effects if isinstance(e, MarksEnded)] == [[(DEFAULT, AppId("app"))]]
    driver.do(apps(app("app", "root.a")))
    assert keys(driver.do(asks(ask("app", "k1", vcore=1)))) == ["k1"]


def test_a_priority_applies_to_present_and_future_asks() -> None:
    """An application precedes others of lower priority, until a reset restores the priorities of its asks."""
    driver = cluster(vcore=2)
    driver.do(asks(ask("other", "full", vcore=2)))
    driver.do(asks(ask("other", "o1", vcore=1, priority=5)), asks(ask("app", "k1", vcore=1)))
    effects = driver.do(change("app", priority=9))
    assert changed(effects) == (True, "root.a", 9)
    assert messages(effects) == [("Accepted", 'priority of all asks is 9, set by ann: "because"')]
    assert changed(driver.do(change("app", priority=9)))[0] is False
    driver.do(asks(ask("app", "k2", vcore=1, priority=1)))
    assert keys(driver.do(releases(release("other", "full")))) == ["k1", "k2"]
    driver.do(asks(ask("app", "k3", vcore=1, priority=1)))
    assert changed(driver.do(change("app", reset=True))) == (True, "root.a", None)
    assert keys(driver.do(releases(release("app", "k1")))) == ["o1"]
    assert driver.app("app").change is None


@pytest.fixture
def unfair() -> Driver:
    """A node of 4 cores, filled by the applications `cheap` and `rich`; root.poor is guaranteed 4 cores."""
    driver = Driver()
    queues = (
        "[{name: poor, resources: {guaranteed: {vcore: 4}}, "
        "properties: {preemption.delay: 1s}}, {name: rich}]"
    )
    driver.do(register(config(queues)), nodes(node("n1", vcore=4)))
    driver.do(apps(app("cheap", "root.rich"), app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(ask("cheap", "old", vcore=2, policy="s")))
    driver.wait(1)
    driver.do(asks(ask("rich", "young", vcore=2, policy="s")))
    return driver


def test_a_priority_set_by_an_operator_protects_an_allocation(unfair: Driver) -> None:
    """The youngest allocation is not a victim if its application has a higher priority than the ask."""
    unfair.do(change("rich", priority=5))
    ((app_id, _, why, _),) = released(
        unfair.do(asks(ask("poor", "k", vcore=2, policy="o"))) + unfair.wait(40)
    )
    assert (app_id, why) == ("cheap", "PREEMPTED_BY_SCHEDULER")


def test_a_reset_priority_causes_another_search_for_victims(unfair: Driver) -> None:
    """A search that failed because of a priority is repeated once the priority is reset."""
    unfair.do(change("rich", priority=5), change("cheap", priority=5))
    assert not released(unfair.do(asks(ask("poor", "k", vcore=2, policy="o"))) + unfair.wait(40))
    ((app_id, _, _, _),) = released(unfair.do(change("rich", reset=True)) + unfair.wait(40))
    assert app_id == "rich"


def test_a_change_of_priority_keeps_a_reservation() -> None:
    """The ask of a reservation keeps its node when its priority changes."""
    driver = cluster(vcore=4)
    driver.do(asks(ask("other", "small", vcore=2)), asks(ask("app", "large", vcore=4)))
    driver.wait(5)
    driver.do(change("app", priority=3))
    (reservation,) = driver.views.first_reservations(DEFAULT, "n1", 2)
    assert reservation.key == "large"
    assert keys(driver.do(releases(release("other", "small")))) == ["large"]


def test_a_moved_application_waits_in_its_new_queue() -> None:
    """A moved application counts and waits in its new queue, and the RM is notified."""
    driver = cluster(vcore=2)
    driver.do(asks(ask("other", "full", vcore=2)), asks(ask("app", "k1", vcore=1), ask("app", "k2", vcore=1)))
    driver.facts.clear()
    effects = driver.do(change("app", queue="root.up.c"))
    assert changed(effects) == (True, "root.up.c", None)
    assert messages(effects) == [("Accepted", 'moved from root.a to root.up.c by ann: "because"')]
    assert [line for line in heard(driver) if line.startswith("QUEUE")] == [
        "QUEUE root.a REMOVE QUEUE_APP app",
        "QUEUE root.up.c ADD QUEUE_APP app",
    ]
    assert driver.queue("root.a").pending == {}
    assert driver.queue("root.up").pending == {"vcore": 2}
    assert keys(driver.do(releases(release("other", "full")))) == ["k1", "k2"]
    assert driver.queue("root.up.c").allocated == {"vcore": 2}


def test_a_refused_move_changes_nothing() -> None:
    """Each refusal of a move has a reason, and no part of the command takes effect."""
    fair = "{name: fair, properties: {application.sort.policy: fair}}"
    driver = cluster(f"[{{name: a}}, {{name: b}}, {{name: up, queues: [{fair}]}}]")
    recovered = app("forced", "nowhere", tags={"application.create.force": "true"})
    driver.do(asks(ask("app", "k1", vcore=1)), apps(app("job", "root.a", gang={"vcore": 2}), recovered))
    for name, queue, kind, reason in (
        ("app", "root.b", "NOT_POSSIBLE", "application app has 1 allocations, or asks with a node"),
        ("other", "root.up", "NOT_POSSIBLE", "queue root.up is no leaf"),
        ("other", "root.@recovery@", "NOT_POSSIBLE", "is for recovered applications only"),
        ("other", "root.x", "NOT_FOUND", "queue root.x not found in partition [rm1]default"),
        ("job", "root.up.fair", "NOT_POSSIBLE", "unsupported sort type"),
        ("nobody", "root.b", "NOT_FOUND", "application nobody not found in partition [rm1]default"),
    ):
        found, text = refusal(driver.do(change(name, queue=queue, priority=3)))
        assert (found.name, text.endswith(reason)) == (kind, True), text
    assert driver.app("app").operator_priority is None


def test_a_moved_running_application_counts_in_its_new_leaf() -> None:
    """A running application counts even without allocations: a queue or limit at its maximum refuses it."""
    limited = "limits: [{limit: '', users: ['ann'], maxapplications: 1}]"
    driver = cluster(f"[{{name: a}}, {{name: b, maxapplications: 1}}, {{name: c, {limited}}}, {{name: d}}]")
    driver.do(apps(app("b", "root.b"), app("c", "root.c")))
    driver.do(asks(ask("b", "b1", vcore=1)), asks(ask("c", "c1", vcore=1)))
    driver.do(asks(ask("app", "k1", vcore=1)), asks(ask("app", "wide", vcore=100)))
    driver.do(releases(release("app", "k1")))
    assert driver.app("app").state == "Running"
    assert "runs 1 applications already" in refusal(driver.do(change("app", queue="root.b")))[1]
    assert "user ann runs 1 applications" in refusal(driver.do(change("app", queue="root.c")))[1]
    assert changed(driver.do(change("app", queue="root.d")))[1] == "root.d"


def test_large_changes_are_done_in_slices() -> None:
    """Nothing is scheduled between the slices, and the answer follows the last one."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(config(QUEUES)), nodes(node("n1", vcore=1)), apps(app("app", "root.a")))
    driver.do(asks(*(ask("app", f"k{i}", vcore=4, priority=i) for i in range(4))))
    for command in (change("app", priority=2, queue="root.b"), hold("app")):
        effects, slices = driver.begin(command), 1
        while (rest := driver.rest) is not None:
            effects += driver.begin(rest)
            slices += 1
        assert slices > 1
        assert any(isinstance(one, ApplicationChanged | ApplicationHeld) for one in effects)


def test_a_failing_application_cannot_be_changed() -> None:
    """An application that an operator has killed, and whose end is pending, cannot be changed."""
    driver = cluster()
    driver.do(asks(ask("app", "k1", vcore=1)), kill("app"))
    for command in (hold("app"), change("app", priority=1)):
        assert refusal(driver.do(command)) == (
            OperatorRefusal.APPLICATION_OVER,
            "application app is over: it is Failing",
        )


def test_the_recount_compares_interests_with_marks() -> None:
    """The recount compares interests with marks, in both directions."""
    driver = cluster()
    partition = driver.partition
    own = partition.points.named(NAME)
    own.recount(partition.applications, settled=True)
    partition.applications[AppId("app")].held = MARK
    with pytest.raises(InvariantBroken):
        own.recount(partition.applications, settled=True)
