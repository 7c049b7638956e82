"""`licorne config apply` and `rollback`: put another configuration of an RM into force.

The differences are displayed first, and consent is requested. If somebody else changes the configuration in
the meantime, the action is cancelled.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import grpc

from licorne.v1.admin_pb2 import (
    RollBackConfigurationRequest,
    RollBackConfigurationResponse,
    UpdateConfigurationRequest,
    UpdateConfigurationResponse,
)
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.files import (
    add_file_argument,
    add_rm_argument,
    chosen_rm,
    described,
    file_name,
    read_file,
    refused_by_line,
    revisions_of,
    running_configuration,
    validated,
)
from licorne_cli.config.reading import diff_lines, print_differences, summary
from licorne_cli.connection.channel import add_connection_arguments, served
from licorne_cli.failures import NotFoundError
from licorne_cli.output.text import ask_consent, printable, say
from licorne_cli.parsing.parser import Arguments, Command, add_yes, argument, revision

APPLIED = ("operator", "rollback")
"""Sources of configurations that an update by the RM does not replace."""

STAYS = "Once it is applied it stays in force until something else is applied."

NOT_PERSISTENT = (
    "the server has no --state-dir: after its restart the RM's registration, or the server's "
    "--config, is in force again"
)


class InForce(Protocol):
    """The server's answer about a configuration that is in force."""

    changed: bool
    revision: int
    persistent: bool
    registered: bool


COMMON: Sequence[Arguments] = (
    argument(
        "--base",
        type=revision,
        default=0,
        metavar="N",
        help="refuse if another revision than this runs (default: the one that is shown)",
    ),
    argument("--message", default="", metavar="TEXT", help="why, for the history"),
    add_yes,
    partial(add_connection_arguments, partition=False, forms=("text",)),
)
"""Arguments of `apply` and `rollback`."""


def put_into_force(
    stub: AdminStub,
    rm_id: str,
    args: argparse.Namespace,
    name: str,
    text: str,
    send: Callable[[int], InForce],
) -> None:
    """Show the differences, ask on a terminal, and send the text with the revision in force.

    `name` is the text's name in messages; `send` gets the revision on which the change is based.

    Raises:
        RefusedError: another revision has come into force, or the server refused the text.
        UsageError: the user did not consent.
    """
    running = running_configuration(stub, rm_id, args)
    runs = f"RM {rm_id} runs this already, as revision {running.revision}"
    if text == running.config:
        if running.source in APPLIED:
            say(printable(runs))
            return
        say(printable(f"{runs} ({running.source}). {STAYS}"))
    before = f"{rm_id} revision {running.revision}"
    print_differences(diff_lines(before, running.config, name, text), summary(stub, rm_id, text, args))
    base = args.base or running.revision
    question = f"Put {name} into force for RM {printable(rm_id)}?"
    ask_consent(question, "nothing was changed", yes=args.yes)
    with refused_by_line(name, lambda _: _since(stub, rm_id, args, base)):
        answer = send(base)
    when = "is in force" if answer.registered else "comes into force when the RM registers"
    same = "" if answer.changed else ", with the text that ran already"
    say(printable(f"RM {rm_id}: revision {answer.revision} {when}{same}"))
    if not answer.persistent:
        say(NOT_PERSISTENT)


def _since(stub: AdminStub, rm_id: str, args: argparse.Namespace, base: int) -> list[str]:
    """Lines about the revisions after `base`."""
    newer = [described(revision) for revision in revisions_of(stub, rm_id, args) if revision.revision > base]
    head = f"licorne: nothing was changed: revision {base} of RM {printable(rm_id)} does not run"
    if not newer:
        return [f"{head}, and never did"]
    return [f"{head} any more. Since then came:", *(f"  {line}" for line in newer)]


def apply(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Put a file into force."""
    text = read_file(args)
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    validated(stub, args, text)

    def send(base: int) -> UpdateConfigurationResponse:
        request = UpdateConfigurationRequest(
            rm_id=rm_id, config=text, base_revision=base, comment=args.message
        )
        return stub.UpdateConfiguration(request, timeout=args.timeout)

    put_into_force(stub, rm_id, args, file_name(args), text, send)


APPLY = Command(
    (
        add_file_argument,
        add_rm_argument,
        *COMMON,
    ),
    served(apply),
    (
        ("licorne config apply queues.yaml", "see what changes, and agree"),
        (
            'licorne config apply queues.yaml my-cluster --yes --message "more for batch"',
            "without being asked, for one of several RMs",
        ),
        ("licorne config apply queues.yaml --base 3", "only if revision 3 is in force still"),
    ),
)


def roll_back(channel: grpc.Channel, args: argparse.Namespace) -> None:
    """Put the text of an earlier revision into force, as a new revision.

    Raises:
        NotFoundError: there is no revision before the current one.
    """
    stub = AdminStub(channel)
    rm_id = chosen_rm(channel, args)
    number = args.to or running_configuration(stub, rm_id, args).revision - 1
    if not number:
        raise NotFoundError(f"RM {rm_id} has had no other configuration than the first")
    [wanted] = revisions_of(stub, rm_id, args, number)

    def send(base: int) -> RollBackConfigurationResponse:
        request = RollBackConfigurationRequest(
            rm_id=rm_id, revision=number, base_revision=base, comment=args.message
        )
        return stub.RollBackConfiguration(request, timeout=args.timeout)

    put_into_force(stub, rm_id, args, f"revision {number}", wanted.config, send)


ROLLBACK = Command(
    (
        add_rm_argument,
        argument("--to", type=revision, default=0, metavar="N", help="revision (default: the one before)"),
        *COMMON,
    ),
    served(roll_back),
    (
        ("licorne config rollback", "back to the revision before"),
        ("licorne config rollback my-cluster --to 3 --yes", "to that one, without being asked"),
    ),
)
