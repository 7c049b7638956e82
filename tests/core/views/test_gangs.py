"""Gangs in reports: task groups, requested stops, and replacements."""

from dataclasses import replace

import pytest

from licorne_core.messages.commands import NodeRefusal, PredicatePolicy, TerminationType
from licorne_core.messages.reasons import PreemptionCheck
from licorne_core.values.asks import Ask
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName
from licorne_core.views.applications import AskReport, TaskGroupReport
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
    victim,
)
from support.core.driver import START, Driver, asked
from support.core.steps import listed

CONFIG = config("[{name: a}]")
NAME = PartitionName("[rm1]default")


def placeholder(key: str, group: str, vcore: int) -> Ask:
    """A placeholder of the gang."""
    return replace(real(key, group, vcore), placeholder=True)


def real(key: str, group: str, vcore: int) -> Ask:
    """An ask that replaces a placeholder."""
    return replace(ask("gang", key, vcore=vcore), task_group=group)


def started(predicates: PredicatePolicy | None = None, style: str = "Hard") -> Driver:
    """A gang of two small placeholders and a larger one, with a timeout of 60 seconds."""
    driver = Driver()
    gang = replace(
        app("gang", "root.a"),
        placeholder_ask={"vcore": 7},
        gang_scheduling_style=style,
        execution_timeout=60_000,
    )
    driver.do(
        register(CONFIG, predicates=predicates),
        nodes(node("n1", vcore=10)),
        apps(gang),
        asks(placeholder("p1", "g", 2), placeholder("p2", "g", 2), placeholder("q", "h", 3)),
    )
    return driver


@pytest.fixture
def driver() -> Driver:
    """A core with a hard gang."""
    return started()


def waiting(driver: Driver) -> list[AskReport]:
    """The pending asks of the gang."""
    return listed(driver.views.asks(NAME, "gang"))


def stopping(driver: Driver) -> dict[str, str]:
    """The gang's allocations that are being stopped, with the reasons."""
    return {item.key: why for item, why, *_ in listed(driver.views.allocations(NAME, "gang")) if why}


def groups(driver: Driver) -> list[tuple[str, int, int, int]]:
    """The task groups: name, count, replaced, timed out."""
    return [
        (group.name, group.count, group.replaced, group.timed_out) for group in driver.app("gang").task_groups
    ]


@pytest.mark.parametrize(("style", "expected"), [("Hard", "Hard"), ("soft", "Soft"), ("", "Soft")])
def test_a_gang_reports_placeholders_and_real_allocations_separately(style: str, expected: str) -> None:
    """Amounts of placeholders and of real allocations are separate, and the queue counts both."""
    driver = started(style=style)
    gang = driver.app("gang")
    assert (gang.placeholder_ask, gang.gang_style) == ({"vcore": 7}, expected)
    assert (gang.placeholder_allocated, gang.allocated) == ({"vcore": 7}, {})
    assert gang.placeholder_deadline == START + 60.0
    assert gang.task_groups == (
        TaskGroupReport(name="g", count=2, replaced=0, timed_out=0, min_resource={"vcore": 2}),
        TaskGroupReport(name="h", count=1, replaced=0, timed_out=0, min_resource={"vcore": 3}),
    )
    known = listed(driver.views.allocations(NAME, "gang"))
    assert [(item.ask.placeholder, why) for item, why, *_ in known] == [(True, "")] * 3
    assert driver.queue("root.a").allocated == {"vcore": 7}


def test_an_application_without_a_gang_reports_none() -> None:
    """An application without a gang reports no task groups and no timeout."""
    driver = started()
    driver.do(apps(app("plain", "root.a")))
    plain = driver.app("plain")
    assert (plain.placeholder_ask, plain.gang_style, plain.task_groups) == ({}, "", ())
    assert (plain.placeholder_allocated, plain.placeholder_deadline) == ({}, 0.0)


@pytest.mark.parametrize("tags", [{"licorne/gang-min": "2"}, {"licorne/slice": "size=2,level=rack"}])
def test_the_explanation_of_a_gang_placed_whole_has_no_preemption(tags: dict[str, str]) -> None:
    """A gang that is placed whole never preempts, so its explanation promises none."""
    driver = Driver()
    queues = "[{name: a, resources: {guaranteed: {vcore: 4}}, properties: {preemption.delay: 1s}}]"
    driver.do(register(config(queues, properties="{topology.levels: rack}")), nodes(node("n1", vcore=2)))
    driver.do(apps(app("first", "root.a")), asks(ask("first", "k", vcore=1)))
    is_elastic = "licorne/gang-min" in tags
    driver.do(apps(app("gang", "root.a", gang={} if is_elastic else {"vcore": 2}, tags=tags)))
    members = [
        ask("gang", f"m{n}", group="w", policy="o", placeholder=not is_elastic, vcore=1) for n in range(2)
    ]
    driver.do(asks(*members))
    driver.wait(30)
    assert [
        check.text for check in driver.explain("gang", "m0").checks if isinstance(check, PreemptionCheck)
    ] == ["members of a gang that is placed whole preempt nobody"]


def test_an_ask_names_the_placeholder_that_it_replaces(driver: Driver) -> None:
    """A replacement names its placeholder, and counts as pending until the RM has stopped the placeholder."""
    driver.do(asks(real("r", "g", 2)))
    gang = driver.app("gang")
    assert [(item.ask.key, item.replaces, item.assumed_node) for item in waiting(driver)] == [("r", "p1", "")]
    assert (gang.pending_count, gang.allocation_count) == (1, 3)
    on_node = listed(driver.views.allocations_on(NAME, "n1"))
    assert stopping(driver) == {item.key: why for item, why, *_ in on_node if why} == {"p1": "replaced"}
    [partition] = driver.views.partitions()
    assert (partition.pending_asks, partition.allocations) == (1, 3)
    ask_of_it, of_placeholder = driver.explain("gang", "r"), driver.explain("gang", "p1")
    assert (ask_of_it.verdict, ask_of_it.summary, ask_of_it.node_id) == (
        "replacing",
        "runs on node n1 once the RM has stopped placeholder p1",
        "n1",
    )
    assert (of_placeholder.verdict, of_placeholder.summary) == (
        "stopping",
        "on node n1 until the RM has stopped it: r takes its place",
    )
    assert not of_placeholder.is_victim
    assert driver.explain("gang", "").key == "r"


def test_a_completed_replacement_is_reported(driver: Driver) -> None:
    """After the RM's confirmation a replacement is reported as running, and its placeholder as replaced."""
    driver.do(asks(real("r", "g", 2)))
    driver.do(releases(release("gang", "p1", why=TerminationType.PLACEHOLDER_REPLACED)))
    gang = driver.app("gang")
    assert groups(driver) == [("g", 2, 1, 0), ("h", 1, 0, 0)]
    assert (gang.allocated, gang.placeholder_allocated) == ({"vcore": 2}, {"vcore": 5})
    known = listed(driver.views.allocations(NAME, "gang"))
    assert {item.key: item.placeholder_used for item, *_ in known} == {
        "p2": False,
        "q": False,
        "r": True,
    }
    assert (waiting(driver), stopping(driver)) == ([], {})
    assert driver.explain("gang", "r").verdict == "allocated"


def test_a_replacement_on_another_node_is_reported_as_an_ask() -> None:
    """A replacement on another node is reported as an ask with booked room until it is complete."""
    driver = started(predicates=PredicatePolicy())
    driver.do(nodes(node("n2", vcore=5)))
    wanted = replace(ask("gang", "r", predicate="x", vcore=3), task_group="h")
    [here] = asked(driver.do(asks(wanted)))
    assert (here.nodes, here.allocate) == (["n1"], False)
    refusal = NodeRefusal(node_id=NodeId("n1"), reason="no gpu")
    [there] = asked(driver.do(answering(here, [refusal])))
    assert (there.nodes[0], there.allocate) == ("n2", True)

    def on_n2() -> tuple[int, int]:
        report = driver.node("n2")
        assert report.allocated == {"vcore": 3}
        assert report.allocation_count == len(listed(driver.views.allocations_on(NAME, "n2")))
        return report.allocation_count, driver.app("gang").pending_count

    assert on_n2() == (0, 1)
    assert [item.assumed_node for item in waiting(driver)] == ["n2"]
    driver.do(answering(there))
    assert on_n2() == (0, 1)
    assert [(item.replaces, item.assumed_node) for item in waiting(driver)] == [("q", "")]
    assert driver.explain("gang", "r").summary == "runs on node n2 once the RM has stopped placeholder q"
    assert [finding for finding in driver.views.audit(NAME) if finding] == []
    driver.do(releases(release("gang", "q", why=TerminationType.PLACEHOLDER_REPLACED)))
    assert on_n2() == (1, 0)


def test_timed_out_placeholders_are_reported_as_being_stopped(driver: Driver) -> None:
    """A timed-out placeholder counts as timed out at once, and as being stopped until the RM confirms."""
    driver.do(asks(ask("gang", "runs", vcore=1)))
    driver.wait(61.0)
    gang = driver.app("gang")
    assert groups(driver) == [("g", 2, 0, 2), ("h", 1, 0, 1)]
    assert stopping(driver) == dict.fromkeys(("p1", "p2", "q"), "timeout")
    assert gang.placeholder_deadline == 0.0
    assert driver.explain("gang", "q").summary == (
        "on node n1 until the RM has stopped it: no real allocation takes its place"
    )


def test_a_replacement_with_an_open_check_is_assumed() -> None:
    """A replacement with an open check has a placeholder and an assumed node; no stop is requested yet."""
    driver = started(predicates=PredicatePolicy())
    driver.do(asks(replace(ask("gang", "r", predicate="x", vcore=2), task_group="g")))
    asks_of_it = [(item.ask.key, item.replaces, item.assumed_node) for item in waiting(driver)]
    assert asks_of_it == [("r", "p1", "n1")]
    assert stopping(driver) == {}
    matched = driver.explain("gang", "r")
    assert (matched.verdict, matched.summary) == (
        "assumed",
        "runs on node n1 instead of placeholder p1 if the RM agrees",
    )
    assert driver.explain("gang", "p1").verdict == "allocated"
    [partition] = driver.views.partitions()
    assert (partition.pending_asks, partition.allocations) == (1, 3)


def test_a_victim_is_reported_as_being_stopped(driver: Driver) -> None:
    """Reports of a victim name its beneficiary, and its queue has the amounts that become free."""
    partition = driver.partition
    gang = partition.applications[AppId("gang")]
    driver.do(asks(ask("gang", "v", vcore=1)))
    partition.allocations.preempt(gang, gang.requests[AllocationKey("v")])
    partition.ledger.note(victim("v", "gang"))
    assert stopping(driver) == {"v": "preempted"}
    leaf = driver.queue("root.a")
    assert (leaf.preempting, leaf.promised) == ({"vcore": 1}, {})
    explanation = driver.explain("gang", "v")
    assert (explanation.verdict, explanation.is_victim) == ("stopping", True)
    assert explanation.summary == (
        "on node n1 until the RM has stopped it: preempted for ask k of application app, "
        "as queue root.high was below its guarantee"
    )


@pytest.mark.parametrize(("style", "state"), [("Soft", "Resuming"), ("Hard", "Failing")])
def test_asks_dropped_by_a_timeout_are_not_found(style: str, state: str) -> None:
    """The explanation of an ask that a timeout has dropped is an error with the state of the application."""
    driver = Driver()
    gang = app("gang", "root.a", gang={"vcore": 99}, style=style, timeout=60)
    driver.do(register(CONFIG), nodes(node("n1", vcore=10)), apps(gang))
    driver.do(asks(placeholder("p1", "g", 9), placeholder("p3", "g", 90)))
    driver.wait(60)
    for key, what in (("p3", "ask p3"), ("", "pending ask")):
        with pytest.raises(NotFound, match=f"application gang is {state} and has no {what}"):
            driver.explain("gang", key)
