"""Applications with their asks and allocations, and lists of names in order.

While an allocation is *assumed*, or the place that it is to take is not free yet, the RM has not
heard of it: it is shown as an ask.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from licorne_core.model.apps.application import Application, most_allocated
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.groups import AskGroup, group_key
from licorne_core.model.apps.requests import SHOWN_AS_ASKS, Request, RequestState, is_ask, place_of
from licorne_core.partitions.partition import Partition
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AppId, PartitionName, QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.slices import RUN, in_runs
from licorne_core.values.timers import Due, Timer
from licorne_core.views.explain import node_of, why_stopped
from licorne_core.views.fields import Moment, Of
from licorne_core.views.nodes import ReservationReport, reservation_report

Name = TypeVar("Name", bound=str)


class InOrder(Generic[Name]):
    """Names of one moment, sorted as the reader goes on.

    Before the first there is a None wherever the reader may pause.
    """

    count: int
    """Number of names, including those that do not fit."""

    def __init__(self, names: Iterable[Name], fits: Callable[[Name], bool] | None = None) -> None:
        """Take the names that fit, or all."""
        self._names = list(names)
        self._fits = fits
        self.count = len(self._names)

    def __iter__(self) -> Iterator[Name | None]:
        """All of them."""
        return self.behind("")

    def behind(self, last: str) -> Iterator[Name | None]:
        """Names behind a given one, which need not be there."""
        fits = self._fits
        if not last:
            return in_runs(self._names, fits=fits)
        return in_runs(self._names, fits=lambda name: name > last and (fits is None or fits(name)))


def app_names(partition: Partition, state: str, queue: str = "") -> InOrder[AppId]:
    """The names of those applications in order, of one queue or of all."""
    found, wanted = in_state(partition, state), queue.lower()

    def is_there(name: AppId) -> bool:
        app = found.get(name)
        return app is not None and app.queue_path == wanted

    return InOrder(found, is_there if wanted else None)


def in_state(partition: Partition, state: str) -> Mapping[AppId, Application]:
    """Applications that are active, completed or rejected, by their names."""
    match state:
        case "active":
            return partition.applications
        case "completed":
            return partition.completed
        case "rejected":
            return partition.rejected
    raise NotFound(f"application state {shown(state)} is none of active, completed, rejected")


def find_application(partition: Partition, app_id: str) -> Application:
    """An application, wherever it is listed; raises NotFound."""
    name = AppId(app_id)
    for state in ("active", "rejected", "completed"):
        app = in_state(partition, state).get(name)
        if app is not None:
            return app
    raise NotFound(f"application {shown(app_id)} not found")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLogEntry:
    """A reason for passing over an ask: last time, and number of times."""

    message: str
    last_time: Moment
    count: int


@dataclass(slots=True)
class AskReport:
    """An ask without an allocation known to the RM (spec §§ 6.5, 8.5, 8.12, 8.13, 9.2).

    `reserved_node` is kept free for it; it has room on `assumed_node`, about which the RM is being
    asked; `replaces` is the placeholder that it is to replace. Each is empty for none.
    `triggered_preemption`: victims were stopped for it. Never changed after it was made; not
    frozen, because an application may have a hundred thousand, and freezing doubles the cost.
    """

    ask: Ask
    request_time: Moment
    allocation_log: tuple[AskLogEntry, ...]
    scheduling_attempted: bool
    triggered_scale_up: bool
    reserved_node: str
    assumed_node: str
    replaces: str
    triggered_preemption: bool


_group = Of[TaskGroup, None]()
_of = Of[Application, Partition]()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroupReport:
    """The placeholders of one task group (spec § 6.4), `count` in all.

    `replaced` ones were replaced by real allocations; `timed_out` ones ended otherwise, or are
    stopping. `min_resource` is the size of the first.
    """

    name: str
    count: int
    replaced: int
    timed_out: int
    min_resource: Resources


_task_group_report = _group.table(TaskGroupReport)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppReport:
    """An application without its asks and allocations.

    `group` is the one that it counts for, empty for none. An assumed ask counts as an ask, though
    its resources are in `allocated` already. Resources of placeholders are in
    `placeholder_allocated` and not in `allocated`.
    """

    app_id: AppId
    partition: PartitionName = _of.within(lambda _, here: here.name)
    queue: QueuePath = _of(lambda app: app.queue_path)
    user: str = _of(lambda app: app.user.user)
    groups: tuple[str, ...] = _of(lambda app: app.user.groups)
    group: str
    state: str = _of(lambda app: app.state.value)
    message: str
    submission_time: Moment
    start_time: Moment
    finished_time: Moment
    backoff_until: Moment
    allocated: Resources
    max_allocated: Resources = _of(most_allocated)
    pending: Resources = _of(lambda app: dict(app.pending_total))
    max_priority: int = _of(lambda app: app.priorities.top)
    pending_count: int = _of(lambda app: app.pending_count + app.assumed_count + app.replacing_count)
    allocation_count: int = _of(lambda app: app.allocation_count - app.assumed_count)
    reserved: int = _of(lambda app: len(app.reserved))
    """Asks that have a node reserved."""
    state_log: tuple[tuple[float, str], ...] = _of(
        lambda app: tuple((time, state.value) for time, state in app.state_log)
    )
    placeholder_count: int
    """Placeholders that keep room; they are in `allocation_count`."""
    placeholder_allocated: Resources
    placeholder_ask: Resources = _of(lambda app: dict(app.gang.placeholder_ask))
    """Total of all placeholders of a gang; empty for an application without a gang."""
    gang_style: str = _of(lambda app: app.gang.style.value if app.gang.is_wanted else "")
    """``Soft`` or ``Hard``; empty for an application without a gang."""
    placeholder_deadline: Moment = _of.within(lambda app, here: _placeholder_deadline(here, app))
    """Time at which its placeholders time out; 0.0 while no time is running."""
    task_groups: tuple[TaskGroupReport, ...] = _of(
        lambda app: tuple(_task_group_report(group, None) for group in app.gang.groups.values())
    )


app_report = _of.table(AppReport)


def asks_of(app: Application) -> Iterator[AskReport | None]:
    """All asks of an application in order, each as it is when its turn comes.

    There is a None wherever the reader may pause: very many are put in order part by part.
    """
    logs = _Logs(app)
    for request in in_runs(list(app.requests.values()), key=place_of, fits=is_ask):
        yield logs.report(request) if request is not None and is_ask(request) else None


def allocations_of(app: Application) -> Iterator[tuple[Allocation, str] | None]:
    """All allocations that the RM knows, with the reason that one is being stopped.

    There is a None wherever the reader may pause: very many asks may be among them.
    """
    for number, request in enumerate(list(app.requests.values()), 1):
        if request.allocation is not None and request.state not in SHOWN_AS_ASKS:
            yield request.allocation, why_stopped(request)
        if not number % RUN:
            yield None


def _placeholder_deadline(partition: Partition, app: Application) -> float:
    """Time at which its placeholders time out; another application may have its id by now."""
    if partition.applications.get(app.app_id) is not app:
        return 0.0
    return partition.timers.deadline(Timer(Due.PLACEHOLDERS, app.app_id)) or 0.0


def reservations_of(
    partition: Partition, app: Application, *, reasoned: bool = True
) -> Iterator[ReservationReport]:
    """The nodes that are reserved for asks of an application now, and why these do not run."""
    for request in list(app.reserved.values()):
        reservation = request.reservation
        if reservation is not None and reservation.node_id is not None:
            yield reservation_report(partition, reservation, reasoned=reasoned)


class _Logs:
    """Log entries of groups, made once for all asks of one: there may be very many."""

    def __init__(self, app: Application) -> None:
        self._app = app
        self._logs: dict[object, tuple[AskLogEntry, ...]] = {}

    def report(self, request: Request) -> AskReport:
        """Report an ask as it is now."""
        key = group_key(request.ask)
        group = self._app.groups.get(key)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = () if group is None else _log(group)
        reservation = request.reservation
        return AskReport(
            request.ask,
            request.create_time,
            log,
            group is not None and group.attempted,
            request.reported,
            "" if reservation is None else reservation.node_id or "",
            _assumed_node(request),
            "" if request.partner is None else request.partner.key,
            request.triggered,
        )


def _assumed_node(request: Request) -> str:
    """The node that the RM is being asked about, as the request is to run there; empty for none."""
    is_asked = request.state is RequestState.ASSUMED or request.state is RequestState.MATCHED
    return node_of(request) if is_asked else ""


def _log(group: AskGroup) -> tuple[AskLogEntry, ...]:
    """Reasons that kept the asks of a group back so far, the latest last."""
    found = sorted((entry.time, message, entry.times) for message, entry in group.log.items())
    return tuple(AskLogEntry(message=message, last_time=time, count=times) for time, message, times in found)
