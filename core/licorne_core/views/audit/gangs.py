"""Checks of placeholders and their replacements (rule G1 of `invariants.py`)."""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PAIRS, TaskGroup
from licorne_core.model.apps.requests import BOOKED, TO_REPLACE, Request, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.timers import Due, Timer

_PAIRED = {(placeholder, real) for placeholder, real, _ in PAIRS}
_UNTOLD = frozenset({RequestState.PENDING, RequestState.ASSUMED, RequestState.PLACEHOLDER})


def check_gang(partition: Partition, app: Application) -> None:
    """Raise InvariantBroken on a broken rule, with its name and place."""
    placeholders = [request for request in app.requests.values() if request.ask.placeholder]
    free_count = sum(len(group.free) for group in app.gang.groups.values())
    _require(free_count == app.gang.free_count, f"{app!r} has {free_count} free placeholders")
    for name, group in app.gang.groups.items():
        _check_group(app, group, [r for r in placeholders if r.ask.task_group == name])
    for request in app.requests.values():
        _check_pair(partition, app, request)
    kept = [r for r in placeholders if r.state in BOOKED and r.state is not RequestState.ASSUMED]
    has_time = Timer(Due.PLACEHOLDERS, app.app_id) in partition.timers
    if any(request.state is RequestState.PLACEHOLDER for request in kept):
        is_stopping = Timer(Due.GO_ON, app.app_id) in partition.timers
        _require(has_time or is_stopping, f"{app!r} keeps room without an end")
    if any(group.cancelled for group in app.gang.groups.values()):
        _require(has_time, f"{app!r} waits for what was cancelled without an end")
    if has_time:
        _require(bool(kept) or app.gang.is_open, f"{app!r} has a time for no placeholder")


def _check_group(app: Application, group: TaskGroup, placeholders: list[Request]) -> None:
    """Each placeholder is open, or counted once as replaced or timed out."""
    at = f"{app!r}: {group!r}"
    stopping = [r for r in placeholders if r.state is RequestState.RELEASING and r.partner is None]
    _require(group.cancelled.keys() <= set(stopping), f"{at} has cancelled {group.cancelled}")
    open_ones = [
        request
        for request in placeholders
        if request.state in _UNTOLD or request.partner is not None or request in group.cancelled
    ]
    _require(len(open_ones) == group.open, f"{at}, of which {open_ones} are open")
    free = [r for r in placeholders if r.state is RequestState.PLACEHOLDER and r.partner is None]
    free.sort(key=lambda request: request.arrival)
    _require(free == group.free, f"{at} has {group.free} free, not {free}")


def _check_pair(partition: Partition, app: Application, request: Request) -> None:
    partner = request.partner
    _require(
        (request.state in TO_REPLACE) == (partner is not None and not request.ask.placeholder),
        f"{request!r} has the partner {partner!r}",
    )
    if partner is None:
        return
    known = app.requests.get(partner.key) is partner and partner.partner is request
    _require(known, f"{request!r} has the partner {partner!r}, which has not")
    if request.ask.placeholder:
        states = (request.state, partner.state)
        _require(states in _PAIRED, f"{request!r} and {partner!r} are no pair")
    elif request.state is RequestState.MATCHED:
        waits = partition.predicates.is_waiting(request)
        _require(waits, f"{request!r} waits for no answer that has a deadline")


def _require(holds: bool, figures: str) -> None:
    if not holds:
        raise InvariantBroken(f"G1: {figures}")
