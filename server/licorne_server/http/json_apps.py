"""Applications, asks, allocations, nodes and reservations in REST (spec § 12.4, corrected by § 14)."""

from collections.abc import Callable
from functools import cache, partial

from licorne_core.values.app_states import AppState
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AppId, NodeId, PartitionName, QueuePath
from licorne_core.views import Views
from licorne_core.views.applications import AppReport, AskLogEntry, AskReport, TaskGroupReport
from licorne_core.views.fields import Source
from licorne_core.views.nodes import NodeReport, ReservationReport, StayReport
from licorne_server.http.stream import JsonObject, Rows, array_of
from licorne_server.http.units import mark_json, milliseconds, percentages, rest_form, rest_name
from licorne_server.wire.features import names
from licorne_server.wire.responses import nanoseconds


def applications(
    views: Views, partition: PartitionName, *, queue: str = "", state: str, status: str = ""
) -> Rows:
    """The applications of a state (``active``, ``completed``, ``rejected``), ordered by name.

    `status` selects a state of the application itself, in lower case; `queue` selects one leaf.
    """

    def row(name: AppId) -> JsonObject | None:
        summary = views.application(partition, name)
        moved_on = bool(summary.finished_time) == (state == "active")
        if moved_on or (status and summary.state.lower() != status):
            return None
        return application_json(views, name, summary)

    return Rows(views.app_ids_in_order(partition, queue=queue, state=state), row)


def application_json(views: Views, name: str, app: AppReport) -> JsonObject:
    """An application by name, with its asks and allocations, each read when it is sent."""
    partition = rest_name(views, app.partition)
    common: JsonObject = {"partition": partition, "queueName": app.queue}
    return {
        **_application(app),
        **common,
        "reservations": array_of(
            reservation.key for reservation in views.reservations_of(app.partition, name, reasoned=False)
        ),
        "resourceHistory": {},
        "requests": Rows(views.asks(app.partition, name), partial(ask_json, common)),
        "allocations": Rows(
            views.allocations(app.partition, name), lambda item: allocation_json(common, *item)
        ),
    }


def _state_log(app: AppReport) -> list[JsonObject]:
    return [{"time": nanoseconds(time), "applicationState": state} for time, state in app.state_log]


_task_group = rest_form(
    TaskGroupReport,
    {"taskGroupName": "name", "minResource": "min_resource", "timedout": "timed_out"},
)


_application = rest_form(
    AppReport,
    {
        "applicationID": "app_id",
        "applicationState": "state",
        "queueName": "queue",
        "rejectedMessage": lambda app: app.message if app.state == AppState.REJECTED.value else "",
        "usedResource": "allocated",
        "placeholderResource": "placeholder_allocated",
        "maxUsedResource": "max_allocated",
        "pendingResource": "pending",
        "maxRequestPriority": "max_priority",
        "lastStateChangeTime": ("state_log", lambda log: nanoseconds(log[-1][0])),
        # The only times in milliseconds; this one is also the only time as text, as in the older core.
        "startTime": ("start_time", milliseconds),
        **names("APPLICATION"),
        "stateLog": _state_log,
        "placeholderData": lambda app: [_task_group(group) for group in app.task_groups],
        "hasReserved": lambda app: app.reserved > 0,
        "hold": ("hold", mark_json),
        "change": ("change", mark_json),
    },
    without="partition message group pending_count allocation_count reserved placeholder_count "
    "placeholder_ask gang_style placeholder_deadline task_groups",
    optional=" ".join(
        (
            *names("APPLICATION_OPTIONAL"),
            "submissionTime finishedTime lastStateChangeTime startTime hold change",
        )
    ),
)


def ask_json(common: JsonObject, report: AskReport) -> JsonObject:
    """An ask without an allocation; `common` has the fields shared by all asks of its application."""
    return {**_ask(report), **common}


_STAY = names("ALLOCATION")


def allocation_json(
    common: JsonObject,
    allocation: Allocation,
    stopping: str = "",
    stay: StayReport | None = None,
    checkpoint: float = 0.0,
) -> JsonObject:
    """An allocation; `common` has the fields shared by all in the same list.

    `stopping` is the reason why the RM was asked to stop it, empty if there is none. For `stay` and
    `checkpoint` see `AllocationReport`; missing values are left out.
    """
    found = {**_allocation(allocation), **common}
    found |= {"preempted": stopping == "preempted", "stopping": stopping}
    if stay is not None:
        found |= {name: of(stay) for name, of in _STAY.items()}
    if checkpoint:
        found["checkpoint"] = nanoseconds(checkpoint)
    return found


_ASKED: dict[str, Source] = {
    "allocationKey": "ask.key",
    "applicationId": "ask.app_id",
    "allocationTags": ("ask.tags", dict),
    "requestTime": ("request_time", nanoseconds),
    "resource": ("ask.ask_class.resources", dict),
    # A text, as in the older core.
    "priority": ("ask.priority", str),
    "placeholder": "ask.placeholder",
    "taskGroupName": "ask.task_group",
    "originator": "ask.originator",
}
_log_entry = rest_form(AskLogEntry, {"lastOccurrence": "last_time"})
_ask = rest_form(
    AskReport,
    {
        **_ASKED,
        "requiredNodeId": ("ask.ask_class.required_node", lambda node_id: node_id or ""),
        "allocationLog": ("allocation_log", lambda log: list(map(_log_entry, log))),
    },
    without="reserved_node assumed_node replaces obstacle",
)
_allocation = rest_form(
    Allocation,
    {
        **_ASKED,
        "allocationTime": ("allocation_time", nanoseconds),
        "allocationDelay": lambda of: nanoseconds(of.allocation_time - of.request_time),
    },
    without="expected_runtime",
)

HOSTNAME = "si/hostname"
RACKNAME = "si/rackname"


def nodes(views: Views, partition: PartitionName) -> Rows:
    """All nodes by id, each read when it is sent."""
    queue_of = _queues(views, partition)

    def row(node_id: NodeId) -> JsonObject:
        return _node_json(views, queue_of, views.node(partition, node_id))

    return Rows(views.node_ids_in_order(partition), row)


def single_node(views: Views, partition: PartitionName, node_id: str) -> JsonObject:
    """A node and its allocations; raises NotFound."""
    return _node_json(views, _queues(views, partition), views.node(partition, node_id))


def _queues(views: Views, partition: PartitionName) -> Callable[[AppId], QueuePath]:
    """A function that finds the queue of an application, and caches it; raises NotFound."""
    return cache(lambda app_id: views.application(partition, app_id).queue)


_reservation = rest_form(
    ReservationReport,
    {
        "allocationKey": "key",
        "applicationId": "app_id",
        "queueName": "queue",
        "resource": "kept",
        "reasonCode": "reason.code",
        "reason": "reason.text",
        "lacks": ("reason.lacks", dict),
    },
    without="node_id",
)


def _node_json(views: Views, queue_of: Callable[[AppId], QueuePath], node: NodeReport) -> JsonObject:
    partition = rest_name(views, node.partition)

    def allocation_row(item: tuple[Allocation, str]) -> JsonObject:
        queue = queue_of(item[0].ask.app_id)
        return allocation_json({"partition": partition, "queueName": queue}, *item)

    foreign_row = partial(allocation_json, {"partition": partition, "queueName": ""})
    return {
        **_node(node),
        "partition": partition,
        "reservations": array_of(
            None if found is None else found.key
            for found in views.reservations_on(node.partition, node.node_id, reasoned=False)
        ),
        "reservedFor": Rows(views.reservations_on(node.partition, node.node_id), _reservation),
        "allocations": Rows(views.allocations_on(node.partition, node.node_id), allocation_row),
        "foreignAllocations": Rows(views.foreign_on(node.partition, node.node_id), foreign_row),
    }


_node = rest_form(
    NodeReport,
    {
        "nodeID": "node_id",
        "hostName": lambda node: node.attributes.get(HOSTNAME, ""),
        "rackName": lambda node: node.attributes.get(RACKNAME, ""),
        "utilized": lambda node: percentages(node.capacity, node.allocated),
        "isReserved": lambda node: node.reserved > 0,
        "cordon": ("closed", mark_json),
        **names("NODE"),
    },
    optional=" ".join(("cordon", *names("NODE_OPTIONAL"))),
    without="partition closed utilization allocation_count foreign_count reserved kept",
)
