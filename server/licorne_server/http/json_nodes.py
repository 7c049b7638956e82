"""Nodes in REST (spec § 12.4)."""

from functools import partial

from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AppId, NodeId, PartitionName, QueuePath
from licorne_core.views import Views
from licorne_core.views.nodes import NodeReport, ReservationReport
from licorne_server.http.json_apps import allocation_json
from licorne_server.http.stream import JsonObject, Rows, array_of
from licorne_server.http.units import percentages, rest_form, rest_name

HOSTNAME = "si/hostname"
RACKNAME = "si/rackname"


def nodes(views: Views, partition: PartitionName) -> Rows:
    """All nodes by id; a node is read when its row is made."""
    queues = _Queues(views, partition)

    def row(node_id: NodeId | None) -> JsonObject | None:
        if node_id is None:
            return None
        return _node_json(views, queues, views.node(partition, node_id, detail=False))

    return Rows(views.node_ids_in_order(partition), row)


def single_node(views: Views, partition: PartitionName, node_id: str) -> JsonObject:
    """A node and its allocations; raises NotFound."""
    queues = _Queues(views, partition)
    return _node_json(views, queues, views.node(partition, node_id, detail=False))


class _Queues:
    """Finds the queues of applications, each once for an answer."""

    def __init__(self, views: Views, partition: PartitionName) -> None:
        self._views = views
        self._partition = partition
        self._known: dict[AppId, QueuePath] = {}

    def of(self, app_id: AppId) -> QueuePath:
        """The application's queue; raises NotFound."""
        queue = self._known.get(app_id)
        if queue is None:
            report = self._views.application(self._partition, app_id, detail=False)
            queue = self._known[app_id] = report.queue
        return queue


def reservation_json(found: ReservationReport | None) -> JsonObject | None:
    """A reservation: its ask, its amounts, and the ask's blocker."""
    return None if found is None else _reservation(found)


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


def _node_json(views: Views, queues: _Queues, node: NodeReport) -> JsonObject:
    partition = rest_name(views, node.partition)

    def allocation_row(item: tuple[Allocation, str] | None) -> JsonObject | None:
        if item is None:
            return None
        queue = queues.of(item[0].ask.app_id)
        return allocation_json({"partition": partition, "queueName": queue}, *item)

    foreign_row = partial(allocation_json, {"partition": partition, "queueName": ""})
    return {
        **_node(node),
        "partition": partition,
        "reservations": array_of(
            None if found is None else found.key
            for found in views.reservations_on(node.partition, node.node_id, reasoned=False)
        ),
        "reservedFor": Rows(views.reservations_on(node.partition, node.node_id), reservation_json),
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
    },
    without="partition drained utilization allocation_count foreign_count reserved kept "
    "allocations foreign stopping",
)
