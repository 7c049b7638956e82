"""Sentences for an RM or a partition that is not there."""

import argparse
from collections.abc import Iterable, Iterator

import grpc

from licorne.v1.state_pb2 import ListPartitionsRequest, ListRmsRequest, ResourceManager
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.pages import pages
from licorne_cli.output.text import printable

NO_RM = "no RM has registered with this server"
NO_VISIBLE_RM = "no RM that you may see has registered with this server"
MAY_MEAN_IT = frozenset({grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION})
"""Answers of a server about an RM or a partition that it does not have."""


def no_rm(args: argparse.Namespace) -> str:
    """The sentence for no RM at all: who shows a certificate or a token may not see all RMs."""
    return NO_VISIBLE_RM if args.token or args.tls_cert else NO_RM


def not_there(kind: str, name: str, known: Iterable[str], none: str) -> str:
    """``no RM "nope"; there are: batch, services``; without any, `none`, see `no_rm`."""
    others = ", ".join(map(printable, known))
    return f'no {kind} "{printable(name)}"; there are: {others}' if others else none


def what_is_missing(channel: grpc.Channel, args: argparse.Namespace, error: grpc.RpcError) -> str:
    """The RM or else the partition of the arguments, if an error may mean that it is not there.

    Empty if both are there, or where the server does not say.
    """
    if error.code() not in MAY_MEAN_IT:
        return ""
    stub = StateStub(channel)
    try:
        return missing_rm(stub, args) or missing_partition(stub, args)
    except grpc.RpcError:
        return ""


def missing_rm(stub: StateStub, args: argparse.Namespace) -> str:
    """The sentence for a named RM that is not there; empty if it is, or if none was named."""
    wanted = getattr(args, "rm", "") or getattr(args, "rm_id", "")
    if not wanted:
        return ""
    known = [rm.rm_id for rm in all_rms(stub, args.timeout)]
    return "" if wanted in known else not_there("RM", wanted, known, no_rm(args))


def missing_partition(stub: StateStub, args: argparse.Namespace) -> str:
    """The sentence for a named partition that is not there; empty if it is, or none was named."""
    wanted = getattr(args, "partition", "")
    if not wanted:
        return ""
    rm_id = getattr(args, "rm_id", "")
    partitions = stub.ListPartitions(ListPartitionsRequest(), timeout=args.timeout).partitions
    known = [one.name for one in partitions if rm_id in ("", one.rm_id)]
    is_there = any(name == wanted or name.endswith(f"]{wanted}") for name in known)
    return "" if is_there else not_there("partition", wanted, known, no_rm(args))


def all_rms(stub: StateStub, timeout: float) -> Iterator[ResourceManager]:
    """All RMs that the caller may see, by their ids."""
    for page in pages(stub.ListRms, ListRmsRequest(), timeout):
        yield from page.rms
