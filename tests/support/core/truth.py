"""What an RM knows of its partitions: to tell it all again, and to compare what became of it.

To the RM, an assumed allocation, which waits for its answer, is a pending ask. So is a real ask
that is to take a placeholder's place, whatever node it is booked on.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from licorne_core.config import submitted
from licorne_core.messages.commands import (
    BeginReplay,
    EndReplay,
    NodeAction,
    NodeUpdate,
    RegisterRm,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import NodeId, RmId, bare_partition
from licorne_core.values.resources import Resources, subtract, sum_of
from support.core.builders import app, apps, asks, node, nodes
from support.core.driver import Driver
from support.core.requests import allocations, assumed, pending, placed_elsewhere, replacing, waiting

FORCED = "application.create.force"
"""The tag of applications that an RM tells again: they run, so nothing may keep them out."""


def digest(partition: Partition) -> dict[str, Any]:
    """Usage, pending, and where everything is."""
    known = partition.applications.values()
    return {
        "queues": {
            queue.path: (
                _less(queue.allocated, [one for app in here for one in _assumed(app)]),
                _more(queue.pending, [one for app in here for one in _unknown(app)]),
            )
            for queue in partition.tree.walk()
            for here in [[app for app in known if _is_in(app, queue.path)]]
            if queue.allocated or queue.pending
        },
        "apps": {
            app.app_id: (
                app.queue_path,
                _less(sum_of([app.allocated, app.placeholder_allocated]), _assumed(app)),
                _more(app.pending_total, _unknown(app)),
                sorted([*pending(app), *assumed(app), *replacing(app)]),
                sorted(allocations(app).keys() - assumed(app).keys()),
            )
            for app in known
        },
        "nodes": {
            node.node_id: (
                node.schedulable,
                _more(node.available, [one.ask for one in node.allocations if one in unknown]),
                sorted((a.ask.app_id, a.key) for a in node.allocations if a not in unknown),
            )
            for unknown in [{one for app in known for one in _booked_unknown(app)}]
            for node in partition.nodes.by_id.values()
        },
    }


def _assumed(app: Application) -> list[Ask]:
    """What counts in its queues, and is a pending ask to the RM."""
    return [one.ask for one in assumed(app).values()]


def _unknown(app: Application) -> list[Ask]:
    """What does not count as pending, and is a pending ask to the RM."""
    return _assumed(app) + [request.ask for request in replacing(app).values()]


def _booked_unknown(app: Application) -> list[Allocation]:
    """What is booked on some node, and is a pending ask to the RM."""
    return [*assumed(app).values(), *placed_elsewhere(app).values()]


def _is_in(app: Application, path: str) -> bool:
    return app.queue_path == path or app.queue_path.startswith(f"{path}.")


def _less(total: Resources, asks: Iterable[Ask]) -> dict[str, int]:
    left = subtract(total, sum_of(one.ask_class.resources for one in asks))
    return {name: value for name, value in left.items() if value}


def _more(total: Resources, asks: Iterable[Ask]) -> dict[str, int]:
    both = sum_of([total, *(one.ask_class.resources for one in asks)])
    return {name: value for name, value in both.items() if value}


def replay(driver: Driver, rm: str, config: str) -> list[Effect]:
    """Register anew and tell everything again, between begin and end; what is answered to that."""
    rm_id = RmId(rm)
    all_told = [_truth(p) for p in driver.scheduler.partitions.values() if p.rm_id == rm_id]
    driver.send(RegisterRm(rm_id=rm_id, config=submitted(config)))
    driver.send(BeginReplay(rm_id=rm_id))
    effects = [effect for commands in all_told for command in commands for effect in driver.send(command)]
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
    wanted = [one.ask for holder in partition.nodes.by_id.values() for one in holder.foreign.values()]
    for here in known:
        wanted += [
            _told(one.ask, one.request_time, one.node_id, name)
            for key, one in allocations(here).items()
            if key not in assumed(here)
        ]
        wanted += [_told(place.request.ask, place.create_time, None, name) for place in waiting(here)]
    return nodes(*fleet, rm=rm), apps(*submitted, rm=rm), asks(*wanted, rm=rm)


def _told_node(known: Node, partition: str) -> NodeUpdate:
    """A node as an RM tells it again."""
    action = NodeAction.CREATE if known.schedulable else NodeAction.CREATE_DRAIN
    return node(
        known.node_id,
        action,
        partition=partition,
        attributes=known.attributes,
        size=known.capacity,
    )


def _told_app(known: Application, partition: str) -> Any:
    """An application that the RM runs already: it is taken wherever there is room for it."""
    user = known.user
    new = app(
        known.app_id,
        known.queue_path,
        user=user.user,
        groups=user.groups,
        partition=partition,
        tags={FORCED: "true"} if known.gang.is_wanted else {},
    )
    return replace(new, placeholder_ask=known.gang.placeholder_ask)


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
        placeholder=known.placeholder,
        task_group=known.task_group,
    )
