"""A recorded run that is played again with changes."""

from collections.abc import Sequence
from math import inf

import pytest

from licorne_core.config import load
from licorne_core.messages.commands import (
    BeginReplay,
    Command,
    EndReplay,
    Options,
    PredicatePolicy,
    UpdateAllocations,
)
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import NodeId, RmId
from licorne_core.values.rm_caps import RmCaps
from licorne_server.lab.simulation.changes import Changes, parse_nodes
from licorne_server.lab.simulation.comparing import ChangeRefused, Compared, Comparison
from licorne_server.lab.simulation.lives import Lives
from licorne_server.lab.simulation.replaying import replay
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
    remove_apps,
)
from support.core.driver import placed
from support.server.recorded_run import RecordedRun

QUEUES = config("[{name: a, resources: {max: {memory: 2}}}, {name: b}]")
WIDER = config("[{name: a, resources: {max: {memory: 4}}}, {name: b}]")


class Placings:
    """Records the placements and ends of asks, by key."""

    def __init__(self) -> None:
        self.at: dict[str, tuple[float, str]] = {}
        self.released: dict[str, float] = {}

    def passes(self, now: float) -> None:
        """Ignore placements by time alone."""

    def saw(self, now: float, command: Command, effects: Sequence[Effect]) -> None:
        """Record the first placement and the first release of each key."""
        for _, key, node_id in placed(effects):
            self.at.setdefault(key, (now, node_id))
        if isinstance(command, UpdateAllocations):
            for one in command.releases:
                self.released.setdefault(one.key, now)


def compared(run: RecordedRun, changes: Changes) -> tuple[Compared, Placings]:
    """The run with changes, and its placements."""
    lives: list[Lives] = []

    def watched(scheduler: Scheduler) -> list[Lives]:
        lives.append(Lives(scheduler))
        return lives

    live = replay(run.read(), inf, lambda _: None, watched)
    assert live.differs is None
    lives[0].close(live.end)
    seen = Placings()
    comparison = Comparison(run.read(), lives[0], changes, lambda _: [seen])
    return comparison.play(inf, lambda _: None), seen


def busy(run: RecordedRun) -> RecordedRun:
    """Queue a has a maximum of 2 of 4, and four asks of 10 s each."""
    run.at(0.0, register(QUEUES), nodes(node("n1", memory=4)), apps(app("x", "root.a")))
    keys = [f"k{i}" for i in range(4)]
    run.run_for(10.0, *keys)
    run.at(5.0, *(asks(ask("x", key, memory=1)) for key in keys))
    run.at(100.0)
    return run


def test_the_same_configuration_changes_nothing() -> None:
    """A run with its own configuration has no difference, and all inputs are unchanged."""
    run = busy(RecordedRun())
    with_changes, seen = compared(run, Changes(config=load(QUEUES)))
    assert with_changes.difference is None
    assert with_changes.carried.inputs == sum(1 for record in run.records if hasattr(record, "command"))
    assert (with_changes.carried.retimed, dict(with_changes.carried.left_out)) == (0, {})
    assert seen.at == run.placed


def test_another_configuration_shows_the_first_difference() -> None:
    """An ask blocked by the maximum in the live run starts at once, and ends earlier."""
    run = busy(RecordedRun())
    assert run.placed["k2"] == (15.0, "n1")
    with_changes, seen = compared(run, Changes(config=load(WIDER)))
    found = with_changes.difference
    assert found is not None
    assert (found.time, found.decision.key) == (5.0, "k2")
    assert (found.live, found.changed) == ("it goes to node n1, 10 s later", "it goes to node n1")
    assert seen.at == dict.fromkeys(("k0", "k1", "k2", "k3"), (5.0, "n1"))
    assert seen.released == dict.fromkeys(("k0", "k1", "k2", "k3"), 15.0)


def test_added_nodes_run_waiting_asks() -> None:
    """Added nodes are created with the first nodes of their RM, and waiting asks run on them."""
    run = RecordedRun()
    run.at(0.0, register(config("[{name: a}]")), nodes(node("n1", memory=1)), apps(app("x", "root.a")))
    run.run_for(50.0, "k0", "k1")
    run.at(10.0, asks(ask("x", "k0", memory=1), ask("x", "k1", memory=1)))
    run.at(100.0)
    assert run.placed["k1"] == (60.0, "n1")
    with_changes, seen = compared(run, Changes(nodes=(parse_nodes("+2xmemory=1,rack=r1"),)))
    found = with_changes.difference
    assert found is not None
    assert found.time == 10.0
    assert {node_id for _, node_id in seen.at.values()} <= {"n1", "added-1", "added-2"}
    assert [time for time, _ in seen.at.values()] == [10.0, 10.0]
    [partition] = with_changes.player.scheduler.partitions.values()
    assert dict(partition.nodes.by_id[NodeId("added-2")].attributes)["rack"] == "r1"


def test_releases_follow_delayed_placements() -> None:
    """A release before its ask is placed here is made after the ask's run time."""
    run = RecordedRun()
    run.at(0.0, register(WIDER), nodes(node("n1", memory=4)), apps(app("x", "root.a")))
    keys = [f"k{i}" for i in range(4)]
    run.run_for(10.0, *keys)
    run.at(5.0, *(asks(ask("x", key, memory=1)) for key in keys))
    run.at(40.0, remove_apps("x"))
    run.at(60.0, nodes(node("n2", memory=1)))
    narrow = config("[{name: a, resources: {max: {memory: 1}}}, {name: b}]")
    with_changes, seen = compared(run, Changes(config=load(narrow)))
    assert [time for time, _ in seen.at.values()] == [5.0, 15.0, 25.0, 35.0]
    assert [seen.released[key] for key in keys] == [15.0, 25.0, 35.0, 45.0]
    found = with_changes.difference
    assert found is not None
    assert (found.live, found.changed) == ("it goes to node n1", "it goes to node n1, 10 s later")


def test_a_withdrawn_ask_is_withdrawn_in_the_changed_run() -> None:
    """A release of an ask that never ran live is made at its time, even if the ask runs here."""
    run = RecordedRun()
    run.at(0.0, register(QUEUES), nodes(node("n1", memory=4)), apps(app("x", "root.a")))
    run.at(5.0, *(asks(ask("x", f"k{i}", memory=1)) for i in range(3)))
    run.at(30.0, releases(release("x", "k2")))
    run.at(60.0)
    assert "k2" not in run.placed
    with_changes, seen = compared(run, Changes(config=load(WIDER)))
    assert (seen.at["k2"], seen.released["k2"]) == ((5.0, "n1"), 30.0)
    [partition] = with_changes.player.scheduler.partitions.values()
    assert set(partition.applications["x"].requests) == {"k0", "k1"}  # type: ignore[index]


def test_answers_to_checks_are_those_of_the_journal() -> None:
    """An RM refuses the node that it refused to such asks live, and accepts one that it never judged."""
    run = RecordedRun()
    run.refused = {"n1": "wrong arch"}
    run.at(0.0, register(QUEUES, predicates=PredicatePolicy(deadline=10)))
    run.at(0.0, nodes(node("n1", memory=8), node("n2", memory=8)), apps(app("x", "root.a")))
    run.at(5.0, *(asks(ask("x", f"k{i}", predicate="arm", memory=1)) for i in range(3)))
    run.at(60.0)
    with_changes, seen = compared(run, Changes(config=load(WIDER)))
    assert {node_id for _, node_id in run.placed.values()} == {"n2"}
    assert seen.at["k2"] == (5.0, "n2")
    assert with_changes.carried.answered > 0


def test_a_restarted_rm_replays_the_changed_run() -> None:
    """After a restart the RM replays its allocations on the nodes of this run, in whole numbers."""
    run = RecordedRun()
    run.at(0.0, register(QUEUES), nodes(node("n1", memory=4)), apps(app("x", "root.a")))
    run.run_for(40.0, "k0", "k1", "k2")
    run.at(5.0, *(asks(ask("x", f"k{i}", memory=1)) for i in range(3)))
    rm = RmId(RM)
    run.at(
        20.0, register(QUEUES), BeginReplay(rm_id=rm), nodes(node("n1", memory=4)), apps(app("x", "root.a"))
    )
    told = [ask("x", f"k{i}", memory=1, on_node="n1") for i in range(2)]
    run.at(20.0, asks(*told, ask("x", "k2", memory=1)))
    run.at(20.0, EndReplay(rm_id=rm, nodes=1, applications=1, allocations=3))
    run.at(100.0)
    assert run.placed["k2"] == (45.0, "n1")
    with_changes, seen = compared(run, Changes(config=load(WIDER)))
    assert seen.at["k2"] == (5.0, "n1")
    assert seen.released == {"k0": 45.0, "k1": 45.0, "k2": 45.0}
    [partition] = with_changes.player.scheduler.partitions.values()
    assert not partition.holds


def test_spared_victims_continue() -> None:
    """A victim of the live run continues here for the mean run time of its application's other asks."""
    queues = (
        "[{name: a, resources: {guaranteed: {memory: %d}}, properties: {preemption.delay: 1s}}, {name: b}]"
    )
    run = RecordedRun()
    run.at(0.0, register(config(queues % 2)), nodes(node("n1", memory=2)))
    run.at(0.0, apps(app("x", "root.a"), app("y", "root.b")))
    run.run_for(30.0, "y0", "x1")
    run.at(0.0, asks(ask("y", "y0", memory=1)))
    run.at(40.0, asks(ask("y", "y1", memory=1, policy="s"), ask("y", "y2", memory=1, policy="s")))
    run.at(50.0, asks(ask("x", "x1", memory=1, policy="o")))
    run.at(200.0)
    assert run.placed["x1"][0] < 60.0
    with_changes, seen = compared(run, Changes(config=load(config("[{name: a}, {name: b}]"))))
    assert with_changes.difference is not None
    assert seen.at["x1"][0] == 70.0
    assert with_changes.carried.estimated >= 1


def test_a_refused_configuration_ends_the_comparison() -> None:
    """An invalid configuration for an RM is an error that names the RM."""
    run = busy(RecordedRun(Options(rm_caps=RmCaps(queues=3))))
    with pytest.raises(ChangeRefused, match=f"RM {RM}.*queues"):
        compared(run, Changes(config=load(config("[{name: a}, {name: b}, {name: c}]"))))


def test_reloads_of_a_changed_rm_are_left_out() -> None:
    """The changed configuration applies to the end, and other RMs keep theirs."""
    run = RecordedRun()
    for rm in ("one", "two"):
        run.at(0.0, register(WIDER, rm), nodes(node("n1", memory=4), rm=rm), apps(app("x", "root.a"), rm=rm))
        run.at(1.0, reload(QUEUES, rm))
    run.at(5.0, *(asks(ask("x", f"{rm}{i}", memory=1), rm=rm) for i in range(3) for rm in ("one", "two")))
    run.at(60.0)
    _, seen = compared(run, Changes(config=load(WIDER), rms=frozenset({RmId("one")})))
    assert set(seen.at) == {"one0", "one1", "one2", "two0", "two1"}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("20xmemory=1", "is not like"),
        ("+20", "is not like"),
        ("+0xmemory=1", "0 nodes"),
        ("+1xmemory", "is no NAME=VALUE"),
        ("+1xrack=r1", "has no amounts"),
        ("+1xmemory=1,memory=2", "is in"),
    ],
)
def test_unusable_nodes_are_refused(text: str, part: str) -> None:
    """An invalid text of nodes is refused with a description of the problem."""
    with pytest.raises(ValueError, match=part):
        parse_nodes(text)


def test_nodes_have_amounts_attributes_and_a_partition() -> None:
    """In the text of a node quantities are amounts in the core's units, and other values are attributes."""
    added = parse_nodes("+20xvcore=32,memory=128Gi,nvidia.com/gpu=8,rack=r7,partition=gpu")
    assert (added.count, added.partition, added.attributes) == (20, "gpu", {"rack": "r7"})
    assert added.capacity == {"vcore": 32_000, "memory": 128 * 2**30, "nvidia.com/gpu": 8}
