"""`licorne queues`: the queues of a partition, or a queue and those below it."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.state_pb2 import ListQueuesRequest, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli import queue_acts
from licorne_server.cli.acting import act_and_names, add_words, add_yes
from licorne_server.cli.connection import (
    NotFoundError,
    add_connection_arguments,
    chosen_partition,
    pages,
    with_channel,
)
from licorne_server.cli.output import (
    human_resources,
    print_json,
    print_table,
    printable,
    to_plain,
)

HEADERS = ("QUEUE", "STATE", "APPS", "SHARE", "ALLOCATED", "GUARANTEED", "MAX", "PENDING")
PREEMPTING_HEADERS = ("PREEMPTING", "PROMISED")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne queues`."""
    add_words(parser, "QUEUE", queue_acts.ACTS, "this queue and below")
    add_yes(parser)
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the queues, parents before children, or act on some."""
    return with_channel(args, lambda channel: show_or_act(channel, args))


def show_or_act(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Ask and print, or act."""
    verb, names = act_and_names(args, queue_acts.ACTS, "QUEUE")
    if verb:
        queue_acts.act(channel, args, verb, names)
    else:
        args.path = "".join(names)
        show(StateStub(channel), args)


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    partition = chosen_partition(stub, args)
    found = pages(stub.ListQueues, ListQueuesRequest(partition=partition), args.timeout)
    everything = (queue for page in found for queue in page.queues)
    queues = [queue for queue in everything if is_below(queue.path, args.path)]
    if args.path and not queues:
        path, where = printable(args.path), printable(partition)
        raise NotFoundError(f"queue {path} not found in partition {where}")
    if args.output == "json":
        print_json({"queues": [to_plain(queue) for queue in queues]})
    else:
        print_queues(queues)


def print_queues(queues: Sequence[Queue]) -> None:
    """A line for each; what preemption is about to change has columns only while there is any."""
    if any(queue.preempting or queue.promised for queue in queues):
        rows = [(*row(queue), *preempting_cells(queue)) for queue in queues]
        print_table((*HEADERS, *PREEMPTING_HEADERS), rows)
    else:
        print_table(HEADERS, [row(queue) for queue in queues])


def is_below(path: str, top: str) -> bool:
    """Whether a queue is `top` or below it; every queue is below the empty path."""
    return not top or path == top or path.startswith(f"{top}.")


def row(queue: Queue) -> tuple[str, ...]:
    """One line of the table. APPS is running of all in a leaf, running below a parent."""
    apps = str(queue.running_applications)
    if queue.is_leaf:
        apps += f"/{queue.applications}"
    if queue.max_applications:
        apps += f" (max {queue.max_applications})"
    return (
        printable(queue.path),
        queue.state,
        apps,
        f"{queue.share:.0%}",
        human_resources(queue.allocated),
        human_resources(queue.guaranteed),
        human_resources(queue.max),
        human_resources(queue.pending),
    )


def preempting_cells(queue: Queue) -> tuple[str, ...]:
    """What victims are about to free in the queue, and what asks in it are promised."""
    return human_resources(queue.preempting), human_resources(queue.promised)
