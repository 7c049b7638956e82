"""Victims for an ask that requires its node: no guarantee, fence or restraint counts (§ 9.5)."""

from collections.abc import Mapping

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.covering import covers
from licorne_core.scheduling.preemption.hosts import room_shortage
from licorne_core.scheduling.preemption.laws import quota_shortage
from licorne_core.scheduling.preemption.whatif import Victim
from licorne_core.values.ids import AppId


def required_node_victims(
    app: Application, request: Request, node: Node, applications: Mapping[AppId, Application]
) -> tuple[Victim, ...]:
    """Return the victims on the node for a pending ask that requires it.

    Victims are collected until they alone cover the ask. There are none if they and the free room
    do not suffice, or if present victims already make room. Nor are there any if all nodes together
    would still have too little, as other nodes have more on them than they hold.
    """
    wanted = request.ask.ask_class.items
    short = room_shortage(node, wanted)
    if not any(short):
        return ()
    missing = [value for _, value in wanted]
    names = [name for name, _ in wanted]
    candidates = _candidates(request, node, applications)
    candidates.sort(key=lambda victim: _rank(victim, names))
    victims: list[Victim] = []
    for victim in candidates:
        victims.append(victim)
        sizes = victim.request.ask.ask_class.resources
        missing = [
            value - sizes.get(name, 0) for value, (name, _) in zip(missing, wanted, strict=True)
        ]
        if max(missing) <= 0:
            break
    collected = tuple([value - rest for rest, (_, value) in zip(missing, wanted, strict=True)])
    beyond = quota_shortage(app.leaf.lineage[-1:], wanted)
    return tuple(victims) if covers(collected, short) and covers(collected, beyond) else ()


def _candidates(
    request: Request, node: Node, applications: Mapping[AppId, Application]
) -> list[Victim]:
    wanted = [name for name, _ in request.ask.ask_class.items]
    found = []
    for allocation in node.allocations:
        app = applications[allocation.ask.app_id]
        other = app.requests[allocation.key]
        sizes = other.ask.ask_class.resources
        if (
            other.state in MAY_GO
            and other.ask.priority <= request.ask.priority
            and other.ask.ask_class.required_node is None
            and any(sizes.get(name, 0) > 0 for name in wanted)
        ):
            found.append(Victim(app, other, node))
    return found


def _rank(victim: Victim, names: list[str]) -> tuple[int, int, float, int, str, str]:
    """Rank regular ones first, then opted-out ones, then originators; each kind by the rest.

    Size counts in the types `names`, those of the ask.
    """
    ask = victim.request.ask
    kind = 2 if ask.originator else 0 if ask.allow_preempt_self else 1
    size = sum(ask.ask_class.resources.get(name, 0) for name in names)
    return (kind, ask.priority, -victim.request.create_time, size, ask.key, ask.app_id)
