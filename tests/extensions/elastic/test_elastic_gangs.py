"""Elastic gangs: the minimum starts together; growth is in whole steps, placed last and stopped first."""

from dataclasses import astuple

import pytest

from licorne_core.extensions.backfill.extension import starts_of
from licorne_core.extensions.elastic.sizes import Elastic
from licorne_core.extensions.notice.messages import AnswerNotices, NoticeAnswer
from licorne_core.messages.commands import NodeAction, UpdateAllocations
from licorne_core.messages.effects import Effect
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId
from licorne_core.views.explain import explain
from support.core.builders import (
    RM,
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
from support.core.driver import Driver, placed, records, refused, refused_apps, released
from support.core.steps import last

TWO = "[{name: a, resources: {guaranteed: {memory: 4}}, properties: {preemption.delay: 1s}}, {name: b}]"


def cluster(*sizes: int, queues: str = "[{name: a}, {name: b}]", properties: str = "{}") -> Driver:
    """A core with two leaves and nodes of these sizes."""
    driver = Driver()
    driver.do(register(config(queues, properties=properties)))
    driver.do(nodes(*(node(f"n{number}", memory=size) for number, size in enumerate(sizes))))
    return driver


def elastic(
    driver: Driver,
    members: int,
    terms: str = "2,6,2",
    *,
    name: str = "job",
    queue: str = "root.b",
) -> list[str]:
    """Submit an elastic gang of this number of members; return the keys that are placed at once."""
    tags = dict(
        zip(("licorne/gang-min", "licorne/gang-max", "licorne/gang-step"), terms.split(","), strict=False)
    )
    driver.do(apps(app(name, queue, tags=tags)))
    return [key for _, key, _ in placed(driver.do(more(name, *range(members))))]


def more(name: str, *numbers: int, priority: int = 0) -> UpdateAllocations:
    """Submit asks of these members."""
    return asks(
        *(ask(name, f"m{n}", group="workers", policy="s", priority=priority, memory=1) for n in numbers)
    )


def claim(key: str, memory: int = 1) -> Ask:
    """An ask that may preempt others."""
    return ask("claims", key, memory=memory, policy="o")


def size(driver: Driver, name: str = "job") -> int:
    """The number of running members."""
    found = driver.partition.applications[AppId(name)]
    assert isinstance(found.gang.units, Elastic)
    return found.gang.units.size


def why(driver: Driver, key: str, name: str = "job") -> list[str]:
    """The code of the first check that blocks an ask; an empty list if none does."""
    partition = driver.partition
    report = last(explain(partition, partition.applications[AppId(name)], AllocationKey(key)))
    return [check.code for check in report.checks if not check.passed][:1]


def stopped(effects: list[Effect]) -> list[str]:
    """The keys of the allocations that the RM is asked to stop."""
    return [key for _, key, *_ in released(effects)]


def test_the_minimum_starts_together_and_growth_in_steps() -> None:
    """With room for the minimum and a part of a step only the minimum runs; growth waits for a whole step."""
    driver = cluster(1, 1, 1)
    assert elastic(driver, 6) == ["m0", "m1"]
    assert why(driver, "m2") == ["QUEUE_MAX_EXCEEDED"]
    assert [key for _, key, _ in placed(driver.do(nodes(node("more", memory=1))))] == ["m2", "m3"]
    assert [key for _, key, _ in placed(driver.do(nodes(node("large", memory=8))))] == ["m4", "m5"]


def test_members_below_the_minimum_do_not_start() -> None:
    """With room for one member of a minimum of two, or with one ask of two submitted, no member starts."""
    driver = cluster(1)
    assert elastic(driver, 2) == []
    assert elastic(driver, 1, name="other") == []
    assert why(driver, "m0", "other") == ["GANG_INCOMPLETE"]
    assert len(placed(driver.do(nodes(node("more", memory=1))))) == 2


def test_growth_ends_at_the_maximum() -> None:
    """Asks beyond the maximum wait with the code ELASTIC_MAX, and are placed when members end."""
    driver = cluster(20)
    assert len(elastic(driver, 8)) == 6
    assert why(driver, "m6") == ["ELASTIC_MAX"]
    assert [key for _, key, _ in placed(driver.do(releases(release("job", "m0"))))] == ["m6"]


def test_a_gang_without_a_maximum_grows_without_bound() -> None:
    """Without the tag of a step the gang grows by single members, until there is no more room."""
    assert len(elastic(cluster(7), 9, "3")) == 7


def test_lost_members_are_replaced_before_growth() -> None:
    """After the loss of a node, new members start only when as many as were lost can be placed."""
    driver = cluster(2, 2)
    assert len(elastic(driver, 4)) == 4
    driver.do(nodes(node("n1", NodeAction.DECOMISSION)))
    assert size(driver) == 2
    driver.do(more("job", 10))
    assert placed(driver.do(nodes(node("n2", memory=9)))) == []
    assert [key for _, key, _ in placed(driver.do(more("job", 11)))] == ["m10", "m11"]
    driver.do(releases(release("job", "m0")))
    assert [key for _, key, _ in placed(driver.do(more("job", 12)))] == ["m12"]


def test_asks_without_a_task_group_are_placed_singly() -> None:
    """The driver of the application is no member, and starts before the members are submitted."""
    driver = cluster(4)
    assert elastic(driver, 0) == []
    assert len(placed(driver.do(asks(ask("job", "driver", memory=1, originator=True))))) == 1
    assert len(placed(driver.do(more("job", 0, 1)))) == 2
    assert size(driver) == 2


def test_a_step_consists_of_the_first_asks_of_the_application() -> None:
    """The first asks in the order of the application form the minimum and the steps, whatever their sizes."""
    driver = cluster(3, 3)
    driver.do(apps(app("job", "root.b", tags={"licorne/gang-min": "3"})))
    shapes = [1, 2, 1, 2]
    wanted = [ask("job", f"m{n}", group="workers", memory=memory) for n, memory in enumerate(shapes)]
    assert [key for _, key, _ in placed(driver.do(asks(*wanted)))] == ["m1", "m0", "m2", "m3"]


def test_the_minima_of_other_gangs_precede_growth() -> None:
    """Of two gangs in a queue, the second gang has its minimum before the first gang grows."""
    driver = cluster(4)
    driver.do(nodes(node("n0", NodeAction.DRAIN_NODE)))
    assert elastic(driver, 6) == elastic(driver, 6, name="second") == []
    driver.do(nodes(node("n0", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert (size(driver), size(driver, "second")) == (2, 2)


@pytest.mark.parametrize("policy", ["fifo", "fair", "stateaware"])
@pytest.mark.parametrize("priority", ["enabled", "disabled"])
def test_all_other_applications_precede_growth(policy: str, priority: str) -> None:
    """A younger application of lower priority is served before an older gang grows."""
    properties = f"{{application.sort.policy: {policy}, application.sort.priority: {priority}}}"
    driver = cluster(4, queues=f"[{{name: b, properties: {properties}}}]")
    assert len(elastic(driver, 2, "2")) == 2
    driver.do(nodes(node("n0", NodeAction.DRAIN_NODE)))
    driver.do(more("job", 2, 3, priority=9))
    driver.do(apps(app("plain", "root.b")), asks(*(ask("plain", f"k{n}", memory=1) for n in range(2))))
    effects = driver.do(nodes(node("n0", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert [key for _, key, _ in placed(effects)] == ["k0", "k1"]


def test_members_that_are_being_stopped_do_not_count_in_the_minimum() -> None:
    """A gang that loses a member to a drain replaces it before any growth."""
    driver = cluster(4)
    assert len(elastic(driver, 2, "2")) == 2
    partition = driver.partition
    app = partition.applications[AppId("job")]
    partition.allocations.preempt(app, app.requests[AllocationKey("m1")])
    assert app.gang.units is not None
    assert (app.gang.units.behind, app.gang.units.wanted) == (False, 1)
    assert [key for _, key, _ in placed(driver.do(more("job", 2)))] == ["m2"]


def test_the_maximum_of_a_queue_blocks_a_whole_unit() -> None:
    """If the maximum of a queue leaves less than the gang's minimum, that maximum blocks all members."""
    driver = cluster(20, queues="[{name: b, resources: {max: {memory: 5}}}]")
    assert len(elastic(driver, 6)) == 4
    assert why(driver, "m4") == ["QUEUE_MAX_EXCEEDED"]
    assert elastic(driver, 2, name="other") == []
    assert why(driver, "m0", "other") == ["QUEUE_MAX_EXCEEDED"]


def test_preemption_stops_the_newest_step_as_a_whole() -> None:
    """For an ask as large as one member the newest step, of two members, is stopped, with an event."""
    driver = cluster(2, 2, 2, queues=TWO)
    assert len(elastic(driver, 6)) == 6
    driver.do(apps(app("claims", "root.a")), asks(claim("k")))
    assert sorted(stopped(driver.wait(5))) == ["m4", "m5"]
    shrunk = [record.message for record in records(driver) if "SHRUNK" in record.message]
    assert shrunk == ["ELASTIC_SHRUNK: from 6 to 4 members for k"]
    effects = driver.do(*(releases(release("job", key)) for key in ("m4", "m5")))
    assert [key for _, key, _ in placed(effects)] == ["k"]


def test_a_step_is_stopped_before_younger_allocations() -> None:
    """A younger regular allocation is spared if a step frees the same room."""
    driver = cluster(2, 2, queues=TWO)
    assert len(elastic(driver, 3, "1,3,1")) == 3
    driver.do(apps(app("plain", "root.b")), asks(ask("plain", "young", policy="s", memory=1)))
    driver.do(apps(app("claims", "root.a")), asks(claim("k")))
    assert stopped(driver.wait(5)) == ["m2"]


def test_the_minimum_is_stopped_last_and_as_a_whole() -> None:
    """If there is no growth, the minimum is stopped with all its members."""
    driver = cluster(2, 2, queues=TWO)
    assert len(elastic(driver, 4, "2,4,2")) == 4
    driver.do(apps(app("claims", "root.a")), asks(claim("k0", 2)))
    assert sorted(stopped(driver.wait(5))) == ["m2", "m3"]
    driver.do(*(releases(release("job", key)) for key in ("m2", "m3")))
    driver.do(asks(claim("k1")))
    assert sorted(stopped(driver.wait(5))) == ["m0", "m1"]


def test_a_protected_minimum_is_not_stopped_in_part() -> None:
    """The guarantee of its queue protects one of two members, and therefore both."""
    queues = TWO.replace("{name: b}", "{name: b, resources: {guaranteed: {memory: 1}}}")
    driver = cluster(2, queues=queues)
    assert len(elastic(driver, 2)) == 2
    driver.do(apps(app("claims", "root.a")), asks(claim("k")))
    assert stopped(driver.wait(60)) == []


def test_growth_does_not_preempt() -> None:
    """A gang within the guarantee of its queue preempts nothing in order to grow."""
    queues = TWO.replace("memory: 4", "memory: 6")
    driver = cluster(4, queues=queues)
    assert len(elastic(driver, 6, queue="root.a")) == 4
    driver.do(releases(release("job", "m2"), release("job", "m3")))
    driver.do(apps(app("plain", "root.b")), asks(*(ask("plain", f"k{n}", memory=1) for n in range(2))))
    assert stopped(driver.wait(60)) == []


def test_a_lowered_maximum_stops_whole_steps() -> None:
    """A step whose stop would take the queue below its maximum is spared."""
    properties = "{quota.preemption.delay: 1s}"

    def text(most: int) -> str:
        queues = f"[{{name: b, resources: {{max: {{memory: {most}}}}}, properties: {properties}}}]"
        name = "  - name: default\n"
        return config(queues).replace(name, f"{name}    preemption: {{quotapreemptionenabled: true}}\n", 1)

    driver = Driver()
    driver.do(register(text(9)), nodes(node("n0", memory=20)))
    assert len(elastic(driver, 6)) == 6
    driver.do(reload(text(3)))
    assert sorted(stopped(driver.wait(5))) == ["m4", "m5"]


def enforced(most: int) -> str:
    """A leaf with this maximum, enforced after a second, with a notice of a minute."""
    properties = "{quota.preemption.delay: 1s, preemption.notice: 60s}"
    queues = f"[{{name: b, resources: {{max: {{memory: {most}}}}}, properties: {properties}}}]"
    name = "  - name: default\n"
    return config(queues).replace(name, f"{name}    preemption: {{quotapreemptionenabled: true}}\n", 1)


@pytest.mark.parametrize(("most", "gone"), [(5, ["m4", "m5"]), (6, [])])
def test_a_step_under_notice_is_spared_as_a_whole(most: int, gone: list[str]) -> None:
    """If a raised maximum has room for one of two members, neither is spared; with room for two, both are."""
    driver = Driver()
    driver.do(register(enforced(9)), nodes(node("n0", memory=20)))
    assert len(elastic(driver, 6)) == 6
    driver.do(reload(enforced(4)))
    assert stopped(driver.wait(5)) == []
    assert sorted(stopped(driver.do(reload(enforced(most))) + driver.wait(70))) == gone


def test_a_partly_stopped_minimum_under_notice_is_stopped_as_a_whole() -> None:
    """If one of two members of a minimum stops before the deadline, the other is stopped at the deadline."""
    driver = cluster(1, 1, queues=TWO.replace("{name: b}", "{name: b, properties: {preemption.notice: 60s}}"))
    assert len(elastic(driver, 2)) == 2
    driver.do(apps(app("claims", "root.a")), asks(claim("k")))
    assert stopped(driver.wait(5)) == []
    ready = NoticeAnswer(app_id=AppId("job"), key=AllocationKey("m0"), partition="[rm1]default")
    assert stopped(driver.do(AnswerNotices(rm_id=RmId(RM), answers=[ready]))) == ["m0"]
    assert [key for _, key, _ in placed(driver.do(releases(release("job", "m0"))))] == ["k"]
    assert stopped(driver.wait(70)) == ["m1"]


def test_waiting_members_are_placed_when_others_are_spared() -> None:
    """When members under notice are spared, waiting members are placed at once."""
    driver = cluster(2, 2, 2, queues="[{name: b, properties: {preemption.notice: 60s}}]")
    assert elastic(driver, 5, "4,8,2") == ["m0", "m1", "m2", "m3"]
    driver.do(apps(app("daemons", "root.b")))
    driver.do(asks(ask("daemons", "d", required_node="n0", policy="o", memory=2)))
    assert placed(driver.do(more("job", 5))) == []
    there = driver.partition.nodes.by_id[NodeId("n0")].allocations
    effects = driver.do(releases(*(release("job", one.key) for one in there)))
    assert [key for _, key, _ in placed(effects)] == ["d", "m4", "m5"]


def test_a_daemon_has_whole_steps_stopped() -> None:
    """For a daemon the step with a member on its node is stopped, including members on other nodes."""
    driver = cluster(2, 2, 1, queues=TWO)
    assert len(elastic(driver, 4, "2,4,2")) == 4
    driver.do(apps(app("daemons", "root.b")))
    effects = driver.do(asks(ask("daemons", "d", required_node="n1", policy="o", memory=1)))
    assert sorted(stopped(effects)) == ["m2", "m3"]


def test_a_step_on_several_nodes_is_stopped_as_a_whole() -> None:
    """For one ask a step of two members on different nodes is stopped, not one member."""
    driver = cluster(1, 1, 1, 1, queues=TWO)
    assert len(elastic(driver, 4, "2,4,2")) == 4
    driver.do(apps(app("claims", "root.a")), asks(claim("k")))
    assert sorted(stopped(driver.wait(5))) == ["m2", "m3"]


def test_only_the_minimum_holds_a_shadow_start() -> None:
    """With backfill other asks may not delay the minimum, and growth uses the remaining room."""
    driver = cluster(4, properties="{backfill: easy}")
    driver.do(apps(app("runs", "root.a")))
    driver.do(asks(ask("runs", "r", memory=3, tags={"licorne/runtime": "100"})))
    assert elastic(driver, 6, "4,6,2") == []
    driver.wait(5)
    [shadow] = starts_of(driver.partition).shadows
    assert (shadow.request.key, len(shadow.members)) == ("m0", 4)
    driver.do(apps(app("late", "root.a")))
    assert placed(driver.do(asks(ask("late", "k", memory=1)))) == []
    effects = driver.do(releases(release("runs", "r")))
    assert [key for _, key, _ in placed(effects)] == ["m0", "m1", "m2", "m3"]


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_a_gang_holds_one_shadow_start(mode: str) -> None:
    """A new first member takes over the shadow start of its gang; there is no second shadow start."""
    driver = cluster(1, properties=f"{{backfill: {mode}}}")
    driver.do(apps(app("runs", "root.a")))
    driver.do(asks(ask("runs", "r", memory=1, tags={"licorne/runtime": "1000"})))
    assert elastic(driver, 1, "1") == []
    driver.wait(5)
    driver.do(more("job", 1, priority=1))
    driver.wait(200)
    shadows = starts_of(driver.partition).shadows
    assert [shadow.request.key for shadow in shadows] == ["m1"]


@pytest.mark.parametrize(
    ("tags", "words"),
    [
        ({"licorne/gang-max": "4"}, "tag licorne/gang-max needs tag licorne/gang-min"),
        ({"licorne/gang-min": "0"}, "tag licorne/gang-min: '0' is no whole number from 1 to 100000"),
        ({"licorne/gang-min": "x"}, "tag licorne/gang-min: 'x' is no whole number from 1 to 100000"),
        (
            {"licorne/gang-min": "4", "licorne/gang-max": "3"},
            "tag licorne/gang-max: 3 is less than 4, the licorne/gang-min",
        ),
        (
            {"licorne/gang-min": "4", "licorne/gang-max": "9", "licorne/gang-step": "2"},
            "tag licorne/gang-max: 9 is not 4 members and whole steps of 2",
        ),
    ],
)
def test_contradicting_terms_are_refused(tags: dict[str, str], words: str) -> None:
    """An application with contradicting tags is rejected with the tag and its value."""
    driver = cluster(1)
    assert refused_apps(driver.do(apps(app("job", "root.b", tags=tags)))) == {"job": words}


@pytest.mark.parametrize("terms", ["100000", "4,4"])
def test_terms_at_their_bounds_are_accepted(terms: str) -> None:
    """The largest minimum is accepted, and so is a maximum that allows no growth."""
    driver = cluster(1)
    elastic(driver, 1, terms)
    assert driver.app("job").state == "Accepted"


def test_an_elastic_gang_with_placeholders_is_refused() -> None:
    """An application with placeholderAsk is refused, and so is a placeholder of an elastic gang."""
    driver = cluster(1)
    tags = {"licorne/gang-min": "2"}
    [reason] = refused_apps(driver.do(apps(app("job", "root.b", gang={"memory": 2}, tags=tags)))).values()
    assert "has tag licorne/gang-min and a placeholderAsk" in reason
    driver.do(apps(app("job", "root.b", tags=tags)))
    [reason] = refused(driver.do(asks(ask("job", "p", placeholder=True, group="g", memory=1)))).values()
    assert "is a placeholder, and application job has tag licorne/gang-min" in reason


def shown(driver: Driver, name: str) -> tuple[int, ...] | None:
    """Size, stopping members, minimum, maximum and step in the report; None for other applications."""
    found = driver.app(name).extended["elastic"]
    return None if found is None else astuple(found)


def test_only_an_elastic_gang_reports_members_and_terms() -> None:
    """The report has running and stopping members and the terms; other applications have no such report."""
    driver = Driver()
    queues = (
        """[{name: a, resources: {guaranteed: {vcore: 2}}, properties: {preemption.delay: 1s}}, {name: b}]"""
    )
    tags = {"licorne/gang-min": "2", "licorne/gang-max": "6", "licorne/gang-step": "2"}
    driver.do(register(config(queues)), nodes(node("n1", vcore=4)))
    driver.do(apps(app("gang", "root.b", tags=tags), app("plain", "root.a")))
    driver.do(asks(*(ask("gang", f"m{n}", group="w", policy="s", vcore=1) for n in range(6))))
    driver.do(asks(ask("plain", "k", policy="o", vcore=1)))
    assert shown(driver, "gang") == (4, 0, 2, 6, 2)
    driver.wait(5)
    assert shown(driver, "gang") == (4, 2, 2, 6, 2)
    assert shown(driver, "plain") is None
