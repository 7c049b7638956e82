"""Checks of victims and their beneficiaries (rules P2, P4 and P5)."""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.model.quotas import Quota
from licorne_core.partitions.partition import Partition
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import Resources, describe, equals, sum_of


def check_preemption(partition: Partition) -> None:
    """Raise InvariantBroken on a broken rule, with its name and place."""
    partition.preemption.search.check()
    stopping: dict[Quota, list[Resources]] = {}
    promised: dict[Quota, list[Resources]] = {}
    kept: dict[Quota, list[Resources]] = {}
    for app in partition.applications.values():
        for request in app.requests.values():
            _check_promise(partition, app, request)
            for quota in app.quotas:
                if request.state is RequestState.PREEMPTING:
                    stopping.setdefault(quota, []).append(request.ask.ask_class.resources)
                if request.promise is not None and request.is_pending:
                    promised.setdefault(quota, []).append(dict(request.promise.items))
                    kept.setdefault(quota, []).append(_kept(request, quota))
    quotas: set[Quota] = {*partition.tree.walk()}
    quotas.update(tracker for app in partition.applications.values() for tracker in app.trackers)
    for quota in quotas:
        _equal(quota, "preempting", quota.preempting, sum_of(stopping.get(quota, ())))
        _equal(quota, "promised", quota.promised, sum_of(promised.get(quota, ())))
        _equal(quota, "kept", quota.kept, sum_of(kept.get(quota, ())))


def _kept(request: Request, quota: Quota) -> Resources:
    """Part of one promise that outstanding victims do not cover, added up anew."""
    covered = sum_of(
        victim.ask.ask_class.resources
        for victim, app in request.promise.outstanding.items()
        if quota in app.quotas
    )
    items = request.promise.items
    return {name: max(0, value - covered.get(name, 0)) for name, value in items}


def _check_promise(partition: Partition, app: Application, request: Request) -> None:
    """P4: an ask with a promise has had victims stopped; the promise rests while it is assumed."""
    at = f"{request!r} of {app.app_id}"
    reservation = request.reservation
    promise = None if reservation is None else partition.reservations.promises.find(reservation)
    if request.promise is not promise:
        raise InvariantBroken(f"P4: {at} was promised {request.promise}, by {promise}")
    if promise is None:
        return
    if not (request.triggered and promise.request is request):
        raise InvariantBroken(f"P4: {at} has a promise, and does not wait for it")
    if promise.is_resting is request.is_pending:
        raise InvariantBroken(f"P4: {at} has a promise that rests, or should")
    wanted = request.ask.ask_class.resources
    if any(value > wanted.get(name, 0) for name, value in promise.items):
        raise InvariantBroken(f"P4: {at} was promised {promise.items}, which it does not want")
    for victim in promise.outstanding:
        if victim.state is not RequestState.PREEMPTING:
            raise InvariantBroken(f"P2: {at} waits for the end of {victim!r}")


def _equal(quota: Quota, what: str, booked: Resources, counted: Resources) -> None:
    if not equals(booked, counted):
        figures = f"booked {describe(booked)}, counted {describe(counted)}"
        raise InvariantBroken(f"P2: {quota!r}: {what}: {figures}")
