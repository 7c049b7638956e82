"""`licorne queues stop` and `start`: whether anything new is allocated in a queue and below."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.admin_pb2 import SetQueueStoppedRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import ListQueuesRequest, Queue
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection.channel import NotFoundError, pages
from licorne_server.cli.nouns.verbs import (
    Place,
    check_consent,
    check_options,
    counted,
    place_of,
    tell,
)
from licorne_server.cli.output.text import human_resources, printable

FILTERS = {"state": None, "leaves": False, "pending": False}
STOP = "stop"
ACTS = {STOP: "allocate nothing new in queues and below them", "start": "take that back"}


def act(channel: grpc.Channel, args: argparse.Namespace, verb: str, names: Sequence[str]) -> None:
    """Stop the queues, after showing them and asking, or start them."""
    check_options(args, verb, FILTERS)
    place = place_of(channel, args)
    if verb == STOP:
        check_consent(plan(channel, args, place, names), yes=args.yes)
    for name in names:
        request = SetQueueStoppedRequest(
            rm_id=place.rm_id, partition=place.partition, queue=name, stopped=verb == STOP
        )
        answer = AdminStub(channel).SetQueueStopped(request, timeout=args.timeout)
        done = "stopped" if verb == STOP else "started"
        text = done if answer.changed else f"is {answer.state.lower()} already"
        tell(args, answer, f"queue {printable(name)} {text}")


def plan(
    channel: grpc.Channel, args: argparse.Namespace, place: Place, names: Sequence[str]
) -> list[str]:
    """What would be stopped, a line for each queue.

    Raises:
        NotFoundError: there is no queue of a name.
    """
    request = ListQueuesRequest(partition=place.partition)
    found = pages(StateStub(channel).ListQueues, request, args.timeout)
    queues = {queue.path: queue for page in found for queue in page.queues}
    for name in names:
        if name.lower() not in queues:
            where = printable(place.partition)
            raise NotFoundError(f"queue {printable(name)} not found in partition {where}")
    return [planned(queues[name.lower()], queues) for name in names]


def planned(queue: Queue, queues: dict[str, Queue]) -> str:
    """What would be stopped with a queue."""
    below = sum(path.startswith(f"{queue.path}.") for path in queues)
    with_them = f" with {counted(below, 'queue')} below it" if below else ""
    return (
        f"queue {printable(queue.path)}{with_them} is to be stopped: "
        f"pending {human_resources(queue.pending)} waits, "
        f"allocated {human_resources(queue.allocated)} goes on"
    )
