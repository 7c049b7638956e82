"""Large commands that are processed in slices, and other commands between the slices."""

import json
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import pytest

from extensions.stops.building import kill
from licorne_core.handlers.turn import MOST_QUEUES
from licorne_core.messages.commands import Command, Hold, NodeAction, PredicatePolicy, RemoveRm, SetHold, Tick
from licorne_core.messages.effects import Effect, Happened, NotRegistered, Registered, Unfinished
from licorne_core.messages.events.records import EventChange, EventType, Fact
from licorne_core.values.ids import RmId
from licorne_core.values.slices import PART, Tuning
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
    remove_apps,
)
from support.core.driver import Driver, asked, keys
from support.core.steps import lines_of_core

WIDE = 1_200
"""The number of queues in a configuration that takes more than two slices of the usual size."""


def wide(count: int, memory: int = 9, name: str = "default") -> str:
    """A configuration with root.a and this number of further queues, each with a maximum."""
    size = {"resources": {"max": {"memory": memory}}}
    queues = [{"name": "a"}, *({"name": f"q{n}"} | size for n in range(count))]
    return config(json.dumps(queues), name=name)


def slices_of(driver: Driver) -> int:
    """Process the remaining slices of the command; return their number."""
    slices = 0
    while driver.rest is not None:
        driver.begin(driver.rest)
        slices += 1
    return slices


def test_a_large_registration_takes_slices() -> None:
    """A slice of a registration builds at most `slice_size` queues; the answer follows the last slice."""
    driver = Driver()
    assert driver.begin(register(wide(WIDE))) == []
    assert not driver.views.rms()
    assert slices_of(driver) >= WIDE // Tuning().slice_size
    assert len(driver.partition.tree) == WIDE + 2


def test_a_large_reload_takes_slices() -> None:
    """A slice of a reload changes or removes at most `slice_size` queues."""
    driver = Driver()
    driver.do(register(wide(WIDE)))
    for changed in (wide(WIDE, memory=8), wide(1)):
        driver.begin(reload(changed))
        assert slices_of(driver) >= WIDE // Tuning().slice_size


def removed_queues(facts: Sequence[Fact]) -> int:
    """The number of removed queues among the facts."""
    records = [record for fact in facts for record in fact.records()]
    removed = [record for record in records if record.change is EventChange.REMOVE]
    return sum(record.type is EventType.QUEUE and not record.reference_id for record in removed)


def test_a_removed_partition_of_many_queues_takes_slices() -> None:
    """A slice of the removal of a partition has events of at most `slice_size` queues."""
    driver = Driver()
    driver.do(register(wide(WIDE, name="other")))
    driver.facts.clear()
    driver.begin(reload(wide(0)))
    most = known = len(driver.facts)
    while driver.rest is not None:
        driver.begin(driver.rest)
        most, known = max(most, len(driver.facts) - known), len(driver.facts)
    assert removed_queues(driver.facts) == WIDE + 2
    assert most <= Tuning().slice_size


def test_a_change_of_the_order_of_many_nodes_takes_slices() -> None:
    """A reload with another node order takes slices, in each of which some nodes are sorted."""
    driver = Driver(tuning=Tuning(slice_size=10))
    driver.do(register(config("[{name: a}]")))
    driver.do(nodes(*[node(f"n{number}", vcore=number + 1) for number in range(400)]))
    driver.begin(reload(config("[{name: a}]", rest="nodesortpolicy: {type: binpacking}")))
    assert slices_of(driver) >= 3 * 400 // (10 * PART)
    driver.do(apps(app("app", "root.a")))
    assert keys(driver.do(asks(ask("app", "k", vcore=400)))) == ["k"]


def foreign_left(driver: Driver) -> list[int]:
    """The numbers of foreign allocations that remain now and after each slice of the command."""
    partition = driver.partition
    left = [len(partition.foreign)]
    while driver.rest is not None:
        driver.begin(driver.rest)
        left.append(len(partition.foreign))
    return left


@pytest.mark.parametrize(
    "ends",
    [nodes(node("n", NodeAction.DECOMISSION)), reload(config("[{name: a}]", name="other"))],
    ids=["node goes", "partition goes"],
)
def test_the_removal_of_a_node_with_many_foreign_allocations_takes_slices(ends: Command) -> None:
    """A slice removes at most `slice_size` foreign allocations; the last slice removes the node."""
    driver = Driver(tuning=Tuning(slice_size=10))
    driver.do(register(config("[{name: a}]")), nodes(node("n", vcore=99), node("m", vcore=1)))
    partition = driver.partition
    foreign = [ask("", f"f{n}", on_node="n", tags={"foreign": "true"}, vcore=1) for n in range(35)]
    driver.do(asks(*foreign))
    driver.begin(ends)
    left = foreign_left(driver)
    assert max(before - after for before, after in pairwise([35, *left])) == 10
    assert (left[-1], "n" in partition.nodes.by_id) == (0, False)


def _longest_slice(command: Command, count: int) -> int:
    """Lines of code executed in the longest slice of a command, with this number of asks and allocations."""
    driver = Driver(tuning=Tuning(slice_size=50))
    driver.do(register(config("[{name: a}]")), nodes(node("n", vcore=count)))
    driver.do(apps(app("app", "root.a")))
    # This number shows growth; with more, the sums over the books would take most of the test's time.
    handle = driver.scheduler.handle
    handle(asks(*(ask("app", f"r{i}", vcore=1, on_node="n") for i in range(count))), driver.now)
    handle(asks(*(ask("app", f"k{i}", vcore=9) for i in range(count))), driver.now)
    rest: Command | None = command
    most = 0
    while rest is not None:
        effects: list[Effect] = []
        most = max(most, lines_of_core(partial(_handle, driver, rest, effects)))
        last = effects[-1] if effects else None
        rest = last.rest if isinstance(last, Unfinished) else None
    return most


def _handle(driver: Driver, command: Command, effects: list[Effect]) -> None:
    effects += driver.scheduler.handle(command, driver.now)


@pytest.mark.pure
@pytest.mark.parametrize(
    "command",
    [
        kill("app"),
        remove_apps("app"),
        releases(release("app")),
        nodes(node("n", NodeAction.DECOMISSION)),
        reload(config("[{name: a}]", name="another")),
    ],
    ids=["stop", "removal", "release", "decommission", "partition"],
)
def test_more_objects_make_more_slices_not_longer_ones(command: Command) -> None:
    """Six times as many asks and allocations take more slices, but no longer slices."""
    assert _longest_slice(command, 2_400) <= 1.25 * _longest_slice(command, 400)


def test_empty_queues_are_removed_in_slices() -> None:
    """A tick removes at most `MOST_QUEUES` of the queues that are empty at one deadline."""
    driver = Driver()
    driver.do(register(wide(MOST_QUEUES + 1)))
    driver.do(reload(wide(0)))
    driver.now += 10.0
    counts = []
    while len(driver.partition.tree) > 2:
        effects = driver.scheduler.handle(Tick(decisions=1), driver.now)
        facts = [fact for e in effects if isinstance(e, Happened) for fact in e.facts]
        counts.append(removed_queues(facts))
    assert counts == [MOST_QUEUES, 1]


def test_no_deadline_is_handled_between_two_slices() -> None:
    """Work that becomes due between two slices of a command is done after its last slice."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(wide(3)))
    driver.do(reload(wide(1)))
    driver.begin(reload(wide(2)))
    driver.now += 60.0
    assert driver.scheduler.next_deadline() is None
    slices_of(driver)
    driver.run()
    assert driver.partition.tree.get("root.q2") is None
    assert driver.partition.tree.get("root.q1") is not None


def test_an_answer_between_two_slices_is_accepted() -> None:
    """An ask whose node the RM accepts during a reload in slices is placed, and counted once."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(wide(3), predicates=PredicatePolicy()), nodes(node("n", memory=9)))
    driver.do(apps(app("app", "root.a")))
    effects = driver.do(asks(ask("app", "k", memory=1, predicate="p")))
    (check,) = asked(effects)
    driver.begin(reload(wide(3, memory=1)))
    assert driver.rest is not None
    rest = driver.rest
    assert keys(driver.send(answering(check))) == ["k"]
    driver.rest = rest
    slices_of(driver)
    driver.run()
    assert driver.partition.tree.root.allocated == {"memory": 1}


def test_victim_searches_see_amounts_freed_in_slices() -> None:
    """A search for victims after a command in slices sees all amounts that its slices have freed."""
    driver = Driver(tuning=Tuning(slice_size=1))
    poor = "{name: poor, properties: {preemption.delay: 5s}, resources: {guaranteed: {memory: 9}}}"
    rich = "{name: rich, properties: {preemption.minimum.runtime: 100s}}"
    driver.do(register(config(f"[{rich}, {poor}]")))
    driver.do(nodes(node("m", memory=1), node("n", memory=2)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    runs = [ask("rich", f"r{n}", policy="s", priority=n, on_node="mnn"[n], memory=1) for n in range(3)]
    driver.do(asks(*runs))
    driver.do(asks(ask("poor", "p", policy="o", memory=1)))
    driver.wait(20)
    driver.begin(releases(release("rich")))
    assert slices_of(driver) >= 2


def test_a_hold_that_begins_during_a_registration_remains() -> None:
    """A hold of the server that begins during a registration also holds the new session."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(wide(1)))
    driver.begin(register(wide(2)))
    rest = driver.rest
    assert rest is not None
    driver.send(SetHold(rm_id=RmId("rm1"), hold=Hold.DRAINING, on=True))
    driver.rest = rest
    slices_of(driver)
    assert list(driver.partition.holds) == [Hold.DRAINING]


def test_a_replaced_registration_leaves_no_state() -> None:
    """A registration that replaces an unfinished one starts without its state."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.begin(register(wide(3)))
    (effect,) = driver.send(register(wide(1)))
    assert isinstance(effect, Registered)
    assert len(driver.partition.tree) == 3


def test_a_command_of_a_removed_rm_has_no_further_slices() -> None:
    """The remaining slices of a reload have no effect once its RM is removed."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(wide(1)))
    driver.begin(reload(wide(3)))
    rest = driver.rest
    assert rest is not None
    driver.send(RemoveRm(rm_id=RmId("rm1")))
    (effect,) = driver.scheduler.handle(rest, driver.now)
    assert isinstance(effect, NotRegistered)
    assert not isinstance(driver.send(register(wide(1)))[-1], Unfinished)


def test_a_gang_that_loses_its_placeholders_in_slices_has_no_timeout() -> None:
    """The recount holds between slices that remove a node with the only placeholder of a gang."""
    driver = Driver(tuning=Tuning(slice_size=1))
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    driver.do(apps(app("job", "root.a", gang={"vcore": 1})))
    driver.do(asks(ask("job", "member", placeholder=True, group="g", vcore=1)))
    driver.begin(nodes(node("n1", NodeAction.DECOMISSION)))
    assert slices_of(driver)
