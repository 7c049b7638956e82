"""Nodes as REST shows them (spec § 12.4)."""

from functools import partial

from licorne_core.asks import Allocation
from licorne_core.ids import AppId, NodeId, PartitionName, QueuePath
from licorne_core.reports import NodeReport
from licorne_core.views import Views
from licorne_server.http.json_apps import allocation_json
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import percentages, rest_name

HOSTNAME = "si/hostname"
RACKNAME = "si/rackname"


def nodes(views: Views, partition: PartitionName) -> Rows:
    """All nodes by id; a node is read when its row is made."""
    queues = _Queues(views, partition)

    def row(node_id: NodeId | None) -> JsonObject | None:
        if node_id is None:
            return None
        return _node_json(views, queues, views.node(partition, node_id))

    return Rows(views.node_ids_in_order(partition), row)


def single_node(views: Views, partition: PartitionName, node_id: str) -> JsonObject:
    """A node and what is on it; raises NotFound."""
    return _node_json(views, _Queues(views, partition), views.node(partition, node_id))


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


def _node_json(views: Views, queues: _Queues, node: NodeReport) -> JsonObject:
    partition = rest_name(views, node.partition)

    def allocation_row(allocation: Allocation) -> JsonObject:
        app_id = allocation.ask.app_id
        common: JsonObject = {"partition": partition, "queueName": queues.of(app_id)}
        stopping = node.stopping.get((app_id, allocation.key), "")
        return allocation_json(common, allocation, stopping)

    foreign_row = partial(allocation_json, {"partition": partition, "queueName": ""})
    return {
        "nodeID": node.node_id,
        "hostName": node.attributes.get(HOSTNAME, ""),
        "rackName": node.attributes.get(RACKNAME, ""),
        "partition": partition,
        "attributes": dict(node.attributes),
        "capacity": dict(node.capacity),
        "allocated": dict(node.allocated),
        "occupied": dict(node.occupied),
        "available": dict(node.available),
        "utilized": percentages(node.capacity, node.allocated),
        "schedulable": node.schedulable,
        "isReserved": bool(node.reservations),
        "reservations": [reservation.key for reservation in node.reservations],
        "allocations": Rows(node.allocations, allocation_row),
        "foreignAllocations": Rows(node.foreign, foreign_row),
    }
