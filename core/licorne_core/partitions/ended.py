"""Ended applications, still visible for three days (spec §§ 3.12, 5.1.4).

An RM may have so many of them, of so many bytes (`RmCaps`). Beyond that, the one of the partition
that ended first gives way.
"""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.states import TERMINATED_TIME
from licorne_core.partitions.partition import Partition
from licorne_core.values.ids import AppId
from licorne_core.values.rm_caps import APPLICATION_BYTES
from licorne_core.values.timers import Due, Timer


def remember_completed(partition: Partition, app: Application, now: float) -> None:
    """Keep a terminated application under a name of its own, so that its id is free (§ 5.1.4)."""
    name = AppId(f"{app.app_id}-{int(now)}")
    _remember(partition, Due.EXPIRE, name, app, now)


def remember_rejected(partition: Partition, app: Application, now: float) -> None:
    """List a rejected application (spec § 3.12).

    Of one id the latest rejection is listed, until an application of that id is accepted.
    """
    _remember(partition, Due.EXPIRE_REJECTED, app.app_id, app, now)


def forget_rejected(partition: Partition, app_id: AppId) -> None:
    """An application of the id is accepted: its rejection is over.

    One that has completed or failed stays listed: it has a name of its own (spec § 5.1.4).
    """
    if app_id in partition.rejected:
        _give_way(partition, Due.EXPIRE_REJECTED, app_id)


def forget_ended(partition: Partition, due: Due, name: AppId) -> Application:
    """Its time is over, or it gives way."""
    app = _list_of(partition, due).pop(name)
    partition.tally.dropped(app.state.value)
    holdings = partition.rm.holdings
    holdings.ended -= 1
    holdings.ended_memory -= _bytes_of(app)
    return app


def forget_all_ended(partition: Partition) -> None:
    """The partition is gone, and its RM stays."""
    for due in (Due.EXPIRE, Due.EXPIRE_REJECTED):
        for name in list(_list_of(partition, due)):
            forget_ended(partition, due, name)


def _remember(partition: Partition, due: Due, name: AppId, app: Application, now: float) -> None:
    listed = _list_of(partition, due)
    if name in listed:
        # Taken out first, so that the latest is the last to make room for others.
        forget_ended(partition, due, name)
    listed[name] = app
    partition.tally.listed(app.state.value)
    partition.timers.set(Timer(due, name), now + TERMINATED_TIME)
    holdings = partition.rm.holdings
    holdings.ended += 1
    holdings.ended_memory += _bytes_of(app)
    caps = holdings.caps
    while holdings.ended > caps.ended or holdings.ended_memory > caps.ended_memory:
        if not _make_room(partition):
            return


def _make_room(partition: Partition) -> bool:
    """Forget the application that ended first; True if there was one."""
    oldest = [
        (app.finished_time, due, name)
        for due in (Due.EXPIRE, Due.EXPIRE_REJECTED)
        for name, app in _first(_list_of(partition, due))
    ]
    if not oldest:
        return False
    _, due, name = min(oldest)
    _give_way(partition, due, name)
    return True


def _give_way(partition: Partition, due: Due, name: AppId) -> None:
    """Forget an application before its time."""
    forget_ended(partition, due, name)
    partition.timers.cancel(Timer(due, name))


def _first(listed: dict[AppId, Application]) -> list[tuple[AppId, Application]]:
    return [next(iter(listed.items()))] if listed else []


def _list_of(partition: Partition, due: Due) -> dict[AppId, Application]:
    return partition.completed if due is Due.EXPIRE else partition.rejected


def _bytes_of(app: Application) -> int:
    return APPLICATION_BYTES + app.footprint
