"""`licorne queues`: the queues of a partition, or one queue with its descendants; `stop` and `start`."""

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from licorne.v1.admin_pb2 import SetQueueStoppedRequest, SetQueueStoppedResponse
from licorne.v1.state_pb2 import ListQueuesRequest, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import rows
from licorne_cli.failures import NotFoundError
from licorne_cli.nouns.noun import Act, Noun, Verb, add_message
from licorne_cli.output.listing import Column, Listing, either
from licorne_cli.output.marks import marked_with_reason
from licorne_cli.output.shares import decayed, decayed_key, hours_left
from licorne_cli.output.text import NOTHING, counted, human_resources, printable

NO_PRIORITY = -(2**31)
"""The priority of a queue without pending asks."""
EXAMPLES = (
    ("licorne queues", "all queues of the default partition"),
    ("licorne queues root.batch", "one, and those below it"),
    ("licorne queues --leaves --pending --sort-by pending.memory", "where asks wait"),
    ("licorne queues -o yaml", "everything that is known of them"),
    ("licorne queues stop root.batch --message 'until noon'", "nothing new is allocated there"),
    ("licorne queues start root.batch", "as before"),
)
STATES = ("active", "draining", "stopped")


def apps(queue: Queue) -> str:
    """Running and all applications of a leaf; for a parent, the running applications below it."""
    text = str(queue.running_applications)
    if queue.is_leaf:
        text += f"/{queue.applications}"
    return f"{text} (max {queue.max_applications})" if queue.max_applications else text


QUEUES = Listing[Queue](
    kind="queue",
    plural="queues",
    name="path",
    columns=(
        Column("QUEUE", "path", head=True),
        Column("STATE", "state", head=True),
        Column("APPS", "", apps, key=attrgetter("running_applications")),
        Column("STOPPED", "stop", marked_with_reason, optional=True),
        Column("SHARE", "share", "{:.0%}".format),
        Column("ALLOCATED", "allocated", human_resources),
        Column("GUARANTEED", "guaranteed", human_resources),
        Column("MAX", "max", human_resources),
        Column("PENDING", "pending", human_resources),
        # Resources of victims; resources promised to the asks for which victims are stopped.
        Column("PREEMPTING", "preempting", human_resources, optional=True),
        Column("PROMISED", "promised", human_resources, optional=True),
        Column("DECAYED", "fair_share", decayed, key=decayed_key, optional=True),
        Column("HOURS LEFT", "hours_budgets", hours_left, optional=True),
        Column("HEADROOM", "headroom", human_resources, wide=True),
        Column("FAIR MAX", "fair_max", human_resources, wide=True),
        Column("PRIORITY", "priority", lambda it: NOTHING if it == NO_PRIORITY else str(it), wide=True),
        Column("SORT", "sort_policy", wide=True),
        Column("MANAGED", "is_managed", either("yes", "no"), wide=True),
    ),
)


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add the filters of the list."""
    add = parser.add_argument
    add("--state", type=str.lower, choices=STATES, help="only those in this state")
    add("--leaves", action="store_true", help="only those without queues below")
    add("--pending", action="store_true", help="only those in which asks wait")


def all_queues(stub: StateStub, args: argparse.Namespace, partition: str) -> Iterator[Queue]:
    """The queues, parents before children."""
    return rows(stub.ListQueues, ListQueuesRequest(partition=partition), "queues", args.timeout)


def is_wanted(queue: Queue, args: argparse.Namespace) -> bool:
    """True if a queue passes the filters."""
    return (
        (args.state is None or queue.state.lower() == args.state)
        and (queue.is_leaf or not args.leaves)
        and (not args.pending or any(queue.pending.values()))
    )


def is_below(path: str, top: str) -> bool:
    """True for `top` and its descendants; the empty path contains every queue."""
    return not top or path == top or path.startswith(f"{top}.")


def plan_stop(act: Act, names: Sequence[str]) -> list[str]:
    """A line for each queue that will be stopped.

    Raises:
        NotFoundError: there is no queue with one of the names.
    """
    partition = act.place.partition
    queues = {queue.path: queue for queue in all_queues(act.state, act.args, partition)}
    for name in names:
        if name.lower() not in queues:
            raise NotFoundError(NOUN.not_found(name, list(queues.values()), act.args, partition))
    return [planned(queues[name.lower()], queues) for name in names]


def planned(queue: Queue, queues: dict[str, Queue]) -> str:
    """The line for a queue that will be stopped."""
    below = sum(path.startswith(f"{queue.path}.") for path in queues)
    with_them = f" with {counted(below, 'queue')} below it" if below else ""
    waits = (
        f"pending {human_resources(queue.pending)} waits" if any(queue.pending.values()) else "nothing waits"
    )
    runs = f"allocated {human_resources(queue.allocated)} continues" if any(queue.allocated.values()) else ""
    told = ", ".join(filter(None, (waits, runs or "nothing runs")))
    return f"queue {printable(queue.path)}{with_them} is to be stopped: {told}"


def set_stopped(act: Act, name: str, *, stopped: bool) -> tuple[SetQueueStoppedResponse, str]:
    """Stop or start a queue and its descendants."""
    request = SetQueueStoppedRequest(**act.about, queue=name, stopped=stopped)
    answer = act.admin.SetQueueStopped(request, timeout=act.timeout)
    done = "stopped" if stopped else "started"
    text = done if answer.changed else f"is {answer.state.lower()} already"
    return answer, f"queue {printable(name)} {text}"


NOUN = Noun(
    listing=QUEUES,
    about="this queue and below",
    items=all_queues,
    is_named=is_below,
    filters=add_filters,
    wanted=is_wanted,
    verbs={
        "stop": Verb(
            "allocate nothing new in queues and below them",
            partial(set_stopped, stopped=True),
            plan_stop,
            options=add_message("why, kept with the queue"),
        ),
        "start": Verb(
            "take that back",
            partial(set_stopped, stopped=False),
            options=add_message("why"),
        ),
    },
)
add_arguments, run = NOUN.add_arguments, NOUN.run
