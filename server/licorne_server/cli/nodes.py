"""`licorne nodes`: the nodes of a partition, or one of them."""

import argparse

import grpc

from licorne.v1.state_pb2 import ListNodesRequest, Node
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli import node_acts
from licorne_server.cli.acting import act_and_names, add_words
from licorne_server.cli.connection import (
    NotFoundError,
    add_connection_arguments,
    chosen_partition,
    pages,
    with_channel,
)
from licorne_server.cli.output import (
    NOTHING,
    human_resources,
    print_json,
    print_table,
    printable,
    to_plain,
)

HEADERS = (
    "NODE",
    "SCHEDULABLE",
    "USED",
    "ALLOCATIONS",
    "CAPACITY",
    "AVAILABLE",
    "OCCUPIED",
    "RESERVED FOR",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne nodes`."""
    add_words(parser, "NODE", node_acts.ACTS, "only this node")
    add_connection_arguments(parser)


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
    found = pages(stub.ListNodes, ListNodesRequest(partition=partition), args.timeout)
    everything = (node for page in found for node in page.nodes)
    nodes = [node for node in everything if args.node in ("", node.node_id)]
    if args.node and not nodes:
        name, where = printable(args.node), printable(partition)
        raise NotFoundError(f"node {name} not found in partition {where}")
    if args.output == "json":
        print_json({"nodes": [to_plain(node) for node in nodes]})
    else:
        print_table(HEADERS, [row(node) for node in nodes])


def row(node: Node) -> tuple[str, ...]:
    """One line of the table; USED is the weighted utilization."""
    return (
        printable(node.node_id),
        "drained" if node.drained else "yes" if node.schedulable else "no",
        f"{node.utilization:.0%}",
        str(node.allocation_count),
        human_resources(node.capacity),
        human_resources(node.available),
        human_resources(node.occupied),
        reserved_for(node),
    )


def reserved_for(node: Node) -> str:
    """The asks that the node is kept free for, the oldest first: ``shop/k1 shop/k2``."""
    asks = (f"{item.application_id}/{item.allocation_key}" for item in node.reservations)
    return printable(" ".join(asks)) or NOTHING
