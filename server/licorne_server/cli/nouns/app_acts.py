"""`licorne apps kill`: ends applications."""

import argparse
from collections.abc import Sequence

import grpc

from licorne.v1.admin_pb2 import StopApplicationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne.v1.state_pb2 import Application, GetApplicationRequest
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.nouns.app_filters import LISTS
from licorne_server.cli.nouns.verbs import check_consent, check_options, counted, place_of, tell
from licorne_server.cli.output.text import printable

ACTIVE = LISTS[0]

FILTERS = {"queue": "", "user": "", "group": "", "state": ACTIVE, "reason": ""}
ACTS = {"kill": "end applications; their RM is told to stop what runs"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What only `kill` takes."""
    parser.add_argument("--message", default="", metavar="TEXT", help="for kill: told to the RM")


def act(channel: grpc.Channel, args: argparse.Namespace, verb: str, names: Sequence[str]) -> None:
    """Show what would end, ask, and end it."""
    check_options(args, verb, FILTERS)
    place = place_of(channel, args)
    wanted = [
        StateStub(channel).GetApplication(
            GetApplicationRequest(partition=place.partition, application_id=name, limit=1),
            timeout=args.timeout,
        )
        for name in names
    ]
    check_consent([planned(app) for app in wanted], yes=args.yes)
    for name in names:
        request = StopApplicationRequest(
            rm_id=place.rm_id,
            partition=place.partition,
            application_id=name,
            reason=args.message,
        )
        answer = AdminStub(channel).StopApplication(request, timeout=args.timeout)
        are = "is" if answer.allocations == 1 else "are"
        tell(
            args,
            answer,
            f"application {printable(name)} killed: {counted(answer.allocations, 'allocation')} "
            f"{are} being stopped, {counted(answer.asks, 'ask')} dropped",
        )


def planned(app: Application) -> str:
    """What would end with an application."""
    return (
        f"application {printable(app.application_id)} in queue {printable(app.queue)} is to be "
        f"killed: {counted(app.allocation_count, 'allocation')}, {counted(app.pending_asks, 'ask')}"
    )
