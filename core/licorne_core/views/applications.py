"""Applications with their asks and allocations, explanations, and victims of preemption.

An allocation that was not reported to the RM yet is shown as an ask: it is assumed, or it waits for the
end of a placeholder.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from licorne_core.messages.operators import OperatorMark
from licorne_core.messages.preemption import PreemptionRecord
from licorne_core.messages.reports import Explanation
from licorne_core.model.apps.application import Application, most_allocated
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.groups import AskGroup, group_key
from licorne_core.model.apps.requests import SHOWN_AS_ASKS, Request, RequestState, is_ask, place_of
from licorne_core.partitions.partition import Partition, latest_end
from licorne_core.values.asks import Ask
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, QueuePath
from licorne_core.values.resources import Resources
from licorne_core.values.slices import RUN, in_runs
from licorne_core.values.timers import Due, Timer
from licorne_core.views.census import obstacle_of
from licorne_core.views.explain import explain
from licorne_core.views.explain_settled import explain_preempted, node_of
from licorne_core.views.fields import Moment, Of
from licorne_core.views.nodes import (
    AllocationReport,
    ReservationReport,
    allocation_report,
    reservation_report,
)
from licorne_core.views.obstacles import Ahead, FirstObstacle, ahead_of, first_obstacle, obstacle_text
from licorne_core.views.partitions import InOrder, PartitionViews


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLogEntry:
    """A reason why an ask was not placed: the time of its last occurrence, and the number of occurrences."""

    message: str
    last_time: Moment
    count: int


@dataclass(slots=True)
class AskReport:
    """An ask without an allocation reported to the RM (spec §§ 6.5, 8.5, 8.12, 8.13, 9.2).

    `reserved_node` is reserved for the ask. `assumed_node` is the node of the open predicate check.
    `replaces` is the placeholder that the ask will replace. Each is empty if there is none.
    `triggered_preemption` is True if victims were stopped for the ask. `obstacle` is the code of its
    obstacle, one of `census.REASONS`. A report is never changed, but it is not frozen, as freezing doubles
    the cost and an application may have 100,000 asks.
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
    obstacle: str


_group = Of[TaskGroup, None]()
_of = Of[Application, Partition]()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroupReport:
    """The placeholders of one task group (spec § 6.4); `count` is their number.

    `replaced` is the number of placeholders replaced by real allocations, and `timed_out` the number of those
    that ended in another way or are being stopped. `min_resource` is the size of the first placeholder.
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

    `group` is the group whose limits apply; empty if there is none. An assumed ask counts as an ask, though
    its resources are in `allocated`. Resources of placeholders are in `placeholder_allocated`, not in
    `allocated`.
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
    allocated: Resources
    max_allocated: Resources = _of(most_allocated)
    pending: Resources = _of(lambda app: dict(app.pending_total))
    hold: OperatorMark | None = _of(lambda app: app.held)
    change: OperatorMark | None = _of(lambda app: app.changed)
    operator_priority: int | None = _of(lambda app: app.priority)
    """The priority that an operator has set for all its asks; None if they have their own."""
    max_priority: int = _of(lambda app: app.priorities.top)
    age_bonus: int = _of(lambda app: app.bonus)
    """The age bonus of its oldest ask, added to its highest priority to order applications."""
    pending_count: int = _of(lambda app: app.pending_count + app.assumed_count + app.replacing_count)
    allocation_count: int = _of(lambda app: app.allocation_count - app.assumed_count)
    reserved: int = _of(lambda app: len(app.reserved))
    """Number of asks that have a node reserved."""
    state_log: tuple[tuple[float, str], ...] = _of(
        lambda app: tuple((time, state.value) for time, state in app.state_log)
    )
    placeholder_count: int
    """Number of allocated placeholders; `allocation_count` includes them."""
    placeholder_allocated: Resources
    placeholder_ask: Resources = _of(lambda app: dict(app.gang.placeholder_ask))
    """Total of all placeholders of a gang; empty for an application without a gang."""
    gang_style: str = _of(lambda app: app.gang.style.value if app.gang.is_wanted else "")
    """``Soft`` or ``Hard``; empty for an application without a gang."""
    placeholder_deadline: Moment = _of.within(lambda app, here: _placeholder_deadline(here, app))
    """Time at which the placeholders time out; 0.0 if no timeout is running."""
    task_groups: tuple[TaskGroupReport, ...] = _of(
        lambda app: tuple(_task_group_report(group, None) for group in app.gang.groups.values())
    )
    extended: Mapping[str, Any] = _of.added("application", lambda _, here: here.points)


_app_report = _of.table(AppReport)


def _placeholder_deadline(partition: Partition, app: Application) -> float:
    """Time at which the placeholders time out; 0.0 if they do not, or a later application has this id."""
    if partition.applications.get(app.app_id) is not app:
        return 0.0
    return partition.timers.deadline(Timer(Due.PLACEHOLDERS, app.app_id)) or 0.0


class AppViews(PartitionViews):
    """Applications, asks and victims of preemption. A missing object raises NotFound with its name."""

    def app_ids_in_order(
        self, partition: PartitionName, *, queue: str = "", state: str = "active"
    ) -> InOrder[AppId]:
        """Ids of applications that are active, completed or rejected; of one queue or of all."""
        owner = self._registry.partition(partition)
        if queue and owner.tree.get(queue) is None:
            raise NotFound(f"queue {shown(queue)} not found")
        found, wanted = _in_state(owner, state), queue.lower()

        def is_in_queue(name: AppId) -> bool:
            app = found.get(name)
            return app is not None and app.queue_path == wanted

        return InOrder(found, is_in_queue if wanted else None)

    def application(self, partition: PartitionName, app_id: str) -> AppReport:
        """Report an application, which may be completed or rejected."""
        owner = self._registry.partition(partition)
        return _app_report(_find(owner, app_id), owner)

    def asks(self, partition: PartitionName, app_id: str) -> Iterator[AskReport | None]:
        """All asks of one application in order, each read when it is yielded.

        None marks a possible pause of the reader, because a large list is sorted in parts.
        """
        owner = self._registry.partition(partition)
        return _asks(owner, _find(owner, app_id))

    def first_obstacle(self, partition: PartitionName, app_id: str) -> FirstObstacle:
        """The obstacle of the first ask of an application; its code is empty for an ended application."""
        owner = self._registry.partition(partition)
        return first_obstacle(owner, _find(owner, app_id))

    def ahead_of(self, partition: PartitionName, app_id: str, key: str) -> Iterator[Ahead | None]:
        """The position of a pending ask in its queue, after a None wherever the reader may pause."""
        owner = self._registry.partition(partition)
        return ahead_of(owner, _find(owner, app_id), key)

    def obstacle_text(self, partition: PartitionName, app_id: str, key: str, code: str) -> str:
        """The obstacle of an ask in words; empty if its current code differs from `code`."""
        owner = self._registry.partition(partition)
        return obstacle_text(owner, _find(owner, app_id), key, code)

    def allocations(self, partition: PartitionName, app_id: str) -> Iterator[AllocationReport | None]:
        """All allocations of one application that were reported to the RM.

        None marks a possible pause of the reader, as there may be very many asks among them.
        """
        owner = self._registry.partition(partition)
        return _allocations(owner, _find(owner, app_id))

    def reservations_of(
        self, partition: PartitionName, app_id: str, *, reasoned: bool = True
    ) -> Iterator[ReservationReport]:
        """Nodes reserved for asks of one application, each read when it is yielded.

        With `reasoned` each report has the reason why its ask waits.
        """
        owner = self._registry.partition(partition)
        return _reservations(owner, _find(owner, app_id), reasoned=reasoned)

    def explain(self, partition: PartitionName, app_id: str, key: str = "") -> Iterator[Explanation | None]:
        """Explain a pending ask, or the outcome of an ask; records of victims are retained for long.

        None marks a possible pause of the reader; the explanation is the last item.
        """
        owner = self._registry.partition(partition)
        app = owner.applications.get(AppId(app_id))
        if app is None or key not in app.requests:
            record = owner.ledger.find(AppId(app_id), AllocationKey(key))
            if record is not None:
                yield explain_preempted(record)
                return
        if app is None:
            gone = _find(owner, app_id)
            why = f": {gone.message}" if gone.message else ""
            raise NotFound(f"application {app_id} is {gone.state.value}{why}")
        yield from explain(owner, app, key)

    def preemptions(
        self, partition: PartitionName, app_id: str = "", key: str = "", *, before: int | None = None
    ) -> Iterator[PreemptionRecord]:
        """Victims of preemption, the latest first: all, or those of an application or of a key.

        With `before`, only records with lower numbers. Each record is read when it is yielded.
        """
        return self._registry.partition(partition).ledger.latest(app_id, key, before=before)

    def preemption(self, partition: PartitionName, app_id: str, key: str) -> PreemptionRecord | None:
        """The last record of an allocation as a victim; None if there is none."""
        return self._registry.partition(partition).ledger.find(AppId(app_id), AllocationKey(key))


def _in_state(partition: Partition, state: str) -> Mapping[AppId, Application]:
    """Applications that are active, completed or rejected, by their names; raises NotFound."""
    match state:
        case "active":
            return partition.applications
        case "completed":
            return partition.completed
        case "rejected":
            return partition.rejected
    raise NotFound(f"application state {shown(state)} is none of active, completed, rejected")


def _find(partition: Partition, app_id: str) -> Application:
    """The active application with this id, or else the last ended one; raises NotFound."""
    found = partition.applications.get(AppId(app_id)) or latest_end(partition, app_id)
    if found is None:
        raise NotFound(f"application {shown(app_id)} not found")
    return found


def _asks(partition: Partition, app: Application) -> Iterator[AskReport | None]:
    logs = _Logs(partition, app)
    for request in in_runs(list(app.requests.values()), key=place_of, fits=is_ask):
        yield logs.report(request) if request is not None and is_ask(request) else None


def _allocations(partition: Partition, app: Application) -> Iterator[AllocationReport | None]:
    for number, request in enumerate(list(app.requests.values()), 1):
        if request.allocation is not None and request.state not in SHOWN_AS_ASKS:
            yield allocation_report(partition, request, request.allocation)
        if not number % RUN:
            yield None


def _reservations(partition: Partition, app: Application, *, reasoned: bool) -> Iterator[ReservationReport]:
    for request in list(app.reserved.values()):
        reservation = request.reservation
        if reservation is not None and reservation.node_id is not None:
            yield reservation_report(partition, reservation, reasoned=reasoned)


class _Logs:
    """Log entries and obstacles of ask groups, each made once for all asks of its group."""

    def __init__(self, partition: Partition, app: Application) -> None:
        self._partition = partition
        self._app = app
        self._logs: dict[object, tuple[AskLogEntry, ...]] = {}
        self._obstacles: dict[object, str] = {}

    def report(self, request: Request) -> AskReport:
        """Report an ask."""
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
            self._obstacle(request, key),
        )

    def _obstacle(self, request: Request, key: object) -> str:
        if not request.is_pending or request.key in self._app.backing_off:
            return obstacle_of(self._partition, self._app, request)
        code = self._obstacles.get(key)
        if code is None:
            code = self._obstacles[key] = obstacle_of(self._partition, self._app, request)
        return code


def _assumed_node(request: Request) -> str:
    """Node of the open predicate check of a request; empty if there is none."""
    is_asked = request.state is RequestState.ASSUMED or request.state is RequestState.MATCHED
    return node_of(request) if is_asked else ""


def _log(group: AskGroup) -> tuple[AskLogEntry, ...]:
    """Reasons why asks of a group were not placed, the latest last."""
    found = sorted((entry.time, message, entry.times) for message, entry in group.log.items())
    return tuple(AskLogEntry(message=message, last_time=time, count=times) for time, message, times in found)
