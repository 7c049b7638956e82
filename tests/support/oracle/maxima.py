"""Maxima of queues, limits of users and groups, and budgets over time, with the amounts that starts reserve.

Everything is added up from the records for each question. The maximum of root is the total of the nodes. A
budget has for a partition what the others leave of it, as if their usage never ended.
"""

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from support.oracle.books import Amounts, AppRecord, AskRecord, add_to
from support.oracle.order import Look
from support.oracle.queues import lineage
from support.oracle.usage import Tracker, limit_for

if TYPE_CHECKING:
    from support.oracle.backfill import ShadowRecord

Key = str | Tracker
Name = tuple[str, str]

MOST_BEHIND = 16


def is_full_behind(behind: frozenset[Key], held: list[set[Key]]) -> bool:
    """True if there are enough starts behind maxima, and the ask would not hold the first behind its own."""
    starts = [one for one in held if one]
    first = [one for index, one in enumerate(starts) if not one & set().union(*starts[:index])]
    has_first = bool(behind & set().union(*starts))
    return bool(behind) and len(starts) >= MOST_BEHIND and (has_first or len(first) >= MOST_BEHIND)


def bounds(look: Look, app: AppRecord) -> dict[Key, Amounts]:
    """The maxima that bind the application, with their quotas."""
    found: dict[Key, Amounts] = dict(look.left_of_budgets(app).items())
    for path in lineage(app.queue):
        if path != "root" and look.queues[path].max:
            found[path] = look.queues[path].max
        for kind, name in app.trackers():
            limit = limit_for(look.queues[path], kind, name)
            if limit is not None and limit.max is not None:
                found[kind, name, path] = limit.max
    return found


def counted(look: Look, key: Key) -> list[AppRecord]:
    """The applications charged to the quota."""
    return [app for app in look.apps.values() if _counts(look, key, app)]


def _counts(look: Look, key: Key, app: AppRecord) -> bool:
    if isinstance(key, str):
        return key in lineage(app.queue)
    kind, _, path = key
    if kind == "budget":
        return key in look.left_of_budgets(app)
    return path in lineage(app.queue) and key[:2] in app.trackers()


def free_of(look: Look, key: Key, most: Amounts) -> Amounts:
    """The amounts that are neither booked nor promised."""
    free = dict(most)
    for app in counted(look, key):
        sizes = [one.ask.size for one in app.allocations.values()]
        sizes += [ask.reservation.promised for ask in app.asks.values() if ask.reservation]
        for size in sizes:
            add_to(free, {name: -value for name, value in size.items() if name in most})
    return free


def charged(look: Look, key: Key) -> Iterator[tuple[AppRecord, AskRecord, float]]:
    """The bookings charged to the quota, with their start times."""
    for app in counted(look, key):
        for one in app.allocations.values():
            yield app, one.ask, one.started


def is_budget(key: Key) -> bool:
    """True for a budget over RMs."""
    return key[0] == "budget"


def exceeded(look: Look, app: AppRecord, ask: AskRecord) -> list[Key]:
    """The quotas whose whole maximum the ask exceeds."""
    most = bounds(look, app)
    return [key for key in most if any(value > most[key].get(name, inf) for name, value in ask.size.items())]


Held = list[tuple[AppRecord, AskRecord, "ShadowRecord"]]


def binding(look: Look, app: AppRecord, ask: AskRecord, held: Held) -> list[Key]:
    """The quotas in which the ask does not fit beside all planned starts."""
    found = []
    for key, most in bounds(look, app).items():
        free = free_of(look, key, most)
        for other, one, _ in held:
            if one is not ask and key in bounds(look, other):
                add_to(free, {name: -value for name, value in one.size.items()})
        if any(free[name] < value for name, value in ask.size.items() if name in most):
            found.append(key)
    return found


def is_tight(look: Look, key: Key, most: Amounts, held: Held) -> bool:
    """True if not all planned starts fit at once."""
    free = free_of(look, key, most)
    for other, one, _ in held:
        if key in bounds(look, other):
            add_to(free, {name: -value for name, value in one.size.items()})
    return any(free[name] < 0 for name in most)


def share(look: Look, app: AppRecord, other: AppRecord, held: Held) -> bool:
    """True if both are charged to a quota in which not all planned starts fit at once."""
    shared = bounds(look, app).keys() & bounds(look, other).keys()
    return any(is_tight(look, key, bounds(look, app)[key], held) for key in shared)


def is_due_below(look: Look, app: AppRecord, key: Key, needs: Amounts) -> bool:
    """True if the ask is due in the lowest queue that guarantees a type, which is below the maximum."""
    for path in lineage(app.queue):
        if path == key or not isinstance(key, str):
            return False
        due = {name: value for name, value in look.queues[path].guaranteed.items() if value > 0}
        shared = due.keys() & needs.keys()
        if shared:
            return all(
                look.usage.in_the_end(look.apps, path, name) + needs[name] <= due[name] for name in shared
            )
    return False
