"""An operator drains a node: its allocations are stopped evenly until a deadline."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from extensions.drains.building import cordon, drain
from extensions.holds.building import change
from licorne_core.extensions.drains import NAME
from licorne_core.extensions.drains.extension import Drains
from licorne_core.extensions.drains.messages import Cordon, NodeDrainBegun
from licorne_core.extensions.drains.reports import DrainReport
from licorne_core.messages.commands import BeginReplay, EndReplay, NodeAction, RegisterRm
from licorne_core.messages.effects import Effect, OperatorRefused
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import NodeId, PartitionName, RmId
from licorne_core.values.timers import Due, Timer
from support.core.builders import RM, app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver, heard, placed, released

DEFAULT = PartitionName("[rm1]default")
ANN = OperatorMark(by="ann", time=START, message="disk")
CONFIG = config("[{name: a}]")


def cluster(*on_node: str, config: RegisterRm | None = None) -> Driver:
    """Node n1 of 10 cores with an allocation for each key; a leading digit is its priority, such as `5k`."""
    driver = Driver()
    driver.do(config or register(CONFIG), nodes(node("n1", vcore=10)), apps(app("app", "root.a")))
    for key in on_node:
        driver.do(asks(ask("app", key, priority=int(key[:-1] or 0), vcore=1)))
        driver.wait(1)
    return driver


def stopped(effects: Iterable[Effect]) -> list[str]:
    """The keys that the RM is asked to stop."""
    return [key for _, key, _, _ in released(effects)]


def progress(driver: Driver) -> DrainReport:
    """The progress of the drain of n1."""
    report = driver.node("n1").extended["drain"]
    assert isinstance(report, DrainReport)
    return report


def confirm(driver: Driver, *keys: str) -> list[Effect]:
    """Confirm the stops in place of the RM."""
    return driver.do(releases(*(release("app", key) for key in keys)))


def test_a_deadline_of_zero_stops_all_allocations_at_once() -> None:
    """All stops are requested in one turn: lowest priority first, then the youngest."""
    driver = cluster("5a", "1b", "1c", "3d")
    effects = driver.do(drain("n1"))
    (begun,) = [effect for effect in effects if isinstance(effect, NodeDrainBegun)]
    assert (begun.terms.allocations, begun.exempt) == (4, 0)
    text = "preempting allocations to drain node: n1"
    assert released(effects) == [
        ("app", key, "PREEMPTED_BY_SCHEDULER", text) for key in ("1c", "1b", "3d", "5a")
    ]


def test_a_drain_without_a_deadline_stops_nothing() -> None:
    """A drain without a deadline stops nothing, admits nothing, and ends with the last allocation."""
    driver = cluster("a", "b")
    (begun,) = [e for e in driver.do(drain("n1", None)) if isinstance(e, NodeDrainBegun)]
    assert (begun.terms.deadline, begun.terms.allocations) == (None, 2)
    assert stopped(driver.wait(10**6)) == []
    assert placed(driver.do(asks(ask("app", "new", vcore=1)))) == []
    assert stopped(driver.do(asks(ask("app", "late", on_node="n1", vcore=1)))) == []
    assert (progress(driver).deadline, progress(driver).remaining, progress(driver).stopping) == (0, 3, 0)
    confirm(driver, "a", "b", "late")
    assert (progress(driver).remaining, progress(driver).allocations) == (0, 2)


def test_a_drain_uses_the_priority_of_an_operator() -> None:
    """A raised application keeps its allocations longest, whatever the priorities of its asks."""
    driver = cluster("1a", "1b")
    driver.do(apps(app("late", "root.a")), asks(ask("late", "low", priority=0, vcore=1)))
    driver.do(change("late", priority=7))
    assert stopped(driver.do(drain("n1"))) == ["1b", "1a", "low"]


def test_allocations_are_stopped_evenly() -> None:
    """With four allocations and 40 s, one is stopped every 10 s, beginning at once, and none twice."""
    driver = cluster("a", "b", "c", "d")
    told = [stopped(driver.do(drain("n1", 40)))]
    told += [stopped(driver.wait(10)) for _ in range(5)]
    assert told == [["d"], ["c"], ["b"], ["a"], [], []]
    report = progress(driver)
    assert (report.allocations, report.remaining, report.stopping) == (4, 4, 4)
    assert (report.start_time, report.deadline) == (START + 4, START + 44)


def test_allocations_that_end_by_themselves_spare_others() -> None:
    """While allocations end fast enough by themselves, no further one is stopped."""
    driver = cluster("a", "b", "c", "d")
    assert stopped(driver.do(drain("n1", 40))) == ["d"]
    confirm(driver, "d", "b", "a")
    assert stopped(driver.wait(29)) == []
    assert stopped(driver.wait(1)) == ["c"]


def test_a_drain_ends_with_the_last_allocation() -> None:
    """After the last end the node is cordoned, and the drain is reported as done until it is uncordoned."""
    driver = cluster("a")
    driver.do(replace(drain("n1"), mark=ANN))
    confirm(driver, "a")
    report = driver.node("n1")
    assert report.closed == ANN
    assert (progress(driver).remaining, progress(driver).allocations) == (0, 1)
    driver.do(cordon("n1", schedulable=True))
    report = driver.node("n1")
    assert (report.schedulable, report.closed, report.extended["drain"]) == (True, None, None)


def test_an_uncordon_ends_a_drain() -> None:
    """After an uncordon, allocations without a requested stop continue, and new asks are placed."""
    driver = cluster("a", "b", "c", "d")
    driver.do(drain("n1", 40), cordon("n1", schedulable=True))
    assert stopped(driver.wait(100)) == []
    assert placed(driver.do(asks(ask("app", "new", vcore=1)))) == [("app", "new", "n1")]


def test_a_cordon_does_not_end_a_drain() -> None:
    """A cordon of a node that is being drained changes nothing, and the node keeps the mark of its drain."""
    driver = cluster("a", "b")
    driver.do(replace(drain("n1", 20), mark=ANN), cordon("n1"))
    assert stopped(driver.wait(10)) == ["a"]
    assert driver.node("n1").closed == ANN


def test_a_second_drain_replaces_the_first() -> None:
    """An earlier deadline of a second drain applies to the remaining allocations."""
    driver = cluster("a", "b", "c", "d")
    driver.do(drain("n1", 4000))
    assert stopped(driver.do(drain("n1"))) == ["c", "b", "a"]


def test_a_drain_may_gain_and_lose_a_deadline() -> None:
    """When a drain without a deadline replaces a drain with one, no more stops are requested."""
    driver = cluster("a", "b", "c", "d")
    driver.do(drain("n1", None))
    assert stopped(driver.do(drain("n1", 40))) == ["d"]
    driver.do(drain("n1", None))
    assert stopped(driver.wait(100)) == []
    assert stopped(driver.do(drain("n1"))) == ["c", "b", "a"]


def test_exempt_allocations_are_not_stopped() -> None:
    """Foreign allocations and those of asks that require the node are exempt, and counted."""
    driver = cluster("a")
    driver.do(asks(ask("app", "daemon", required_node="n1", vcore=1)))
    driver.do(asks(replace(ask("", "other", on_node="n1", vcore=1), tags={"foreign": "default"})))
    assert stopped(driver.do(drain("n1"))) == ["a"]
    report = progress(driver)
    assert (report.allocations, report.remaining, report.exempt) == (1, 1, 2)


def test_placeholders_are_stopped_first() -> None:
    """Placeholders are stopped first; allocations that opted out of preemption, and originators, last."""
    driver = cluster()
    for one in (
        ask("app", "9a", priority=9, vcore=1),
        ask("app", "driver", vcore=1),
        ask("app", "kept", vcore=1),
        ask("app", "p", priority=9, placeholder=True, group="g", vcore=1),
    ):
        key = one.key
        driver.do(asks(replace(one, originator=key == "driver", allow_preempt_self=key != "kept")))
    assert stopped(driver.do(drain("n1"))) == ["p", "9a", "driver", "kept"]


def test_an_allocation_added_to_a_node_after_its_deadline_is_stopped() -> None:
    """An allocation that the RM adds to a drained node after the deadline is stopped at once."""
    driver = cluster("a")
    driver.do(drain("n1"))
    assert stopped(driver.do(asks(ask("app", "late", on_node="n1", vcore=1)))) == ["late"]


def test_a_drain_outlives_a_registration() -> None:
    """A registration restores deadline and start of a drain, which continues after the replay."""
    driver = cluster("a", "b", "c", "d")
    (begun,) = [e for e in driver.do(drain("n1", 40)) if isinstance(e, NodeDrainBegun)]
    there = {(DEFAULT, NodeId("n1")): Cordon(mark=ANN, drain=begun.terms)}
    driver.do(replace(register(CONFIG), marks={"drains": there}), BeginReplay(rm_id=RmId(RM)))
    driver.do(nodes(node("n1", vcore=10)), apps(app("app", "root.a")))
    running = [ask("app", key, created=START + n, on_node="n1", vcore=1) for n, key in enumerate("abcd")]
    assert stopped(driver.do(asks(*running))) == []
    driver.wait(15)
    end = EndReplay(rm_id=RmId(RM), nodes=1, applications=1, allocations=4)
    driver.do(end)
    assert stopped(driver.wait(1)) == ["d", "c"]
    assert stopped(driver.wait(10)) == ["b"]
    assert progress(driver).allocations == 4


def test_a_returning_node_is_still_drained() -> None:
    """Only an operator ends a drain: if its node is removed and added again, the drain continues."""
    driver = cluster("a")
    driver.do(drain("n1", 40), nodes(node("n1", NodeAction.DECOMISSION), node("n1", vcore=10)))
    assert stopped(driver.wait(20)) == []
    assert stopped(driver.do(asks(ask("app", "late", on_node="n1", vcore=1)))) == ["late"]


def test_every_report_of_a_victim_names_the_drain() -> None:
    """Explanations, events and the ledger name the drain as the rule."""
    driver = cluster("a")
    driver.facts.clear()
    driver.do(replace(drain("n1"), mark=ANN))
    assert heard(driver, "n1") == [
        "NODE n1 SET NODE_SCHEDULABLE: schedulable: false",
        'NODE n1 SET DETAILS_NONE: drained by ann: "disk"',
        "REQUEST a NONE DETAILS_NONE app vcore=1: Preempted to drain node n1",
    ]
    assert driver.explain("app", "a").summary == (
        'on node n1 until the RM has stopped it: node drained by ann: "disk"'
    )
    confirm(driver, "a")
    assert driver.explain("app", "a").summary == ("preempted on node n1 because its node was drained")
    (record,) = driver.views.preemptions(DEFAULT, "", "")
    assert (record.rule.value, record.beneficiary_app_id, record.beneficiary_queue) == ("drain", "", None)


def test_a_victim_of_a_drain_counts_as_preempting() -> None:
    """The queue of a victim counts it as preempting until the RM confirms."""
    driver = cluster("a")
    driver.do(drain("n1"))
    assert driver.queue("root.a").preempting == {"vcore": 1}
    confirm(driver, "a")
    assert driver.queue("root.a").preempting == {}


@pytest.mark.parametrize("name", ["nowhere", ""])
def test_an_unknown_node_cannot_be_drained(name: str) -> None:
    """The drain of an unknown node is refused."""
    (refused,) = cluster().do(drain(name))
    assert isinstance(refused, OperatorRefused)


def no_time(own: Drains) -> None:
    """Remove the timer of a drain with allocations to stop."""
    for timer in own.timers.names():
        own.timers.cancel(timer)


def time_for_nothing(own: Drains) -> None:
    """Set a timer for a node that is not drained."""
    own.timers.set(Timer(Due.EXTENSION_WORK, node_id=NodeId("n2"), name=NAME), START)


def open_again(own: Drains) -> None:
    """Open a node again while its drain continues."""
    del own.context.node_book.closed[NodeId("n1")]


@pytest.mark.parametrize("slip", [no_time, time_for_nothing, open_again])
def test_the_recount_of_drains_detects_a_fault(slip: Callable[[Drains], None]) -> None:
    """The recount compares the timers of drains with the drained nodes, which must be closed."""
    driver = cluster("1a", "2b")
    driver.do(drain("n1", 60))
    partition = driver.partition
    own = partition.points.named(NAME)
    assert isinstance(own, Drains)
    own.recount(partition.applications, settled=True)
    slip(own)
    with pytest.raises(InvariantBroken):
        own.recount(partition.applications, settled=True)
