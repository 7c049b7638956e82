"""A core in virtual time."""

from licorne_core.messages.commands import Hold, UpdateAllocations
from licorne_core.messages.effects import AllocationsMade, AllocationsReleased
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import AppId
from licorne_core.values.slices import Tuning
from licorne_server.lab.simulation.player import Player
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import placed


def test_turns_are_at_their_deadlines() -> None:
    """Time moves from deadline to deadline, and each turn yields its effects at its time."""
    player = Player(Scheduler())
    for command in (register(config("[{name: a}]")), nodes(node("n1", memory=1))):
        player.feed(100.0, command)
    player.feed(100.0, apps(app("gang", "root.a", gang={"memory": 2}, timeout=30)))
    player.feed(100.0, asks(ask("gang", "p1", placeholder=True, group="g", memory=1)))
    told = [(player.now, effect) for effects in player.advance(200.0) for effect in effects]
    assert [now for now, effect in told if isinstance(effect, AllocationsMade)] == [100.0]
    assert [now for now, effect in told if isinstance(effect, AllocationsReleased)] == [130.0]
    assert player.now == 200.0


def test_commands_may_be_fed_between_turns() -> None:
    """The effects of a turn can be answered before time moves."""
    player = Player(Scheduler())
    player.feed(0.0, register(config("[{name: a}]")))
    player.feed(0.0, nodes(node("n1", memory=1)))
    player.feed(0.0, apps(app("job", "root.a")))
    player.feed(0.0, asks(*(ask("job", f"k{i}", memory=1) for i in range(3))))
    order = []
    for effects in player.advance(60.0):
        for app_id, key, _ in placed(effects):
            order.append((player.now, key))
            player.feed(player.now, releases(release(app_id, key)))
    assert order == [(0.0, "k0"), (0.0, "k1"), (0.0, "k2")]


def test_feed_completes_a_large_command() -> None:
    """A command of many slices is complete when `feed` returns, and nothing is on hold."""
    player = Player(Scheduler(tuning=Tuning(slice_size=2)))
    player.feed(0.0, register(config("[{name: a}]")))
    player.feed(0.0, apps(app("job", "root.a")))
    player.feed(0.0, asks(*(ask("job", f"k{i}", memory=1) for i in range(20))))
    before = player.handled
    player.feed(1.0, releases(release("job")))
    [partition] = player.scheduler.partitions.values()
    assert player.handled > before + 1
    assert not partition.applications[AppId("job")].requests
    assert Hold.UNFINISHED not in partition.holds


def test_a_defect_holds_its_rm_only() -> None:
    """A defect met for one RM puts only that RM on hold, as in the engine."""
    player = Player(Scheduler())
    for rm in ("bad", "good"):
        player.feed(0.0, register(config("[{name: a}]"), rm))
    broken = UpdateAllocations(rm_id="bad", asks=[None])  # type: ignore[arg-type, list-item]
    player.feed(0.0, broken)
    holds = {one.rm_id: list(one.holds) for one in player.scheduler.partitions.values()}
    assert holds == {"bad": [Hold.DEFECT], "good": []}
    assert player.defects == 1
