"""What an autoscaler is told: asks that quota would admit and no node takes (spec § 8.12)."""

from support.oracle.books import Amounts, AppRecord, AskRecord, Kind, lineage
from support.oracle.gangs import to_be_tried
from support.oracle.limits import limit_for
from support.oracle.order import Look, apps_in_order

Quota = tuple[str, str, str]


def newly_waiting(look: Look) -> list[tuple[str, str]]:
    """Application and key of the asks that the RM is told of now, which count as told then.

    Asks count as long as they fit in all maxima but the size of the cluster, behind those that
    come before them; of each kind of an application no more are told than fit.
    """
    told: list[tuple[str, str]] = []
    left: dict[Quota, Amounts] = {}
    for app in apps_in_order(look):
        for asks in _kinds(app):
            in_vain = asks[0].attempted and asks[0].kind in app.nowhere
            in_vain = in_vain and not look.is_silent_about(asks[0].ask_class)
            if in_vain and asks[0].required_node is None:
                rooms = [_room(look, left, quota, bound) for quota, bound in _bounds(look, app)]
                fitting = _take(rooms, asks)
                untold = [ask for ask in asks if not ask.told]
                for ask in untold[: max(0, fitting - (len(asks) - len(untold)))]:
                    ask.told = True
                    told.append((app.app_id, ask.key))
    return told


def _kinds(app: AppRecord) -> list[list[AskRecord]]:
    """The application's asks by kind, in order; without those that wait for placeholders."""
    kinds: dict[Kind, list[AskRecord]] = {}
    for ask in to_be_tried(app):
        kinds.setdefault(ask.kind, []).append(ask)
    return list(kinds.values())


def _bounds(look: Look, app: AppRecord) -> list[tuple[Quota, Amounts]]:
    """The maxima of the application's queues below root, its user and its group."""
    found: list[tuple[Quota, Amounts]] = []
    for path in lineage(app.queue):
        if path != "root" and look.queues[path].max:
            found.append((("queue", "", path), look.queues[path].max))
        for kind, name in app.trackers():
            limit = limit_for(look.queues[path], kind, name)
            if limit is not None and limit.max is not None:
                found.append(((kind, name, path), limit.max))
    return found


def _room(look: Look, left: dict[Quota, Amounts], quota: Quota, bound: Amounts) -> Amounts:
    """What is left of a maximum beside what is allocated, and what was taken before."""
    kind, _, path = quota
    used = look.usage.claimed(path) if kind == "queue" else look.usage.claimed_of(quota)
    if quota not in left:
        left[quota] = {name: value - used.get(name, 0) for name, value in bound.items()}
    return left[quota]


def _take(rooms: list[Amounts], asks: list[AskRecord]) -> int:
    """How many of the asks, all of one size, fit in all rooms; they take their place there."""
    size = asks[0].size
    fitting = len(asks)
    for room in rooms:
        for name in room.keys() & size.keys():
            fitting = min(fitting, max(room[name], 0) // size[name])
    for room in rooms:
        for name in room.keys() & size.keys():
            room[name] -= fitting * size[name]
    return fitting
