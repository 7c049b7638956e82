"""Nodes as REST shows them (spec § 12.4)."""

from functools import partial

from licorne_core.ids import PartitionName
from licorne_core.reports import NodeReport
from licorne_core.views import Views
from licorne_server.http.json_apps import allocation_json
from licorne_server.http.stream import JsonObject, Rows
from licorne_server.http.units import percentages, rest_name

HOSTNAME = "si/hostname"
RACKNAME = "si/rackname"


def nodes(views: Views, partition: PartitionName) -> Rows:
    """All nodes by id; what is on a node is fetched when its row is made."""

    def row(node: NodeReport) -> JsonObject:
        return node_json(views, views.node(partition, node.node_id))

    return Rows(views.nodes(partition), row)


def node_json(views: Views, node: NodeReport) -> JsonObject:
    """A node and what is on it."""
    common: JsonObject = {"partition": rest_name(views, node.partition)}
    return {
        "nodeID": node.node_id,
        "hostName": node.attributes.get(HOSTNAME, ""),
        "rackName": node.attributes.get(RACKNAME, ""),
        **common,
        "attributes": dict(node.attributes),
        "capacity": dict(node.capacity),
        "allocated": dict(node.allocated),
        "occupied": dict(node.occupied),
        "available": dict(node.available),
        "utilized": percentages(node.capacity, node.allocated),
        "schedulable": node.schedulable,
        "isReserved": False,
        "reservations": [],
        "foreignAllocations": [],
        "allocations": Rows(node.allocations, partial(allocation_json, common)),
    }
