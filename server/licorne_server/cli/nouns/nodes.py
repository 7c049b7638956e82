"""`licorne nodes`: the nodes of a partition, or one of them."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.state_pb2 import ListNodesRequest, Node
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection.channel import (
    NotFoundError,
    add_connection_arguments,
    chosen_partition,
    pages,
    with_channel,
)
from licorne_server.cli.nouns import node_acts
from licorne_server.cli.nouns.selector import Selector, add_selector_argument
from licorne_server.cli.nouns.verbs import act_and_names, add_words
from licorne_server.cli.output.listing import (
    Column,
    Listing,
    add_listing_arguments,
    itself,
    number,
    resources,
)
from licorne_server.cli.output.text import NOTHING, printable, reason_text, shown_time
from licorne_server.cli.output.watch import print_or_watch

EXAMPLES = (
    ("licorne nodes", "all nodes of the default partition"),
    ("licorne nodes --sort-by used --reverse", "the fullest first"),
    ("licorne nodes -l zone=a,kind!=spot --schedulable yes", "by their attributes"),
    ("licorne nodes -w -o wide", "and go on with what changes"),
    ("licorne nodes --reserved", "for whom nodes are reserved, and why these wait"),
    ("licorne nodes drain n1", "keep new allocations off it"),
)


def reserved_for(node: Node) -> str:
    """The asks that the node is kept free for, the oldest first: ``shop/k1 shop/k2``."""
    asks = (f"{item.application_id}/{item.allocation_key}" for item in node.reservations)
    more = node.reservation_count - len(node.reservations)
    return " ".join((*asks, *([f"and {more:,} more"] if more > 0 else []))) or NOTHING


def holders(node: Node) -> str:
    """The queues of these asks."""
    queues = dict.fromkeys(item.queue for item in node.reservations if item.queue)
    return printable(" ".join(queues)) or NOTHING


def reserved_since(node: Node) -> str:
    """When the oldest of them was reserved."""
    return shown_time(node.reservations[0].time) if node.reservations else NOTHING


def why_idle(node: Node) -> str:
    """Why they do not run there: ``waits for room on the node, lacks vcore=2``."""
    reasons = dict.fromkeys(reason_text(item.reason) for item in node.reservations)
    return "; ".join(text for text in reasons if text) or NOTHING


def attributes(node: Node) -> str:
    """Its attributes by name: ``zone=a,kind=spot``."""
    pairs = sorted(node.attributes.items())
    return ",".join(f"{name}={value}" for name, value in pairs) or NOTHING


def schedulable(node: Node) -> str:
    """Whether new allocations may go there; ``drained`` if an operator does not want them."""
    return "drained" if node.drained else "yes" if node.schedulable else "no"


NODES = Listing[Node, Node](
    kind="node",
    plural="nodes",
    name=lambda node: node.node_id,
    rows=itself,
    columns=(
        Column("NODE", lambda node: node.node_id, head=True),
        Column("SCHEDULABLE", schedulable),
        # The weighted utilization.
        Column("USED", lambda node: f"{node.utilization:.0%}", key=lambda node: node.utilization),
        number("ALLOCATIONS", lambda node: node.allocation_count),
        resources("CAPACITY", lambda node: node.capacity),
        resources("AVAILABLE", lambda node: node.available),
        resources("OCCUPIED", lambda node: node.occupied),
        Column("RESERVED FOR", reserved_for),
        Column("HOLDER", why_idle, wide=True, optional=True),
        Column("HOLDER QUEUE", holders, wide=True, optional=True),
        resources("RESERVED", lambda node: node.kept, wide=True, optional=True),
        Column("RESERVED SINCE", reserved_since, wide=True, optional=True),
        resources("ALLOCATED", lambda node: node.allocated, wide=True),
        number("FOREIGN", lambda node: node.foreign_count, wide=True),
        Column("ATTRIBUTES", attributes, wide=True),
        Column("PARTITION", lambda node: node.partition, wide=True),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne nodes`."""
    add_words(parser, "node", node_acts.ACTS, "only this node")
    add = parser.add_argument
    add_selector_argument(parser)
    add("--schedulable", choices=("yes", "no"), help="only those that are, or are not")
    add("--reserved", action="store_true", help="only those that are kept free for an ask")
    add_listing_arguments(parser, NODES)
    add_connection_arguments(parser, forms=())


def run(args: argparse.Namespace) -> int:
    """Print the nodes in the order in which the server lists them, or act on some."""
    return with_channel(args, lambda channel: show_or_act(channel, args))


def show_or_act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or act."""
    verb, names = act_and_names(args, node_acts.ACTS, "NODE")
    if verb:
        node_acts.act(channel, args, verb, names)
    else:
        args.node = "".join(names)
        show(StateStub(channel), args)


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    partition = chosen_partition(stub, args)
    if (args.reserved or args.node) and args.output == "table":
        args.output = "wide"  # there are few rows, and people want to know all about them
    print_or_watch(NODES, lambda: found_nodes(stub, args, partition), args)


def found_nodes(stub: StateStub, args: argparse.Namespace, partition: str) -> Sequence[Node]:
    """The nodes that the arguments ask for.

    Raises:
        NotFoundError: the node that was named is not there.
    """
    found = pages(stub.ListNodes, ListNodesRequest(partition=partition), args.timeout)
    everything = (node for page in found for node in page.nodes)
    nodes = [node for node in everything if args.node in ("", node.node_id)]
    if args.node and not nodes:
        name, where = printable(args.node), printable(partition)
        raise NotFoundError(f"node {name} not found in partition {where}")
    return [node for node in nodes if is_wanted(node, args)]


def is_wanted(node: Node, args: argparse.Namespace) -> bool:
    """Whether the filters let it through."""
    selector: Selector = args.selector
    return (
        selector.takes(node.attributes)
        and (args.schedulable is None or node.schedulable == (args.schedulable == "yes"))
        and (not args.reserved or node.reservation_count > 0)
    )
