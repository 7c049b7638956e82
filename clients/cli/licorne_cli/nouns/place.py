"""The RM and the partition in which a verb acts."""

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import grpc

from licorne.v1.state_pb2 import ListPartitionsRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.channel import DEFAULT_PARTITION
from licorne_cli.connection.failures import NotFoundError, UsageError
from licorne_cli.connection.missing import missing_rm, no_rm, not_there
from licorne_cli.output.text import printable


class Place(NamedTuple):
    """The RM and the partition in which a verb acts."""

    rm_id: str
    partition: str


def place_of(channel: grpc.Channel, args: argparse.Namespace) -> Place:
    """The RM and the partition that are meant; nobody acts on one of several by chance.

    Raises:
        NotFoundError: there is no such RM or partition.
        UsageError: there are several, and none was named.
    """
    if args.partition.startswith("["):
        # Another RM beside it was refused when the arguments were settled.
        return Place(args.partition[1:].partition("]")[0], args.partition)
    stub = StateStub(channel)
    request = ListPartitionsRequest(rm_id=args.rm_id)
    known = stub.ListPartitions(request, timeout=args.timeout).partitions
    places = [Place(one.name[1:].partition("]")[0], one.name) for one in known]
    if not places:
        raise NotFoundError(missing_rm(stub, args) or no_rm(args))
    wanted = args.partition or DEFAULT_PARTITION
    found = [one for one in places if one.partition.rpartition("]")[2] == wanted]
    if args.partition and not found:
        known_names = [one.partition for one in places]
        raise NotFoundError(not_there("partition", wanted, known_names, no_rm(args)))
    return _only(found if args.partition else places, found)


def _only(meant: Sequence[Place], usual: Sequence[Place]) -> Place:
    """The only place that is meant: of one RM the `usual` one goes before its others.

    Raises:
        UsageError: there are several.
    """
    rm_ids = list(dict.fromkeys(place.rm_id for place in meant))
    if len(rm_ids) > 1:
        names = printable(", ".join(rm_ids))
        raise UsageError(f"there are several RMs, name one of them with --rm: {names}")
    if usual:
        return usual[0]
    if len(meant) > 1:
        names = printable(", ".join(place.partition for place in meant))
        raise UsageError(
            f"there are several partitions, name one of them with --partition: {names}"
        )
    return meant[0]
