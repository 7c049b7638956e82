"""Refusals of invalid items, and bounds on growth (reliability A7, security)."""

import pytest

from licorne_core.handlers import bounds
from licorne_core.messages.commands import BeginReplay, EndReplay, Hold, NodeAction, SetHold, Tick
from licorne_core.messages.effects import Effect, NodesAnswered, ReplayEnded
from licorne_core.scheduling.waiting.blockers import RunningLimit
from licorne_core.scheduling.waiting.shortages import QuotaPool
from licorne_core.scheduling.waiting.supply import ReservableSupply, Supply
from licorne_core.values.asks import Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_core.values.resources import INT64_MAX
from licorne_core.values.slices import Tuning
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
from support.core.driver import Driver, keys, refused, released, states

LEAF = config("[{name: a}]")
TWO = LEAF + LEAF.removeprefix("partitions:\n").replace("name: default", "name: gpu")


def started(text: str = LEAF, *capacities: int) -> Driver:
    """A core with one application, and nodes with these thousandths of a core."""
    driver = Driver()
    driver.do(register(text), apps(app("one", "root.a")))
    driver.do(nodes(*(node(f"n{number}", vcore=size) for number, size in enumerate(capacities))))
    return driver


def node_refusals(effects: list[Effect]) -> list[str]:
    """The reasons for refused nodes."""
    return [
        refusal.reason
        for effect in effects
        if isinstance(effect, NodesAnswered)
        for refusal in effect.rejected
    ]


@pytest.mark.row(110)
def test_sums_stay_within_int64() -> None:
    """Only the ask, allocation or foreign allocation that raises a total beyond int64 is refused."""
    driver = started(LEAF, 10, 10)
    huge = INT64_MAX
    assert refused(driver.do(asks(ask("one", "k1", vcore=huge)))) == {}
    assert "beyond int64" in refused(driver.do(asks(ask("one", "k2", vcore=1))))["k2"]
    assert refused(driver.do(asks(foreign("f1", "n0", vcore=huge)))) == {}
    assert "beyond int64" in refused(driver.do(asks(foreign("f2", "n0", vcore=1))))["f2"]
    placed_there = ask("one", "k1", on_node="n0", vcore=huge)
    assert "beyond int64" in refused(driver.do(asks(placed_there)))["k1"]


def test_the_total_of_equal_asks_must_not_exceed_int64() -> None:
    """The ask that raises the total beyond int64 is refused, although each ask is small."""
    driver = started(LEAF, 10)
    eighth = INT64_MAX // 8
    same = [ask("one", f"k{number}", vcore=eighth) for number in range(9)]
    assert refused(driver.do(asks(*same[:8]))) == {}
    assert "beyond int64" in refused(driver.do(asks(same[8])))["k8"]
    assert refused(driver.do(asks(ask("one", "small", vcore=1)))) == {}


def test_a_resize_is_bounded_by_the_new_total() -> None:
    """An ask of 2**62 can be resized: the new total is within int64, but old and new together are not."""
    driver = started(LEAF, 10)
    driver.do(asks(ask("one", "k1", vcore=2**62)))
    assert refused(driver.do(asks(ask("one", "k1", vcore=2**62 + 5)))) == {}
    assert driver.partition.tree.root.pending == {"vcore": 2**62 + 5}


def test_sums_of_an_overfull_node_are_exact() -> None:
    """The sums of an extremely overfull node are right again after releases."""
    driver = started(LEAF, 10)
    driver.do(asks(ask("one", "k1", on_node="n0", vcore=2**61)))
    driver.do(asks(foreign("f1", "n0", vcore=2**61)))
    driver.do(releases(release("one", "k1")))
    assert driver.partition.nodes.by_id[node("n0").node_id].available == {"vcore": 10 - 2**61}


def test_one_resource_type_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition accepts a fixed number of resource types, in asks and nodes together."""
    driver = started(LEAF, 10)
    odd = [Ask(AllocationKey(f"k{n}"), AppId("one"), AskClass.of({f"type{n}": 1})) for n in range(300)]
    monkeypatch.setattr(bounds, "MAX_RESOURCE_TYPES", 256)
    effects = driver.do(asks(*odd))
    assert len(refused(effects)) == 300 - 255
    assert refused(effects)["k299"] == (
        "resource type type299 is one too many: partition [rm1]default takes 256"
    )
    assert "one too many" in node_refusals(driver.do(nodes(node("late", novelty=1))))[0]
    assert keys(driver.do(asks(ask("one", "known", vcore=1)))) == ["known"]


def test_resource_types_of_a_refused_ask_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After an ask with too many types is refused, later asks may still use as many types as before."""
    monkeypatch.setattr(bounds, "MAX_RESOURCE_TYPES", 4)
    driver = started(LEAF, 10)
    many = Ask(AllocationKey("many"), AppId("one"), AskClass.of(dict.fromkeys("abcdef", 1)))
    assert "resource type d is one too many" in refused(driver.do(asks(many)))["many"]
    few = Ask(AllocationKey("few"), AppId("one"), AskClass.of(dict.fromkeys("xyz", 1)))
    assert refused(driver.do(asks(few))) == {}


@pytest.mark.slow
def test_removed_objects_leave_nothing() -> None:
    """After any number of removals, classes, blockers and heaps are as few as the remaining objects need.

    An empty node pool of each kind remains.
    """
    driver = started(LEAF, 10, 10)
    for number in range(400):
        size = 11 + number
        driver.do(asks(ask("one", f"big{number}", vcore=size), ask("one", f"k{number}", vcore=3)))
        driver.do(asks(ask("one", f"own{number}", vcore=size, required_node="n1")))
        driver.do(releases(*(release("one", f"{key}{number}") for key in ("big", "k", "own"))))
    held = driver.partition
    assert (held.index._groups, [*held.index.supplies]) == ({}, [])
    pools = held.index.supplies._pools
    assert pools.keys() <= {(Supply, None), (ReservableSupply, None)}
    for pool in pools.values():
        assert [*pool.rooms, *pool._short, *pool.waiting_lines] == []
        assert (pool.least, pool.top) == (None, None)
    assert not any(held.wakeups.blockers.of(kind) for kind in (QuotaPool, RunningLimit))
    assert len(held.index.heaps._everything.entries) < 100


def test_short_lived_applications_without_nodes_leave_nothing() -> None:
    """A partition without nodes, which has no turns, keeps no removed applications."""
    driver = started()
    for number in range(50):
        driver.do(apps(app(f"x{number}", "root.a")), asks(ask(f"x{number}", "k", vcore=1)))
        driver.do(remove_apps(f"x{number}"))
    assert len(driver.partition.dirty.apps) <= 1


def test_repeated_rejections_of_an_id_have_one_timer() -> None:
    """An id that is rejected and accepted repeatedly has one listed rejection, with one expiry."""
    driver = started()
    for _ in range(30):
        driver.do(apps(app("x", "root.nosuch")), apps(app("x", "root.a")), remove_apps("x"))
    driver.do(apps(app("x", "root.nosuch")), apps(app("x", "root.nosuch")))
    assert len(driver.partition.timers.names()) == len(driver.partition.rejected) == 1


@pytest.mark.row(57)
def test_a_removed_partition_reports_all_its_objects() -> None:
    """A removed partition releases allocations, fails its applications, and completes a completing one."""
    driver = Driver()
    driver.do(register(TWO), nodes(node("n1", partition="gpu", vcore=10)))
    driver.do(apps(app("runs", "root.a", partition="gpu"), app("done", "root.a", partition="gpu")))
    driver.do(asks(*(ask(who, who, vcore=1, partition="gpu") for who in ("runs", "done"))))
    driver.do(releases(release("done", "done", partition="gpu")))
    effects = driver.do(reload(LEAF))
    assert released(effects) == [("runs", "runs", "STOPPED_BY_RM", "PartitionRemoved")]
    assert states(effects, "runs") == ["Failing", "Failed"]
    assert states(effects, "done") == ["Completed"]


def test_a_node_request_without_partition_prefers_default() -> None:
    """A request without a partition is for the node of `default`, or else for that of another partition."""
    driver = Driver()
    driver.do(register(TWO))
    driver.do(nodes(node("n1", vcore=1), node("n1", partition="gpu", vcore=2)))
    driver.do(nodes(node("g1", partition="gpu", vcore=4)))
    driver.do(nodes(node("n1", NodeAction.DECOMISSION), node("g1", NodeAction.DECOMISSION)))
    left = {p.bare_name: dict(p.capacity) for p in driver.views.partitions()}
    assert left == {"default": {}, "gpu": {"vcore": 2}}


def test_a_new_registration_keeps_the_holds_of_the_server() -> None:
    """A new registration ends the hold of a replay, but not the hold of a draining server."""
    driver = started(LEAF, 10)
    rm = RmId(RM)
    driver.do(SetHold(rm_id=rm, hold=Hold.DRAINING, on=True), BeginReplay(rm_id=rm))
    driver.do(register(LEAF))
    assert driver.views.partitions()[0].holds == ("server draining",)


def test_an_unexpected_end_of_a_replay_is_refused() -> None:
    """The end of a replay that did not begin is an error, and the RM has to replay before it is scheduled."""
    driver = started(LEAF, 10)
    rm = RmId(RM)
    effects = driver.do(EndReplay(rm_id=rm, nodes=0, applications=0, allocations=0))
    assert effects == [ReplayEnded(rm_id=rm, missing="no replay was begun")]
    assert keys(driver.do(asks(ask("one", "k1", vcore=1)))) == []
    driver.do(BeginReplay(rm_id=rm))
    done = driver.do(EndReplay(rm_id=rm, nodes=0, applications=0, allocations=0))
    assert keys(done) == ["k1"]


def test_a_resize_is_not_counted_as_a_release() -> None:
    """A resize of an allocation does not change the counters of allocations and releases."""
    driver = started(LEAF, 10)
    driver.do(asks(ask("one", "k1", vcore=1)))
    for size in (2, 3, 4):
        driver.do(asks(ask("one", "k1", vcore=size)))
    leaf = driver.queue("root.a")
    assert (leaf.counters.allocations_made, leaf.counters.allocations_released) == (1, 0)
    assert leaf.allocated == {"vcore": 4}


def test_the_reported_share_is_current() -> None:
    """Root and leaf report their present share of the cluster, even while nothing is scheduled."""
    driver = started(LEAF, 100)
    driver.do(asks(ask("one", "k1", vcore=50)))
    driver.do(BeginReplay(rm_id=RmId(RM)), asks(ask("one", "k2", on_node="n0", vcore=40)))
    assert driver.queue("root").share == 0.9


def test_a_turn_has_a_bounded_number_of_tries() -> None:
    """A turn ends after a fixed number of tries, and the next turn tries the following asks."""
    driver = started(LEAF, *([10] * 20))
    driver.do(SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=True))
    driver.do(asks(*(ask("one", f"k{n}", priority=1, vcore=11 + n % 150) for n in range(300))))
    driver.do(asks(ask("one", "small", vcore=1)))
    held = driver.partition
    driver.send(SetHold(rm_id=RmId(RM), hold=Hold.DRAINING, on=False))
    turns = 0
    while held.is_runnable:
        before = held.effort.tried
        driver.send(Tick(decisions=1))
        assert held.effort.tried - before <= 64
        turns += 1
    assert turns > 2
    assert driver.views.application(held.name, "one").allocation_count == 1


def test_one_task_group_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application may have a fixed number of task groups; asks of existing groups are still accepted."""
    monkeypatch.setattr(bounds, "MAX_TASK_GROUPS", 3)
    driver = started(LEAF, 10)
    many = [ask("one", f"k{n}", placeholder=True, group=f"g{n}", vcore=1) for n in range(5)]
    effects = driver.do(asks(*many))
    assert refused(effects) == {
        f"k{n}": f"allocation k{n}: task group g{n} is one too many: application one has 3" for n in (3, 4)
    }
    assert refused(driver.do(asks(ask("one", "k5", placeholder=True, group="g2", vcore=1)))) == {}
    assert refused(driver.do(asks(ask("one", "real", group="g9", vcore=1)))) == {}


def test_a_command_in_slices_is_counted_once() -> None:
    """A command of a replay counts once, however many slices it takes."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(config("[{name: a}]")), nodes(node("n", vcore=9)), apps(app("one", "root.a")))
    driver.do(asks(*(ask("one", f"k{number}", on_node="n", vcore=1) for number in range(5))))
    rm_id = RmId(RM)
    gone = nodes(node("n", NodeAction.DECOMISSION), node("m", vcore=5))
    driver.do(BeginReplay(rm_id=rm_id), gone)
    told = driver.do(EndReplay(rm_id=rm_id, nodes=2, applications=0, allocations=0))
    assert told == [ReplayEnded(rm_id=rm_id)]
