"""`licorne top`: the queues of all partitions as they change, until interrupted."""

import argparse
import sys
from collections.abc import Sequence
from itertools import count
from time import perf_counter, sleep

from rich.console import Console

from licorne.v1.state_pb2 import ListPartitionsRequest, ListQueuesRequest, Partition, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.arguments import positive, seconds
from licorne_server.cli.board import Board, Snapshot
from licorne_server.cli.connection import (
    OK,
    NotFoundError,
    add_connection_arguments,
    pages,
    with_state,
)
from licorne_server.cli.output import is_terminal, print_json, printable, to_plain

EXAMPLES = (
    ("licorne top", "until interrupted"),
    ("licorne top --count 1", "one look, for scripts"),
)
DEFAULT_INTERVAL = 2.0


class _Console(Console):
    """A console that leaves it to `with_state` what a closed pipe means."""

    def on_broken_pipe(self) -> None:
        """Do not exit with an error of our own."""
        raise BrokenPipeError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne top`."""
    parser.add_argument(
        "--interval",
        type=seconds(0.0),
        default=DEFAULT_INTERVAL,
        metavar="SECONDS",
        help="between two looks (%(default)s)",
    )
    parser.add_argument("--count", type=positive, metavar="N", help="end after so many looks")
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Look again and again; an interrupt is the end that is expected."""
    try:
        return with_state(args, show)
    except KeyboardInterrupt:
        return OK


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """All partitions, or the one that was named: a picture, a line or an object for each look."""
    pictured = args.output == "table" and is_terminal(sys.stdout)
    console = _Console(force_terminal=pictured, highlight=False)
    start = perf_counter()
    with Board(console) as board:
        for look in count(1):
            partitions = chosen(stub, args)
            if args.output == "json":
                print_json({"partitions": [to_plain(partition) for partition in partitions]})
            else:
                queues = [(item.name, queues_of(stub, args, item)) for item in partitions]
                seconds = perf_counter() - start
                board.show(Snapshot(seconds=seconds, queues=queues, totals=totals(partitions)))
            if look == args.count:
                return
            sleep(max(0.0, args.interval))


def chosen(stub: StateStub, args: argparse.Namespace) -> Sequence[Partition]:
    """The partitions to look at; a bare name means the first that is called so."""
    partitions = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
    if not args.partition:
        return partitions
    named = [
        item
        for item in partitions
        if item.name == args.partition or item.name.endswith(f"]{args.partition}")
    ]
    if not named:
        raise NotFoundError(f"partition {printable(args.partition)} not found")
    return named[:1]


def queues_of(stub: StateStub, args: argparse.Namespace, partition: Partition) -> list[Queue]:
    """The queues of one partition, parents before children."""
    request = ListQueuesRequest(partition=partition.name)
    return [
        queue for page in pages(stub.ListQueues, request, args.timeout) for queue in page.queues
    ]


def totals(partitions: Sequence[Partition]) -> str:
    """What there is in all of them."""
    nodes = sum(partition.nodes for partition in partitions)
    allocations = sum(partition.allocations for partition in partitions)
    waiting = sum(partition.pending_asks for partition in partitions)
    return f"{nodes:,} nodes, {allocations:,} allocations, {waiting:,} asks waiting"
