"""Applications with their asks and allocations.

While an allocation is *held*, the RM has not heard of it yet: it is shown as an ask.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from licorne_core.apps.application import Application
from licorne_core.apps.runs import PendingAsk, Run
from licorne_core.asks import Allocation, AskClass
from licorne_core.errors import NotFound
from licorne_core.ids import AllocationKey, AppId
from licorne_core.partition import Partition
from licorne_core.reports import AppReport, AskLogEntry, AskReport
from licorne_core.views.nodes import reservation_report

_OfRun = tuple[tuple[AskLogEntry, ...], bool, set[AllocationKey]]
"""What a run's asks have in common: log, whether they were attempted, which were told."""

_NO_RUN: _OfRun = ((), False, set())


def applications_of(
    partition: Partition, state: str, queue: str = ""
) -> Iterator[tuple[AppId, Application]]:
    """Those that are active, completed or rejected, of one queue or of all, by their names."""
    wanted = queue.lower()
    for name, app in _by_state(partition, state).items():
        if not wanted or app.queue_path == wanted:
            yield name, app


def _by_state(partition: Partition, state: str) -> Mapping[AppId, Application]:
    match state:
        case "active":
            return partition.applications
        case "completed":
            return partition.completed
        case "rejected":
            return partition.rejected
    raise NotFound(f"application state {state} is none of active, completed, rejected")


def find_application(partition: Partition, app_id: str) -> Application:
    """An application, wherever it is listed; raises NotFound."""
    name = AppId(app_id)
    for state in ("active", "rejected", "completed"):
        app = _by_state(partition, state).get(name)
        if app is not None:
            return app
    raise NotFound(f"application {app_id} not found")


def app_report(
    partition: Partition, app: Application, *, detail: bool, limit: int | None = None
) -> AppReport:
    """One application; with `detail` its asks and allocations too, so many of each at most."""
    return AppReport(
        app_id=app.app_id,
        partition=partition.name,
        queue=app.queue_path,
        user=app.user.user,
        groups=app.user.groups,
        group=app.group,
        state=app.state.value,
        message=app.message,
        submission_time=app.submission_time,
        start_time=app.start_time,
        finished_time=app.finished_time,
        backoff_until=app.backoff_until,
        allocated=dict(app.allocated),
        max_allocated=dict(app.max_allocated),
        pending=dict(app.pending_total),
        max_priority=app.priorities.top,
        pending_count=len(app.pending) + len(app.held),
        allocation_count=len(app.allocations) - len(app.held),
        reservations=tuple(map(reservation_report, app.reservations.values())),
        state_log=tuple((time, state.value) for time, state in app.state_log),
        asks=list(_ask_reports(app, app.asks_in_order(limit))) if detail else (),
        allocations=list(islice(_allocations(app), limit)) if detail else (),
    )


def _allocations(app: Application) -> Iterable[Allocation]:
    """Those that the RM knows."""
    made = app.allocations.values()
    return made if not app.held else (item for item in made if item.key not in app.held)


def _ask_reports(app: Application, entries: Iterable[PendingAsk]) -> Iterator[AskReport]:
    """What there is to say of a run is made once for all of its asks: there may be very many."""
    held, reserved = app.held, app.reservations
    known: dict[AskClass, _OfRun] = {}
    for _, created, _, ask in entries:
        key = ask.key
        of_run = known.get(ask.ask_class)
        if of_run is None:
            of_run = known[ask.ask_class] = _of_run(app.runs.get(ask.ask_class))
        log, attempted, told = of_run
        reserved_node = reserved[key].node_id if key in reserved else ""
        held_node = app.allocations[key].node_id if key in held else ""
        yield AskReport(ask, created, log, attempted, key in told, reserved_node, held_node)


def _of_run(run: Run | None) -> _OfRun:
    """Nothing is known of a run that was forgotten since its last ask was held."""
    return _NO_RUN if run is None else (_log(run), run.attempted, run.told)


def _log(run: Run) -> tuple[AskLogEntry, ...]:
    """What kept the asks of a run back so far, the latest reason last."""
    found = sorted((entry.time, message, entry.times) for message, entry in run.log.items())
    return tuple(
        AskLogEntry(message=message, last_time=time, count=times) for time, message, times in found
    )
