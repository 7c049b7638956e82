"""What an RM knows of its partitions: to tell it all again, and to compare what became of it.

To the RM, an assumed allocation, which waits for its answer, is a pending ask.
"""

from collections.abc import Iterable
from typing import Any

from licorne_core.apps.application import Application
from licorne_core.asks import Allocation, Ask
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
from licorne_core.config import submitted
from licorne_core.effects import Effect
from licorne_core.ids import NodeId, RmId, bare_partition
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.resources import Resources, subtract, sum_of
from support.builders import app, apps, asks, node, nodes
from support.driver import Driver
from support.requests import allocations, assumed, pending, waiting


def digest(partition: Partition) -> dict[str, Any]:
    """Usage, pending, and where everything is."""
    known = partition.applications.values()
    all_assumed = [booked for app in known for booked in _assumed(app)]
    return {
        "queues": {
            queue.path: (_less(queue.allocated, booked), _more(queue.pending, booked))
            for queue in partition.tree.walk()
            for booked in [[one for a in known if _is_in(a, queue.path) for one in _assumed(a)]]
            if queue.allocated or queue.pending
        },
        "apps": {
            app.app_id: (
                app.queue_path,
                _less(app.allocated, _assumed(app)),
                _more(app.pending_total, _assumed(app)),
                sorted([*pending(app), *assumed(app)]),
                sorted(allocations(app).keys() - assumed(app).keys()),
            )
            for app in known
        },
        "nodes": {
            node.node_id: (
                node.schedulable,
                _more(node.available, [one for one in all_assumed if _is_on(one, node)]),
                sorted(
                    (one.ask.app_id, one.key)
                    for one in node.allocations
                    if one.key not in assumed(partition.applications[one.ask.app_id])
                ),
            )
            for node in partition.nodes.by_id.values()
        },
    }


def _assumed(app: Application) -> list[Allocation]:
    return list(assumed(app).values())


def _is_in(app: Application, path: str) -> bool:
    return app.queue_path == path or app.queue_path.startswith(f"{path}.")


def _is_on(allocation: Allocation, node: Node) -> bool:
    return allocation.node_id == node.node_id


def _less(total: Resources, booked: Iterable[Allocation]) -> dict[str, int]:
    left = subtract(total, sum_of(one.ask.ask_class.resources for one in booked))
    return {name: value for name, value in left.items() if value}


def _more(total: Resources, booked: Iterable[Allocation]) -> dict[str, int]:
    both = sum_of([total, *(one.ask.ask_class.resources for one in booked)])
    return {name: value for name, value in both.items() if value}


def replay(driver: Driver, rm: str, config: str) -> list[Effect]:
    """Register anew and tell everything again, between begin and end; what is answered to that."""
    rm_id = RmId(rm)
    all_told = [_truth(p) for p in driver.scheduler.partitions.values() if p.rm_id == rm_id]
    driver.send(RegisterRm(rm_id=rm_id, config=submitted(config)))
    driver.send(BeginReplay(rm_id=rm_id))
    effects = [
        effect for commands in all_told for command in commands for effect in driver.send(command)
    ]
    driver.send(
        EndReplay(
            rm_id=rm_id,
            nodes=sum(len(fleet.nodes) for fleet, _, _ in all_told),
            applications=sum(len(submitted.new) for _, submitted, _ in all_told),
            allocations=sum(len(known.asks) for _, _, known in all_told),
        )
    )
    return effects


def _truth(partition: Partition) -> tuple[UpdateNodes, UpdateApplications, UpdateAllocations]:
    """The RM's nodes, its applications, and their asks and allocations."""
    rm, name = partition.rm_id, bare_partition(partition.name)
    known = partition.applications.values()
    fleet = [_told_node(node, name) for node in partition.nodes.by_id.values()]
    submitted = [_told_app(here, name) for here in known]
    wanted = [
        one.ask for holder in partition.nodes.by_id.values() for one in holder.foreign.values()
    ]
    for here in known:
        wanted += [
            _told(one.ask, one.request_time, one.node_id, name)
            for key, one in allocations(here).items()
            if key not in assumed(here)
        ]
        wanted += [
            _told(place.request.ask, place.create_time, None, name) for place in waiting(here)
        ]
    return nodes(*fleet, rm=rm), apps(*submitted, rm=rm), asks(*wanted, rm=rm)


def _told_node(known: Node, partition: str) -> NodeUpdate:
    """A node as an RM tells it again."""
    action = NodeAction.CREATE if known.schedulable else NodeAction.CREATE_DRAIN
    return node(known.node_id, action, partition=partition, size=known.capacity)


def _told_app(known: Application, partition: str) -> Any:
    """An application that the RM runs already: it is taken wherever there is room for it."""
    user = known.user
    return app(
        known.app_id, known.queue_path, user=user.user, groups=user.groups, partition=partition
    )


def _told(known: Ask, created: float, node_id: NodeId | None, partition: str) -> Ask:
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
