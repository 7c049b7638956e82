"""Acts of operators on an application: holds, priorities and moves."""

from licorne_core.extensions.holds.messages import ChangeApplication, HoldApplication
from support.oracle.books import AppRecord
from support.oracle.gangs import fits_below
from support.oracle.notices import ask_again
from support.oracle.partition import PartitionOracle
from support.oracle.queues import QueueRecord, lineage
from support.oracle.requests import replace_ask
from support.oracle.usage import Usage, group_of, limit_for


def hold(partition: PartitionOracle, command: HoldApplication) -> None:
    """Hold the application: its asks are skipped, and no node is reserved for them."""
    app = partition.apps.get(command.app_id)
    if app is None or app.state == "Failing":
        return
    if command.held and not app.held:
        _give_up_reservations(app)
    app.held = command.held


def _give_up_reservations(app: AppRecord) -> None:
    for ask in (*app.asks.values(), *(app.waiting_ask(key) for key in app.assumed_keys())):
        ask.end_reservation()
        ask.shadow = None


def change(partition: PartitionOracle, command: ChangeApplication, now: float) -> None:
    """Change queue and priority, or neither if the queue refuses the application."""
    app = partition.apps.get(command.app_id)
    if app is None or app.state == "Failing":
        return
    moves = command.queue not in ("", app.queue)
    if moves and not _takes(partition, app, partition.queues.get(command.queue)):
        return
    given = app.given_priority if command.priority is None else command.priority
    given = None if command.reset_priority else given
    if given != app.given_priority:
        app.given_priority = given
        _give_priority(partition, app, now)
        ask_again(partition, now)
    if moves:
        _move(partition, app, command.queue, now)


def _give_priority(partition: PartitionOracle, app: AppRecord, now: float) -> None:
    """Set the priority: a pending ask becomes another one in the same place, and bookings use it."""
    asks = [*app.asks.values(), *(one.ask for one in app.allocations.values())]
    asks += [pair.ask for pair in app.pairs.values()]
    for ask in sorted(asks, key=lambda ask: ask.place):
        wanted = ask.own_priority if app.given_priority is None else app.given_priority
        if ask.priority == wanted:
            continue
        ask.priority = wanted
        if ask.key in app.asks:
            replace_ask(partition, app, ask, ask.size, now)


def _takes(partition: PartitionOracle, app: AppRecord, leaf: QueueRecord | None) -> bool:
    """True if the leaf accepts the application, without its allocations, like a new one.

    A running application must not exceed the leaf's maximum.
    """
    if leaf is None or not leaf.is_leaf or app.allocations or app.pairs:
        return False
    above = [partition.queues[path] for path in lineage(leaf.path)]
    if any(queue.draining for queue in above):
        return False
    fits = leaf.app_order != "fair" and fits_below([queue.max for queue in above], app.gang.ask)
    if any(app.gang.ask.values()) and not fits:
        return False
    return app.state != "Running" or not _runs_too_many(partition, app, above)


def _runs_too_many(partition: PartitionOracle, app: AppRecord, above: list[QueueRecord]) -> bool:
    usage = Usage(partition.queues, partition.apps, partition.nodes)
    who = [("user", app.user)]
    group = group_of(partition.queues, above[0].path, app.groups)
    who += [("group", group)] if group else []
    for queue in above:
        if queue.path in lineage(app.queue):
            return False
        if queue.max_apps and usage.running[queue.path] >= queue.max_apps:
            return True
        for kind, name in who:
            limit = limit_for(queue, kind, name)
            counted = usage.tracked_apps.get((kind, name, queue.path), set())
            if limit is not None and limit.max_apps and len(counted) >= limit.max_apps:
                return True
    return False


def _move(partition: PartitionOracle, app: AppRecord, path: str, now: float) -> None:
    """Move the application to another leaf, where it waits as before."""
    before, app.queue = app.queue, path
    _give_up_reservations(app)
    app.wishes, app.in_vain = {}, {}
    app.starts_until = None
    app.group = group_of(partition.queues, path, app.groups)
    partition.clean_later(before, now)
