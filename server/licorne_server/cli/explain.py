"""`licorne explain`: why an ask waits, check by check, or where it runs."""

import argparse
from collections.abc import Mapping

from licorne.v1.state_pb2 import Check, ExplainRequest, ExplainResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.cli.connection import add_connection_arguments, chosen_partition, with_state
from licorne_server.cli.output import (
    human_resources,
    human_text,
    print_json,
    print_table,
    printable,
    shown_time,
    to_plain,
)

HEADERS = ("CHECK", "RESULT", "WANTED", "USED", "LIMIT", "WHY")
CAUSE_HEADERS = ("NODES", "OUT BECAUSE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne explain`."""
    parser.add_argument("application", metavar="APP", help="the application")
    parser.add_argument(
        "ask", nargs="?", default="", metavar="ASK", help="its ask (default: the first in order)"
    )
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the verdict, its reason in a sentence, and all checks in order."""
    return with_state(args, show)


def show(stub: StateStub, args: argparse.Namespace) -> None:
    """Ask and print."""
    response = stub.Explain(
        ExplainRequest(
            partition=chosen_partition(stub, args),
            application_id=args.application,
            allocation_key=args.ask,
        ),
        timeout=args.timeout,
    )
    if args.output == "json":
        print_json(to_plain(response))
    else:
        print_explanation(response)


def print_explanation(response: ExplainResponse) -> None:
    """The answer for people."""
    subject = printable(f"{response.application_id}/{response.allocation_key}")
    print(f"{subject} in {printable(response.queue)}: {response.verdict}")
    print(human_text(response.summary))
    for until in sorted(check.until for check in response.checks if check.until):
        print(f"until {shown_time(until)}")
    if response.verdict in ("pending", "waiting"):
        print(
            f"ahead of it: {response.asks_ahead} asks of the application,"
            f" {response.applications_ahead} applications of the queue"
        )
    if response.checks:
        print()
        print_table(HEADERS, [row(check) for check in response.checks])
    causes = {cause: count for check in response.checks for cause, count in check.causes.items()}
    if causes:
        print()
        print_table(CAUSE_HEADERS, cause_rows(causes))


def row(check: Check) -> tuple[str, ...]:
    """One line of the table."""
    return (
        printable(f"{check.kind} {check.subject}".rstrip()),
        "pass" if check.passed else "BLOCK",
        human_resources(check.requested),
        human_resources(check.used),
        human_resources(check.limit),
        human_text(check.message if check.passed else f"{check.code}: {check.message}"),
    )


def cause_rows(causes: Mapping[str, int]) -> list[tuple[str, str]]:
    """The causes for which nodes are out, the most frequent first."""
    ranked = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    return [(str(count), printable(cause)) for cause, count in ranked]
