"""Small scenes, searches in them, and enforcement of a maximum (spec § 9.6).

A scene is a few queues, one node, allocations and asks. Plans are carried out on its records; an enforcement
runs to its end, and changes nothing.
"""

from collections.abc import Generator, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from licorne_core.config.schema import QueueSettings
from licorne_core.extensions.quota_change.victims import Enforcement, split
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestState, seconds_run
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.losses import Losses, loss_of
from licorne_core.standard.preemption.planning import VictimPlan
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.standard.preemption.units import Units
from licorne_core.standard.preemption.victims import Victim
from licorne_core.values.resources import Resources, charge, refund
from support.preemption.brute_force import BrutePlan
from support.preemption.building import build
from support.preemption.records import Cluster, NodeRecord, QueueRecord, RequestRecord, Size

ENDLESS = 10**9
"""More what-if steps than any small cluster needs."""


def search(
    cluster: Cluster, key: str, *, steps: int = ENDLESS, most: int = 1, first_nodes: int = 32
) -> list[VictimPlan] | Law:
    """Plans of the core for a pending request, or the law of the refusal."""
    built = build(cluster, first_nodes)
    app, request = built.request(key)
    found = built.search.find(app, request, cluster.now, steps=steps, most=most)
    return found.law if isinstance(found, SearchRefusal) else found


def refusal(cluster: Cluster, key: str) -> SearchRefusal:
    """The reason why the core finds no victims for a pending request."""
    built = build(cluster)
    app, request = built.request(key)
    found = built.search.find(app, request, cluster.now)
    assert isinstance(found, SearchRefusal), found
    return found


def plans(cluster: Cluster, key: str, *, most: int = 1) -> list[VictimPlan]:
    """The core's plans for a pending request; there is at least one."""
    found = search(cluster, key, most=most)
    assert isinstance(found, list), found
    return found


def victims(cluster: Cluster, key: str) -> list[str] | Law:
    """The keys of the victims of the best plan, or the blocking law."""
    found = search(cluster, key)
    return found if isinstance(found, Law) else keys(found[0].victims)


def keys(victims: tuple[Victim, ...]) -> list[str]:
    """The keys of victims, in order."""
    return [victim.request.key for victim in victims]


def shown(found: list[VictimPlan] | Law) -> list[BrutePlan] | Law:
    """Plans in the form of the exhaustive search."""
    if isinstance(found, Law):
        return found
    return [
        BrutePlan(plan.node.node_id, tuple(keys(plan.on_node)), tuple(keys(plan.other_nodes)))
        for plan in found
    ]


def carried_out(cluster: Cluster, key: str, plan: VictimPlan) -> Cluster:
    """The cluster after the victims have ended and the request is placed on the plan's node."""
    gone = set(keys(plan.victims))
    placed = [
        replace(
            one,
            state=RequestState.ALLOCATED,
            node=plan.node.node_id,
            started=cluster.now,
            hold=None,
        )
        if one.key == key
        else one
        for one in cluster.requests
        if one.key not in gone
    ]
    return replace(cluster, requests=tuple(placed))


def served(cluster: Cluster, asks: list[str]) -> Cluster:
    """The cluster after plans for these requests are carried out, one after the other."""
    for key in asks:
        found = search(cluster, key)
        if not isinstance(found, Law):
            cluster = carried_out(cluster, key, found[0])
    return cluster


NOW = 1000.0
A, B = "root.a", "root.b"


def queue(
    path: str, guaranteed: Size | None = None, most: Size | None = None, **settings: Any
) -> QueueRecord:
    """A leaf with this guarantee and maximum."""
    return QueueRecord(path=path, guaranteed=guaranteed, max=most, settings=QueueSettings(**settings))


def parent(
    path: str, guaranteed: Size | None = None, most: Size | None = None, **settings: Any
) -> QueueRecord:
    """A queue that holds queues."""
    return replace(queue(path, guaranteed, most, **settings), is_leaf=False)


def runs(leaf: str, *numbers: int, node: str = "n1", vcore: int = 1, **more: Any) -> list[RequestRecord]:
    """Allocations of one application; a higher number in the key means a younger one."""
    return [
        RequestRecord(
            app=f"app-{leaf}",
            key=f"{leaf}-{number}",
            leaf=leaf,
            node=node,
            created=float(number),
            started=float(number),
            **{"size": {"vcore": vcore}, "state": RequestState.ALLOCATED, **more},
        )
        for number in numbers
    ]


def waits(leaf: str, *numbers: int, vcore: int = 1, **more: Any) -> list[RequestRecord]:
    """Asks of one application."""
    return [
        RequestRecord(
            app=f"app-{leaf}",
            key=f"{leaf}-w{number}",
            leaf=leaf,
            created=float(number),
            **{"size": {"vcore": vcore}, **more},
        )
        for number in numbers
    ]


def cluster(
    queues: list[QueueRecord], *requests: list[RequestRecord], vcore: int = 12, **more: Any
) -> Cluster:
    """These queues below root, and one node of that size."""
    return Cluster(
        queues=(parent("root"), *queues),
        **{"nodes": (NodeRecord(name="n1", capacity={"vcore": vcore}),), **more},
        requests=tuple(one for many in requests for one in many),
        now=NOW,
    )


T = TypeVar("T")


class Stopped(NamedTuple):
    """A victim."""

    app: Application
    request: Request


class Enforced(NamedTuple):
    """The outcome of an enforcement; the fields have the meaning of `Enforcement`."""

    amount: Resources
    selected: int
    victims: tuple[Stopped, ...]
    claimed: Resources


def enforced(queue: Queue, losses: Losses, now: float) -> Enforced:
    """Enforce the queue's maximum, and undo the changes by its victims."""
    losses = deepcopy(losses)
    victims: list[Stopped] = []
    leaves = {app: leaf for leaf in _all(queue) for app in leaf.applications.values()}
    where = [one.allocation.node_id for app in leaves for one in app.booked() if one.allocation is not None]
    nodes = {node_id: Node(node_id, {}, {}, schedulable=True) for node_id in where}
    applications = {app.app_id: app for app in leaves}
    units = Units(nodes, applications, [app.app_id for app in leaves if app.gang.units is not None])
    found = Enforcement(queue, losses, lambda _: None, lambda: units, now)

    def stop(together: Sequence[Victim]) -> None:
        for app, request, _ in together:
            victims.append(Stopped(app, request))
            items, leaf = request.ask.ask_class.items, leaves[app]
            losses.add(leaf.path, loss_of(items, seconds_run(request, now)), now)
            for above in leaf.lineage:
                charge(above.preempting, items)

    for _ in found.steps(stop):
        pass
    for app, request in victims:
        for above in leaves[app].lineage:
            refund(above.preempting, request.ask.ask_class.items)
    assert found.victims == len(victims)
    return Enforced(found.amount, found.selected, tuple(victims), found.claimed)


def _all(queue: Queue) -> list[Queue]:
    return [queue, *(below for child in queue.children.values() for below in _all(child))]


def parts_of(queue: Queue, amount: Resources) -> list[tuple[Queue, Resources]]:
    """The part of an amount to stop that each of the queue's leaves has to contribute."""
    return [part for part in split(queue, amount) if part is not None]


def result_of(steps: Generator[int, None, T]) -> T:
    """The result of steps that are all run at once."""
    result: Any = None

    def play() -> Generator[int, None, None]:
        nonlocal result
        result = yield from steps

    for _ in play():
        pass
    final: T = result
    return final
