"""`licorne explain`: why an ask waits, gate by gate, or where it runs."""

import argparse
from collections.abc import Mapping

from licorne.v1.state_pb2 import ExplainRequest, ExplainResponse, Gate
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

HEADERS = ("GATE", "RESULT", "WANTED", "USED", "LIMIT", "WHY")
CAUSE_HEADERS = ("NODES", "OUT BECAUSE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne explain`."""
    parser.add_argument("application", metavar="APP", help="the application")
    parser.add_argument(
        "ask", nargs="?", default="", metavar="ASK", help="its ask (default: the first in order)"
    )
    add_connection_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the verdict, its reason in a sentence, and all gates in order."""
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
    for until in sorted(gate.until for gate in response.gates if gate.until):
        print(f"until {shown_time(until)}")
    if response.verdict in ("pending", "waiting"):
        print(
            f"ahead of it: {response.asks_ahead} asks of the application,"
            f" {response.applications_ahead} applications of the queue"
        )
    if response.gates:
        print()
        print_table(HEADERS, [row(gate) for gate in response.gates])
    causes = {cause: count for gate in response.gates for cause, count in gate.causes.items()}
    if causes:
        print()
        print_table(CAUSE_HEADERS, cause_rows(causes))


def row(gate: Gate) -> tuple[str, ...]:
    """One line of the table."""
    return (
        printable(f"{gate.kind} {gate.subject}".rstrip()),
        "pass" if gate.passed else "BLOCK",
        human_resources(gate.requested),
        human_resources(gate.used),
        human_resources(gate.limit),
        human_text(gate.message if gate.passed else f"{gate.code}: {gate.message}"),
    )


def cause_rows(causes: Mapping[str, int]) -> list[tuple[str, str]]:
    """The causes for which nodes are out, the most frequent first."""
    ranked = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    return [(str(count), printable(cause)) for cause, count in ranked]
