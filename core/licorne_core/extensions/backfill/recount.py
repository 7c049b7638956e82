"""Invariants of shadow starts (`shadows.py`).

S1  A shadow start, its pending asks and its nodes refer to each other, and it has a deadline; its nodes have
its number and times. There are no more than `backfill` allows, numbered in their order. S2  Room is held on
schedulable nodes only; asks with a reservation there require the node, or have had victims stopped.
S3  With backfill on, applications have its interest; without it, none has. S5  A start holds its amounts of
the quotas of its application, at its time, and counts on what is charged to these and ends by then.
"""

from licorne_core.extensions.backfill.charges import planned_quotas
from licorne_core.extensions.backfill.expected_ends import is_charged
from licorne_core.extensions.backfill.planned_room import PlannedRoom
from licorne_core.extensions.backfill.shadow_start import ShadowStart
from licorne_core.extensions.backfill.shadows import Shadows
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import charge
from licorne_core.views.audit.rules import require


def check_starts(shadows: Shadows, context: CheckContext, *, settled: bool) -> None:
    """Raise InvariantBroken on a broken rule, with its name and place."""
    require("S1", shadows.starts.keys() == context.claims.held.keys(), f"{len(shadows.starts)} are claims")
    require("S1", not shadows.beyond(), f"{len(shadows.starts)} shadow starts are held")
    numbers = [shadow.number for shadow in shadows]
    require("S1", numbers == sorted(set(numbers)), f"starts are numbered {numbers}")
    known: dict[object, object] = {}
    for shadow in shadows:
        at = f"shadow start of {shadow.app.app_id}/{shadow.request.key}"
        due = shadow.is_stale or shadow.timer in context.timers
        require("S1", due, f"{at} has no deadline")
        held: dict[object, dict[str, int]] = {}
        for request, node in shadow.members:
            require("S1", request.is_pending and request.claim is shadow, f"{at}: {request!r}")
            charge(held.setdefault(node, {}), request.ask.ask_class.items)
            known[request] = shadow
        for node, items in shadow.places.items():
            room = node.claims.get(shadow)
            right = room is not None and room.items == items and dict(items) == held.get(node)
            require("S1", right, f"{at}: {node.node_id} holds {items}")
            is_same = isinstance(room, PlannedRoom) and (room.number, room.start, room.end, room.late) == (
                shadow.number,
                shadow.start,
                shadow.expected_end,
                shadow.late,
            )
            require("S1", is_same, f"{at}: {node.node_id} is held at another time")
            is_there = context.nodes.get(node.node_id) is node and node.schedulable
            require("S2", is_there, f"{at} is on {node.node_id}, which takes no asks")
        if settled:
            _check_held(shadow, at)
            if shadows.charges.is_current:
                _check_freed(shadow, at, context)
    for node in context.nodes.values():
        for shadow in node.claims:
            require("S1", shadow in shadows.starts and node in shadow.places, f"{node.node_id}: {shadow}")
        there = [context.applications[app_id].requests[key] for app_id, key in node.reservations]
        is_used = all(one.ask.ask_class.required_node or one.promise is not None for one in there)
        require("S2", not node.claims or is_used, f"{node.node_id} is held and reserved")
    for app in context.applications.values():
        for request in app.requests.values():
            if request.claim is not known.get(request):
                raise InvariantBroken(f"S1: {request!r} holds {request.claim}")


def _check_held(shadow: ShadowStart, at: str) -> None:
    """S5."""
    total: dict[str, int] = {}
    for request, _ in shadow.members:
        charge(total, request.ask.ask_class.items)
    held = shadow.held
    is_same = (held.number, held.start, held.end, held.late, dict(held.items)) == (
        shadow.number,
        shadow.start,
        shadow.expected_end,
        shadow.late,
        total,
    )
    require("S5", is_same, f"{at} holds {held.items} of quotas")
    for quota in planned_quotas(shadow.app):
        require("S5", quota.claims.get(shadow) is held, f"{at} holds nothing of {quota!r}")


def _check_freed(shadow: ShadowStart, at: str, context: CheckContext) -> None:
    """S5."""
    held = shadow.held
    for quota, known in held.freed.items():
        freed: dict[str, int] = {}
        for node in context.nodes.values():
            for allocation in node.allocations:
                app = context.applications[allocation.ask.app_id]
                if quota in app.quotas and is_charged(app, allocation.key) and held.ends_before(allocation):
                    charge(freed, allocation.ask.ask_class.items)
        require("S5", known == freed, f"{at} counts on {known} of {quota!r}")
