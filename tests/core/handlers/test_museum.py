"""Bugs that schedulers of this kind have had, each as a scene that shows what should happen."""

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import AppId, PartitionName
from support.core.builders import (
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
    remove_apps,
)
from support.core.driver import Driver, keys, placed, refused, released, states
from support.core.steps import last, listed

DEFAULT = PartitionName("[rm1]default")
GONE = TerminationType.TIMEOUT
REPLACED = TerminationType.PLACEHOLDER_REPLACED
PREEMPTED = TerminationType.PREEMPTED_BY_SCHEDULER

LIMITED = """\
limits:
  - limit: everybody
    groups: [staff]
    maxresources: {memory: 100}
"""
RICH_AND_POOR = """[
  {name: rich, resources: {guaranteed: {memory: 1}}, properties: {preemption.delay: 5s}},
  {name: poor, resources: {guaranteed: {memory: 2}}, properties: {preemption.delay: 5s}}]"""


def started(queues: str, *sizes: int, rest: str = "") -> Driver:
    """A core with nodes n1, n2 ... of these sizes."""
    driver = Driver()
    new = [node(f"n{number}", memory=size) for number, size in enumerate(sizes, 1)]
    driver.do(register(config(queues, rest=rest)), nodes(*new))
    return driver


def used(driver: Driver, queue: str) -> int:
    """The memory that a queue has."""
    return driver.views.queue(DEFAULT, queue).allocated.get("memory", 0)


def usage(driver: Driver, kind: str, name: str) -> int:
    """The memory that a user or a group has."""
    try:
        return last(driver.views.usage(DEFAULT, kind, name)).queues.allocated.get("memory", 0)
    except NotFound:
        return 0


def counts(driver: Driver, app_id: str) -> tuple[int, int, int]:
    """Of an application's only task group: placeholders in all, replaced, timed out."""
    (group,) = driver.views.application(DEFAULT, AppId(app_id)).task_groups
    return group.count, group.replaced, group.timed_out


def gang(driver: Driver, *placeholders: str, memory: int = 1) -> None:
    """Application `job` in root.a; its placeholders are placed."""
    driver.do(apps(app("job", "root.a", gang={"memory": len(placeholders)}, timeout=60)))
    sized = {"memory": memory}
    driver.do(asks(*(ask("job", k, placeholder=True, group="g", size=sized) for k in placeholders)))


def crowded(*, asking: int = 1) -> Driver:
    """Two nodes full of what `root.rich` runs, and an ask of `root.poor` that is due its place."""
    driver = started(RICH_AND_POOR, 1, 1)
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*(ask("rich", f"r{i}", policy="so", memory=1) for i in (1, 2))))
    wanted = [ask("poor", f"p{i}", policy="so", memory=1) for i in range(1, asking + 1)]
    driver.do(asks(*wanted))
    return driver


def test_releasing_everything_while_asks_wait_frees_the_user() -> None:
    """Where asks wait, a release of all allocations counts for user and group as well."""
    driver = started("[{name: a}]", 2, rest=LIMITED)
    driver.do(apps(app("job", "root.a", groups=["staff"])))
    driver.do(asks(*(ask("job", f"k{i}", memory=1) for i in range(3))))
    assert (usage(driver, "user", "ann"), usage(driver, "group", "staff")) == (2, 2)
    driver.send(releases(release("job", why=GONE)))
    assert driver.views.queue(DEFAULT, "root.a").pending == {"memory": 1}
    assert (usage(driver, "user", "ann"), usage(driver, "group", "staff")) == (0, 0)
    driver.run()
    driver.do(releases(release("job")))
    assert used(driver, "root.a") == 0
    assert (usage(driver, "user", "ann"), usage(driver, "group", "staff")) == (0, 0)


def test_removing_a_completing_application_frees_its_queue() -> None:
    """An application that is removed while it completes leaves nothing in its queue."""
    driver = started("[{name: a}]", 3)
    gang(driver, "p1", "p2")
    driver.do(asks(ask("job", "r1", group="g", memory=1)))
    driver.do(releases(release("job", "p1", why=REPLACED)))
    assert states(driver.do(releases(release("job", "r1"))), "job") == ["Completing"]
    assert used(driver, "root.a") == 1
    driver.do(remove_apps("job"))
    assert (used(driver, "root.a"), used(driver, "root")) == (0, 0)
    assert driver.wait(60) == []


def test_a_reserved_ask_that_goes_elsewhere_is_booked_there() -> None:
    """An ask with a reserved node that another node takes runs on that one, and frees both ends."""
    driver = started("[{name: a}]", 4, 4)
    driver.do(apps(app("small", "root.a"), app("big", "root.a")))
    driver.do(asks(ask("small", "s1", memory=2), ask("small", "s2", memory=2)))
    driver.do(asks(ask("big", "b", memory=4)))
    driver.wait(5)
    (reserved,) = listed(driver.views.reservations(DEFAULT))
    other = {"n1": "n2", "n2": "n1"}[reserved.node_id]
    there = [k for k in ("s1", "s2") if last(driver.views.explain(DEFAULT, "small", k)).node_id == other]
    effects = driver.do(releases(release("small", there[0])))
    assert placed(effects) == [("big", "b", other)]
    assert driver.views.node(DEFAULT, other).available.get("memory", 0) == 0
    assert driver.views.node(DEFAULT, reserved.node_id).available == {"memory": 2}
    assert list(listed(driver.views.reservations(DEFAULT))) == []


def test_a_victim_is_told_once() -> None:
    """However many asks wait for it, and however long: a victim is told to stop once."""
    driver = crowded(asking=2)
    assert len(released(driver.wait(600))) == 1
    assert used(driver, "root.rich") == 2


def test_the_next_ask_has_other_victims() -> None:
    """Who was told to stop, for an ask that is gone by now, is no victim of another ask."""
    driver = started(RICH_AND_POOR, 2)
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(*(ask("rich", f"r{i}", policy="so", memory=1) for i in (1, 2))))
    driver.do(asks(ask("poor", "p1", policy="so", memory=1)))
    ((_, first, *_),) = released(driver.wait(5))
    driver.do(releases(release("poor", "p1")))
    driver.do(reload(config(RICH_AND_POOR.replace("guaranteed: {memory: 1}", "max: {memory: 9}"))))
    driver.do(asks(ask("poor", "p2", policy="so", memory=2)))
    ((_, second, *_),) = released(driver.wait(60))
    assert {first, second} == {"r1", "r2"}


def test_siblings_below_one_guarantee_do_not_preempt_each_other() -> None:
    """What one took from the other it would lose to it again, for ever: neither takes anything."""
    queues = """[
      {name: p, resources: {guaranteed: {memory: 4}}, properties: {preemption.delay: 5s},
       queues: [{name: a}, {name: b}]},
      {name: other}]"""
    driver = started(queues, 1, 1, 1)
    driver.do(apps(app("one", "root.p.a"), app("two", "root.p.b"), app("rest", "root.other")))
    driver.do(asks(*(ask("one", f"a{i}", policy="so", memory=1) for i in (1, 2))))
    driver.do(asks(ask("rest", "r1", memory=1, priority=9)))
    driver.do(asks(ask("two", "b1", policy="so", memory=1)))
    assert released(driver.wait(600)) == []
    # Somebody outside their guarantee may lose, as soon as it is of no higher priority.
    driver.do(asks(ask("two", "b2", policy="so", memory=1, priority=9)))
    assert [key for _, key, *_ in released(driver.wait(600))] == ["r1"]


@pytest.mark.parametrize("why", [GONE, TerminationType.STOPPED_BY_RM, REPLACED])
def test_a_placeholder_counts_once_however_it_ends(why: TerminationType) -> None:
    """Told to stop and then confirmed, a placeholder has timed out once."""
    driver = started("[{name: a}]", 3)
    gang(driver, "p1", "p2")
    driver.wait(60)
    assert counts(driver, "job") == (2, 0, 2)
    driver.do(releases(release("job", "p1", why=why)))
    driver.do(releases(release("job", "p1", why=why)))
    assert counts(driver, "job") == (2, 0, 2)
    assert used(driver, "root.a") == 1


def test_a_placeholder_replaced_on_another_node_counts_once() -> None:
    """The real allocation on another node is one that replaced it, and takes its place once."""
    driver = started("[{name: a}]", 1)
    gang(driver, "p1")
    driver.do(nodes(node("n2", memory=1)))
    driver.do(asks(ask("job", "r1", group="g", memory=1, required_node="n2")))
    assert used(driver, "root.a") == 1
    driver.do(releases(release("job", "p1", why=REPLACED)))
    assert counts(driver, "job") == (1, 1, 0)
    assert (used(driver, "root.a"), usage(driver, "user", "ann")) == (1, 1)
    assert driver.views.node(DEFAULT, "n1").available == {"memory": 1}
    driver.do(releases(release("job", "p1", why=REPLACED)))
    assert counts(driver, "job") == (1, 1, 0)


def test_a_recovered_placeholder_counts() -> None:
    """What an RM brings along is one more of its group: its real allocation waits to replace it."""
    driver = started("[{name: a}]", 3)
    driver.do(apps(app("job", "root.a", gang={"memory": 2}, timeout=60)))
    driver.do(asks(ask("job", "p1", placeholder=True, group="g", on_node="n1", memory=1)))
    assert counts(driver, "job") == (1, 0, 0)
    effects = driver.do(asks(ask("job", "r1", group="g", memory=1)))
    assert released(effects) == [("job", "p1", "PLACEHOLDER_REPLACED", "replacing allocationKey: r1")]
    driver.do(releases(release("job", "p1", why=REPLACED)))
    assert counts(driver, "job") == (1, 1, 0)


def test_no_allocation_is_without_a_key() -> None:
    """A release without a key means all of an application, so nothing may have an empty key."""
    driver = started("[{name: a}]", 3)
    driver.do(apps(app("job", "root.a")))
    effects = driver.do(asks(*(ask("job", key, on_node="n1", memory=1) for key in ("k1", "", "k2"))))
    assert refused(effects) == {"": "allocation key is empty"}
    driver.do(releases(release("job", "k1")))
    assert used(driver, "root.a") == 1
    driver.do(releases(release("job", "k1")))
    assert used(driver, "root.a") == 1


def test_a_promise_ends_with_its_ask() -> None:
    """Once the preemptor is gone, what its victim leaves belongs to whoever comes first."""
    driver = crowded()
    ((_, victim, *_),) = released(driver.wait(5))
    driver.do(releases(release("poor", "p1")))
    assert not driver.views.queue(DEFAULT, "root.poor").pending
    driver.do(asks(ask("rich", "r3", memory=1)))
    assert keys(driver.do(releases(release("rich", victim, why=PREEMPTED)))) == ["r3"]
