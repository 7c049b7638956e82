"""The RM of a command on configurations, and the configuration in force for it."""

import argparse

import grpc

from licorne.v1.admin_pb2 import (
    ConfigurationRevision,
    GetConfigurationRequest,
    GetConfigurationResponse,
    ListConfigurationsRequest,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.connection.failures import NotFoundError, UsageError
from licorne_cli.connection.missing import all_rms, no_rm
from licorne_cli.output.text import printable, shown_time


def add_rm_argument(parser: argparse.ArgumentParser) -> None:
    """Add the RM, which may be named by its place, with ``--rm``, or by a context."""
    parser.add_argument("rm", nargs="?", default="", metavar="RM", help="the RM's id (default: the only one)")
    parser.add_argument("--rm", dest="rm_id", metavar="RM", help="the same")


def chosen_rm(channel: grpc.Channel, args: argparse.Namespace) -> str:
    """The RM that is meant.

    Raises:
        UsageError: there are several, and none was named.
        NotFoundError: there is none.
    """
    if args.rm or args.rm_id:
        return str(args.rm or args.rm_id)
    rm_ids = [rm.rm_id for rm in all_rms(StateStub(channel), args.timeout)]
    if not rm_ids:
        raise NotFoundError(no_rm(args))
    if len(rm_ids) > 1:
        raise UsageError(f"there are several RMs, name one of them with --rm: {printable(', '.join(rm_ids))}")
    return rm_ids[0]


def running_configuration(stub: AdminStub, rm_id: str, args: argparse.Namespace) -> GetConfigurationResponse:
    """The configuration in force for the RM."""
    answer: GetConfigurationResponse = stub.GetConfiguration(
        GetConfigurationRequest(rm_id=rm_id), timeout=args.timeout
    )
    return answer


def revisions_of(
    stub: AdminStub, rm_id: str, args: argparse.Namespace, revision: int = 0
) -> list[ConfigurationRevision]:
    """The RM's revisions, the latest first; a single one comes with its text."""
    request = ListConfigurationsRequest(rm_id=rm_id, revision=revision, with_config=bool(revision))
    return list(stub.ListConfigurations(request, timeout=args.timeout).revisions)


def described(revision: ConfigurationRevision) -> str:
    """A revision in a line: ``revision 3 of 2026-… (operator, 10.0.0.1): why``."""
    who = ", ".join(filter(None, (revision.source, revision.by)))
    why = f": {revision.comment}" if revision.comment else ""
    return printable(f"revision {revision.revision} of {shown_time(revision.time)} ({who}){why}")
