"""`licorne queues`: the queues of a partition, or a queue and those below it."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.state_pb2 import ListQueuesRequest, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_core.priorities import NO_PRIORITY
from licorne_server.cli.connection.channel import (
    NotFoundError,
    add_connection_arguments,
    chosen_partition,
    pages,
    with_channel,
)
from licorne_server.cli.nouns import queue_acts
from licorne_server.cli.nouns.verbs import act_and_names, add_words, add_yes
from licorne_server.cli.output.listing import (
    Column,
    Listing,
    add_listing_arguments,
    itself,
    resources,
)
from licorne_server.cli.output.text import NOTHING, printable
from licorne_server.cli.output.watch import print_or_watch

EXAMPLES = (
    ("licorne queues", "all queues of the default partition"),
    ("licorne queues root.batch", "one, and those below it"),
    ("licorne queues --leaves --pending --sort-by pending.memory", "where asks wait"),
    ("licorne queues -o yaml", "everything that is known of them"),
    ("licorne queues stop root.batch --yes", "nothing new is allocated there"),
)
STATES = ("active", "draining", "stopped")


def apps(queue: Queue) -> str:
    """Running of all applications in a leaf, running ones below a parent."""
    text = str(queue.running_applications)
    if queue.is_leaf:
        text += f"/{queue.applications}"
    return f"{text} (max {queue.max_applications})" if queue.max_applications else text


def priority(queue: Queue) -> str:
    """The highest that waits in it; a dash where nothing waits."""
    return NOTHING if queue.priority == NO_PRIORITY else str(queue.priority)


QUEUES = Listing[Queue, Queue](
    kind="queue",
    plural="queues",
    name=lambda queue: queue.path,
    rows=itself,
    columns=(
        Column("QUEUE", lambda queue: queue.path, head=True),
        Column("STATE", lambda queue: queue.state, head=True),
        Column("APPS", apps, key=lambda queue: queue.running_applications),
        Column("SHARE", lambda queue: f"{queue.share:.0%}", key=lambda queue: queue.share),
        resources("ALLOCATED", lambda queue: queue.allocated),
        resources("GUARANTEED", lambda queue: queue.guaranteed),
        resources("MAX", lambda queue: queue.max),
        resources("PENDING", lambda queue: queue.pending),
        # What victims are about to free, and what asks are promised.
        resources("PREEMPTING", lambda queue: queue.preempting, optional=True),
        resources("PROMISED", lambda queue: queue.promised, optional=True),
        resources("HEADROOM", lambda queue: queue.headroom, wide=True),
        Column("PRIORITY", priority, key=lambda queue: queue.priority, wide=True),
        Column("SORT", lambda queue: queue.sort_policy or NOTHING, wide=True),
        Column("MANAGED", lambda queue: "yes" if queue.is_managed else "no", wide=True),
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne queues`."""
    add_words(parser, "queue", queue_acts.ACTS, "this queue and below")
    add_yes(parser)
    add = parser.add_argument
    add("--state", type=str.lower, choices=STATES, help="only those in this state")
    add("--leaves", action="store_true", help="only those without queues below")
    add("--pending", action="store_true", help="only those in which asks wait")
    add_listing_arguments(parser, QUEUES)
    add_connection_arguments(parser, forms=())


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
    print_or_watch(QUEUES, lambda: found_queues(stub, args, partition), args)


def found_queues(stub: StateStub, args: argparse.Namespace, partition: str) -> Sequence[Queue]:
    """The queues that the arguments ask for.

    Raises:
        NotFoundError: the queue that was named is not there.
    """
    found = pages(stub.ListQueues, ListQueuesRequest(partition=partition), args.timeout)
    everything = (queue for page in found for queue in page.queues)
    queues = [queue for queue in everything if is_below(queue.path, args.path)]
    if args.path and not queues:
        path, where = printable(args.path), printable(partition)
        raise NotFoundError(f"queue {path} not found in partition {where}")
    return [queue for queue in queues if is_wanted(queue, args)]


def is_wanted(queue: Queue, args: argparse.Namespace) -> bool:
    """Whether the filters let it through."""
    return (
        (args.state is None or queue.state.lower() == args.state)
        and (queue.is_leaf or not args.leaves)
        and (not args.pending or any(queue.pending.values()))
    )


def is_below(path: str, top: str) -> bool:
    """Whether a queue is `top` or below it; every queue is below the empty path."""
    return not top or path == top or path.startswith(f"{top}.")
