"""Operators act in random worlds: the books are consistent, and delayed asks are placed later."""

from collections.abc import Iterator
from random import Random

import pytest

from extensions.drains.building import cordon
from extensions.queue_stops.building import start, stop
from extensions.stops.building import kill
from licorne_core.extensions.drains.messages import DrainNode, SetNodeSchedulable
from licorne_core.extensions.queue_stops.messages import SetQueueStopped
from licorne_core.extensions.stops.messages import StopApplication
from licorne_core.messages.commands import Command, TerminationType
from licorne_core.messages.effects import AllocationsReleased, Effect
from licorne_core.model.queues.queue import QueueState
from licorne_core.scheduler import Scheduler
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver
from support.worlds import World
from support.worlds.playing import Players


def some_act(rng: Random, scheduler: Scheduler) -> Iterator[Command]:
    """A random command of an operator for one of the partitions, or none."""
    if not scheduler.partitions or rng.random() < 0.5:
        return
    partition = rng.choice(list(scheduler.partitions.values()))
    rm_id, name, on = partition.rm_id, partition.name, rng.random() < 0.5
    kind = rng.random()
    if kind < 0.45:
        queue = rng.choice(list(partition.tree.all())).path
        yield SetQueueStopped(rm_id=rm_id, partition=name, queue=queue, stopped=on)
    elif kind < 0.8 and partition.nodes.by_id:
        node_id = rng.choice(list(partition.nodes.by_id))
        if rng.random() < 0.3:
            seconds = rng.choice([None, 0.0, 1.0, 10.0])
            yield DrainNode(rm_id=rm_id, partition=name, node_id=node_id, seconds=seconds)
        else:
            yield SetNodeSchedulable(rm_id=rm_id, partition=name, node_id=node_id, schedulable=on)
    elif partition.applications:
        app_id = rng.choice(list(partition.applications))
        yield StopApplication(rm_id=rm_id, partition=name, app_id=app_id, reason="")


def all_on(scheduler: Scheduler) -> Iterator[Command]:
    """Commands that start all stopped queues and uncordon all nodes."""
    for name, partition in scheduler.partitions.items():
        rm_id = partition.rm_id
        for queue in partition.tree.all():
            if queue.state is QueueState.STOPPED:
                yield SetQueueStopped(rm_id=rm_id, partition=name, queue=queue.path, stopped=False)
        for node_id in partition.nodes.by_id:
            yield SetNodeSchedulable(rm_id=rm_id, partition=name, node_id=node_id, schedulable=True)


@pytest.mark.worlds(first=12_000_000, one_in=10)
def test_the_books_are_consistent_after_any_acts(part: range) -> None:
    """The recount holds after each step, and in an idle core no ask waits that could be placed."""
    for seed in part:
        rng = Random(seed)
        driver = Driver()
        players = Players(driver)
        for now, command in World(seed).steps:
            driver.now = now
            players.reply()
            for act in some_act(rng, driver.scheduler):
                players.send(act)
            players.send(command)
        for act in list(all_on(driver.scheduler)):
            players.send(act)
        driver.run()


QUEUES = (
    "[{name: a, resources: {max: {memory: 6}}, queues: [{name: x, resources: {max: {memory: 4}}}, "
    "{name: y}]}, {name: b, resources: {max: {memory: 5}}}, {name: c}]"
)
LEAVES = ("root.a.x", "root.a.y", "root.b", "root.c")


@pytest.mark.worlds(first=12_500_000, one_in=10)
def test_asks_delayed_by_operators_are_placed_later(part: range) -> None:
    """If all asks have the same size, as many are placed in the end as without stops.

    Since each maximum lies within another, the number does not depend on the order of placement.
    """
    for seed in part:
        rng = Random(seed)
        meddled, plain = Driver(), Driver()

        def both(command: Command, pair: tuple[Driver, Driver] = (meddled, plain)) -> None:
            for driver in pair:
                confirm(driver, driver.do(command))

        both(register(config(QUEUES)))
        both(nodes(*(node(f"n{i}", memory=rng.randint(0, 6)) for i in range(4))))
        both(apps(*(app(f"app{number}", rng.choice(LEAVES)) for number in range(25))))
        for number in range(25):
            app_id = f"app{number}"
            for _ in range(rng.randint(0, 2)):
                meddled.do(*meddle(rng))
            count = rng.randint(1, 3)
            both(asks(*(ask(app_id, f"{app_id}-{i}", memory=1) for i in range(count))))
            if rng.random() < 0.2:
                both(kill(f"app{rng.randint(0, number)}"))
        meddled.do(*all_on(meddled.scheduler))
        assert placed_in(meddled) == placed_in(plain), f"seed {seed}"


def meddle(rng: Random) -> Iterator[Command]:
    """A random stop or start of a queue, or a cordon or uncordon of a node."""
    queue = rng.choice(("root", "root.a", "root.a.x", "root.b"))
    if rng.random() < 0.3:
        yield cordon(f"n{rng.randint(0, 3)}", schedulable=rng.random() < 0.5)
    else:
        yield stop(queue) if rng.random() < 0.5 else start(queue)


def confirm(driver: Driver, effects: list[Effect]) -> None:
    """Confirm the stops requested with a timeout."""
    told = [
        release(one.app_id, one.key, why=one.termination)
        for effect in effects
        if isinstance(effect, AllocationsReleased)
        for one in effect.releases
        if one.termination is TerminationType.TIMEOUT
    ]
    if told:
        driver.do(releases(*told))


def placed_in(driver: Driver) -> int:
    """Allocated memory in the whole cluster, in bytes."""
    partition = driver.partition
    return partition.tree.root.allocated.get("memory", 0)
