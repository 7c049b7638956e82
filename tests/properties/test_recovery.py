"""R3: a core that is told the truth again has the same books again."""

from typing import Any

import pytest

from licorne_core.asks import Ask
from licorne_core.commands import (
    BeginReplay,
    EndReplay,
    NodeAction,
    NodeUpdate,
    RegisterRm,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.ids import NodeId, RmId, bare_partition
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from support.builders import app, apps, asks, node, nodes
from support.driver import Driver
from support.worlds import World
from support.worlds.playing import REST


def digest(partition: Partition) -> dict[str, Any]:
    """What of a partition must survive: usage, pending, and where everything is."""
    return {
        "queues": {
            queue.path: (dict(queue.allocated), dict(queue.pending))
            for queue in partition.tree.walk()
            if queue.allocated or queue.pending
        },
        "apps": {
            app.app_id: (
                app.queue_path,
                dict(app.allocated),
                dict(app.pending_total),
                sorted(app.pending),
                sorted(app.allocations),
            )
            for app in partition.applications.values()
        },
        "nodes": {
            node.node_id: (
                node.schedulable,
                {name: value for name, value in node.available.items() if value},
                sorted((held.ask.app_id, held.key) for held in node.allocations),
            )
            for node in partition.nodes.by_id.values()
        },
    }


def truth(partition: Partition) -> tuple[UpdateNodes, UpdateApplications, UpdateAllocations]:
    """What the RM knows: its nodes, its applications, and their asks and allocations."""
    rm, name = partition.rm_id, bare_partition(partition.name)
    known = partition.applications.values()
    fleet = [told_node(node, name) for node in partition.nodes.by_id.values()]
    submitted = [app(here.app_id, here.queue_path, partition=name) for here in known]
    wanted = [
        held.ask for holder in partition.nodes.by_id.values() for held in holder.foreign.values()
    ]
    for here in known:
        wanted += [
            told(held.ask, held.request_time, held.node_id, name)
            for held in here.allocations.values()
        ]
        wanted += [
            told(waiting, created, None, name) for _, created, _, waiting in here.asks_in_order()
        ]
    return nodes(*fleet, rm=rm), apps(*submitted, rm=rm), asks(*wanted, rm=rm)


def told_node(known: Node, partition: str) -> NodeUpdate:
    """A node as an RM tells it again."""
    action = NodeAction.CREATE if known.schedulable else NodeAction.CREATE_DRAIN
    return node(known.node_id, action, partition=partition, size=known.capacity)


def told(known: Ask, created: float, node_id: NodeId | None, partition: str) -> Ask:
    """An ask as an RM with a good memory tells it again."""
    return Ask(
        key=known.key,
        app_id=known.app_id,
        ask_class=known.ask_class,
        priority=known.priority,
        create_time=created,
        node_id=node_id,
        partition=partition,
    )


def replay(driver: Driver, rm: str, config: str) -> None:
    """Register anew and tell everything again, between begin and end."""
    rm_id = RmId(rm)
    all_told = [truth(p) for p in driver.scheduler.partitions.values() if p.rm_id == rm_id]
    driver.send(RegisterRm(rm_id=rm_id, config=config))
    driver.send(BeginReplay(rm_id=rm_id))
    for commands in all_told:
        for command in commands:
            driver.send(command)
    driver.send(
        EndReplay(
            rm_id=rm_id,
            nodes=sum(len(fleet.nodes) for fleet, _, _ in all_told),
            applications=sum(len(submitted.new) for _, submitted, _ in all_told),
            allocations=sum(len(known.asks) for _, _, known in all_told),
        )
    )


@pytest.mark.row(161)
def test_a_replay_restores_the_books(worlds: int) -> None:
    """After any history, an RM that registers anew and tells all it has finds its usage again."""
    for seed in range(5_000_000, 5_000_000 + worlds // 10):
        world = World(seed, hides=False)
        driver = Driver()
        for now, command in world.steps:
            driver.now = now
            if command is REST:
                driver.run()
            else:
                driver.send(command)
        for rm in driver.views.rms():
            before = {p: digest(driver.scheduler.partitions[p]) for p in rm.partitions}
            replay(driver, rm.rm_id, rm.config)
            for name, books in before.items():
                assert digest(driver.scheduler.partitions[name]) == books, f"world {seed}: {name}"
