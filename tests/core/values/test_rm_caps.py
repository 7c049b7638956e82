"""Caps of one RM: an item beyond a cap is refused with the cap and the value (A7)."""

from dataclasses import replace

import pytest

from licorne_core.messages.commands import NodeAction, RefuseNewWork, RegisterRm
from licorne_core.messages.effects import (
    ApplicationsAnswered,
    ConfigurationRefused,
    Effect,
    NodesAnswered,
    Registered,
    RegistrationFailed,
)
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.values.rm_caps import ASK_BYTES, MemoryShortage, RmCaps, RmCounts
from licorne_core.views.audit.invariants import check_invariants
from support.core.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    foreign,
    node,
    nodes,
    register,
    release,
    releases,
    reload,
    remove_apps,
)
from support.core.driver import Driver, keys, refused

LEAF = config("[{name: a}]")
SHORT = "the server has 900 bytes, at most 800 are allowed"


def started(caps: RmCaps, rm: str = RM) -> Driver:
    """A core with one RM, one node and one application."""
    driver = Driver(rm_caps=caps)
    driver.do(register(LEAF, rm), nodes(node("n", vcore=100), rm=rm))
    driver.do(apps(app("one", "root.a"), rm=rm))
    return driver


def counts(driver: Driver, rm: str = RM) -> RmCounts:
    """The reported counts of the RM's objects."""
    return driver.views.rm(rm).counts


@pytest.mark.parametrize("name", ["requests", "allocations"])
def test_a_wrong_count_of_objects_is_detected(name: str) -> None:
    """The check of the books recounts the objects of all applications (A2)."""
    driver = started(RmCaps())
    tally = next(iter(driver.scheduler.partitions.values())).tally
    setattr(tally, name, 1)
    with pytest.raises(InvariantBroken, match=r"A2: .*requests"):
        check_invariants(driver.scheduler)


def test_the_report_of_a_partition_reads_no_application() -> None:
    """The report of a partition is made from running totals, without reading applications."""
    driver = started(RmCaps())
    driver.do(asks(ask("one", "runs", vcore=60), ask("one", "waits", vcore=60)))
    partition = next(iter(driver.scheduler.partitions.values()))
    partition.applications = {}
    [report] = driver.views.partitions()
    assert (report.allocations, report.pending_asks) == (1, 1)
    assert report.applications == {"Running": 1}


def reasons(effects: list[Effect]) -> list[str]:
    """The reasons for refused applications and nodes."""
    return [
        refusal.reason
        for effect in effects
        if isinstance(effect, ApplicationsAnswered | NodesAnswered)
        for refusal in effect.rejected
    ]


def test_asks_and_allocations_are_counted_together() -> None:
    """Pending asks, allocations and foreign allocations count against one cap."""
    driver = started(RmCaps(asks=3))
    told = driver.do(asks(ask("one", "k1", vcore=1), foreign("f", "n", vcore=1)))
    told += driver.do(asks(ask("one", "k2", vcore=1000), ask("one", "k3", vcore=1)))
    reason = "allocation k3 is one too many: RM rm1 has 3 asks and allocations, at most 3"
    assert refused(told) == {"k3": f"{reason} are allowed"}
    assert keys(told) == ["k1"]
    assert refused(driver.do(asks(foreign("g", "n", vcore=1))))["g"].startswith(
        "allocation g is one too many"
    )


def test_repeated_items_are_accepted_at_the_cap() -> None:
    """At the cap a resize and a repetition of an ask are accepted."""
    driver = started(RmCaps(asks=2))
    driver.do(asks(ask("one", "k1", vcore=1), foreign("f", "n", vcore=1)))
    assert refused(driver.do(asks(ask("one", "k1", vcore=2), foreign("f", "n", vcore=1)))) == {}


@pytest.mark.parametrize("key", ["k1", ""])
def test_a_release_makes_room_below_the_cap(key: str) -> None:
    """At the cap an ask is refused until another ask is released."""
    driver = started(RmCaps(asks=1))
    driver.do(asks(ask("one", "k1", vcore=1)))
    assert "k2" in refused(driver.do(asks(ask("one", "k2", vcore=1))))
    driver.do(releases(release("one", key)))
    assert refused(driver.do(asks(ask("one", "k2", vcore=1)))) == {}


def test_an_application_beyond_the_cap_is_rejected() -> None:
    """An application above the cap is rejected; applications count until they are removed."""
    driver = started(RmCaps(applications=2))
    told = driver.do(apps(app("two", "root.a"), app("three", "root.a")))
    reason = "application three is one too many: RM rm1 has 2 applications, at most 2 are allowed"
    assert reasons(told) == [reason]
    driver.do(remove_apps("one"))
    assert reasons(driver.do(apps(app("three", "root.a")))) == []


def test_a_node_beyond_the_cap_is_rejected() -> None:
    """A node above the cap is rejected; nodes count until they are decommissioned."""
    driver = started(RmCaps(nodes=1))
    told = driver.do(nodes(node("m", vcore=1)))
    assert reasons(told) == ["node m is one too many: RM rm1 has 1 nodes, at most 1 are allowed"]
    driver.do(nodes(node("n", NodeAction.DECOMISSION), node("m", vcore=1)))
    assert list(driver.partition.nodes.by_id) == ["m"]


def test_memory_is_estimated_from_the_request() -> None:
    """Near the bound on memory an ask with a large request is refused, and a small one is accepted."""
    driver = started(RmCaps())
    room = counts(driver).memory + 10 * ASK_BYTES
    driver = started(RmCaps(memory=room))
    large = replace(ask("one", "large", vcore=1), footprint=20 * ASK_BYTES)
    reason = refused(driver.do(asks(large, ask("one", "plain", vcore=1))))
    assert list(reason) == ["large"]
    assert f"it needs {21 * ASK_BYTES} more, at most {room} are allowed" in reason["large"]
    tags = {f"tag{number}": "x" * 1000 for number in range(20)}
    assert "bytes of memory" in reasons(driver.do(apps(app("fat", "root.a", tags=tags))))[0]
    assert "bytes of memory" in reasons(driver.do(nodes(node("fat", attributes=tags, vcore=1))))[0]


def test_the_memory_of_asks_is_summed() -> None:
    """The ask that raises the total memory above the bound is refused, although each ask is small."""
    driver = started(RmCaps())
    driver = started(RmCaps(memory=counts(driver).memory + 10 * ASK_BYTES))
    three = [replace(ask("one", key, vcore=1000), footprint=2 * ASK_BYTES) for key in "abc"]
    assert list(refused(driver.do(asks(*three)))) == ["c"]
    driver.do(releases(release("one", "a")))
    assert refused(driver.do(asks(three[2]))) == {}


@pytest.mark.parametrize(("key", "on_node"), [("k1", None), ("k1", "n"), ("k2", None)])
def test_repeated_asks_are_bounded_by_memory(key: str, on_node: str | None) -> None:
    """A repetition of a pending or allocated ask that would exceed the bound is refused, without a change."""
    driver = started(RmCaps())
    driver = started(RmCaps(memory=counts(driver).memory + 10 * ASK_BYTES))
    driver.do(asks(ask("one", "k1", vcore=1000), ask("one", "k2", vcore=1)))
    large = replace(ask("one", key, on_node=on_node, vcore=3), footprint=20 * ASK_BYTES)
    assert list(refused(driver.do(asks(large)))) == [key]
    waiting = driver.views.asks(PartitionName("[rm1]default"), "one")
    assert [known.ask.ask_class.items for known in waiting if known] == [(("vcore", 1000),)]


def test_the_memory_of_an_ask_counts_until_its_end() -> None:
    """A resize does not lower the estimated memory of an ask, because the ask keeps its tags."""
    driver = started(RmCaps())
    before = counts(driver).memory
    driver.do(asks(replace(ask("one", "k1", vcore=1000), footprint=20 * ASK_BYTES)))
    large = counts(driver).memory
    driver.do(asks(ask("one", "k1", vcore=900)))
    assert counts(driver).memory >= large
    driver.do(releases(release("one", "k1")))
    assert counts(driver).memory - before < 10 * ASK_BYTES


def test_the_oldest_ended_application_is_dropped() -> None:
    """Above the bounds on ended applications, in number or bytes, the oldest is dropped from reports."""
    fat = {"tag": "x" * 10_000}
    driver = started(RmCaps(ended=2))
    for name in ("r1", "r2", "r3"):
        driver.now += 1
        driver.do(apps(app(name, "root.nowhere")))
    assert counts(driver).ended == 2
    driver = started(RmCaps(ended_memory=40_000))
    for name in ("r1", "r2", "r3", "r4"):
        driver.now += 1
        driver.do(apps(app(name, "root.nowhere", tags=fat)))
    assert list(driver.partition.rejected) == ["r3", "r4"]


def test_a_configuration_beyond_the_caps_is_refused() -> None:
    """Partitions and queues beyond the caps are refused, in a registration and in a reload."""
    driver = Driver(rm_caps=RmCaps(queues=2, partitions=1))
    two = config("[{name: a}, {name: b}]")
    (failed,) = driver.do(register(two))
    assert isinstance(failed, RegistrationFailed)
    assert "the configuration has 3 queues, at most 2 are allowed" in failed.reason
    driver.do(register(LEAF))
    both = LEAF + LEAF.removeprefix("partitions:\n").replace("name: default", "name: gpu")
    (refusal,) = driver.do(reload(both))
    assert isinstance(refusal, ConfigurationRefused)
    assert "the configuration has 2 partitions, at most 1 are allowed" in refusal.reason


def test_an_rm_at_its_cap_does_not_affect_others() -> None:
    """Asks of an RM are accepted while another RM is at its cap."""
    driver = started(RmCaps(asks=1))
    driver.do(register(LEAF, "rm2"), nodes(node("n", vcore=100), rm="rm2"))
    driver.do(apps(app("one", "root.a"), rm="rm2"))
    driver.do(asks(ask("one", "k1", vcore=1), ask("one", "k2", vcore=1)))
    assert refused(driver.do(asks(ask("one", "k1", vcore=1), rm="rm2"))) == {}


def test_a_new_registration_resets_the_usage_of_caps() -> None:
    """Objects from before a new registration do not count against caps."""
    driver = started(RmCaps())
    fresh = counts(driver)
    driver.do(asks(*(ask("one", f"k{number}", vcore=1) for number in range(5))))
    assert counts(driver).asks == 5
    driver = started(RmCaps())
    driver.do(asks(ask("one", "k", vcore=1)), register(LEAF))
    driver.do(nodes(node("n", vcore=100)), apps(app("one", "root.a")))
    assert counts(driver) == fresh


def test_objects_of_a_removed_partition_do_not_count() -> None:
    """The objects of a removed partition do not count against caps."""
    both = LEAF + LEAF.removeprefix("partitions:\n").replace("name: default", "name: gpu")
    driver = Driver()
    driver.do(register(LEAF))
    fresh = counts(driver)
    driver.do(reload(both), nodes(node("n", partition="gpu", vcore=10)))
    driver.do(apps(app("one", "root.a", partition="gpu"), app("bad", "x..y", partition="gpu")))
    driver.do(asks(ask("one", "k", partition="gpu", vcore=1)), reload(LEAF))
    assert counts(driver) == fresh


def test_new_work_is_refused_while_memory_is_short() -> None:
    """While memory is short new asks and RMs are refused with the reason; allocations are accepted."""
    driver = started(RmCaps())
    driver.do(RefuseNewWork(shortage=MemoryShortage.NEW, reason=SHORT))
    told = driver.do(asks(ask("one", "new", vcore=1), ask("one", "old", on_node="n", vcore=1)))
    assert refused(told) == {"new": f"allocation new is refused: {SHORT}"}
    (failed,) = driver.do(RegisterRm(rm_id=RmId("other")))
    assert isinstance(failed, RegistrationFailed)
    assert SHORT in failed.reason


def test_an_rm_can_replay_while_memory_is_short() -> None:
    """While memory is short an RM that registers again may replay all its allocations."""
    driver = started(RmCaps())
    driver.do(RefuseNewWork(shortage=MemoryShortage.NEW, reason=SHORT))
    (again,) = driver.do(register(LEAF))
    assert isinstance(again, Registered)
    told = driver.do(nodes(node("n", vcore=100)), apps(app("one", "root.a")))
    told += driver.do(asks(ask("one", "old", on_node="n", vcore=1)))
    assert reasons(told) == []
    assert refused(told) == {}
    assert counts(driver).asks == 1


def test_asks_of_a_small_rm_are_accepted_while_memory_is_short() -> None:
    """While memory is short, asks of RMs that use less than an equal share of it are accepted."""
    driver = started(RmCaps())
    driver.do(asks(*(ask("one", f"k{number}", vcore=1) for number in range(100))))
    driver.do(register(LEAF, "small"), nodes(node("n", vcore=100), rm="small"))
    driver.do(apps(app("one", "root.a"), rm="small"))
    driver.do(RefuseNewWork(shortage=MemoryShortage.NEW, reason=SHORT))
    assert refused(driver.do(asks(ask("one", "k", vcore=1), rm="small"))) == {}
    assert "k" in refused(driver.do(asks(ask("one", "k", vcore=1))))


def test_all_additions_are_refused_while_memory_is_very_short() -> None:
    """While memory is very short, nodes and existing allocations are refused as well.

    An RM that registers again is refused before its books are dropped.
    """
    driver = started(RmCaps())
    driver.do(asks(ask("one", "runs", vcore=1)))
    driver.do(RefuseNewWork(shortage=MemoryShortage.ALL, reason=SHORT))
    (failed,) = driver.do(register(LEAF))
    assert isinstance(failed, RegistrationFailed)
    assert counts(driver).asks == 1
    told = driver.do(apps(app("two", "root.a")))
    assert reasons(told) == [f"application two is refused: {SHORT}"]
    assert counts(driver).ended == 0
    told = driver.do(asks(ask("one", "old", on_node="n", vcore=1)), nodes(node("m", vcore=1)))
    assert refused(told) == {"old": f"allocation old is refused: {SHORT}"}
    assert reasons(told) == [f"node m is refused: {SHORT}"]
    driver.do(RefuseNewWork(shortage=MemoryShortage.NONE))
    assert refused(driver.do(asks(ask("one", "old", on_node="n", vcore=1)))) == {}
