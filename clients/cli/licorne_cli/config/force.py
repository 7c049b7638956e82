"""Puts another text into force for an RM: `apply` and `rollback` show it first, and ask."""

import argparse
from collections.abc import Callable
from typing import Protocol

import grpc

from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_cli.config.diff import diff_lines, print_differences, summary
from licorne_cli.config.files import described, refused_lines, revisions_of, running_configuration
from licorne_cli.connection.errors import reason_of
from licorne_cli.failures import RefusedError
from licorne_cli.output.text import ask_consent, printable, say
from licorne_cli.parsing.parser import revision

APPLIED = ("operator", "rollback")
"""Sources of what stays in force whatever the RM goes on to say."""

STAYS = "Once it is applied it stays in force until something else is applied."

STALE = "STALE_REVISION"
NOT_PERSISTENT = (
    "the server has no --state-dir: after its restart the RM's registration, or the server's "
    "--config, is in force again"
)


class InForce(Protocol):
    """The answer of the server once a configuration is in force."""

    changed: bool
    revision: int
    persistent: bool
    registered: bool


def add_force_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what `apply` and `rollback` have in common."""
    add = parser.add_argument
    add(
        "--base",
        type=revision,
        default=0,
        metavar="N",
        help="refuse if another revision than this runs (default: the one that is shown)",
    )
    add("--comment", default="", metavar="TEXT", help="why, for the history")
    add("-y", "--yes", action="store_true", help="do not ask")


def put_into_force(
    stub: AdminStub,
    rm_id: str,
    args: argparse.Namespace,
    name: str,
    text: str,
    send: Callable[[int], InForce],
) -> None:
    """Show what the text changes, ask on a terminal, and send it with the revision that runs.

    `name` is what the text is called; `send` gets the revision that the change is made from.

    Raises:
        RefusedError: somebody was faster, or the server refused it.
        UsageError: nobody has agreed.
    """
    running = running_configuration(stub, rm_id, args)
    runs = f"RM {rm_id} runs this already, as revision {running.revision}"
    if text == running.config:
        if running.source in APPLIED:
            say(printable(runs))
            return
        say(printable(f"{runs} ({running.source}). {STAYS}"))
    before = f"{rm_id} revision {running.revision}"
    differences = list(diff_lines(before, running.config, name, text))
    print_differences(differences, summary(stub, rm_id, text, args))
    base = args.base or running.revision
    question = f"Put {name} into force for RM {printable(rm_id)}?"
    ask_consent(question, "nothing was changed", yes=args.yes)
    try:
        answer = send(base)
    except grpc.RpcError as error:
        if reason_of(error) == STALE:
            raise RefusedError(_since(stub, rm_id, args, base)) from None
        lines = refused_lines(name, error)
        if error.code() is grpc.StatusCode.INVALID_ARGUMENT and lines:
            raise RefusedError(lines) from None
        raise
    when = "is in force" if answer.registered else "comes into force when the RM registers"
    same = "" if answer.changed else ", with the text that ran already"
    say(printable(f"RM {rm_id}: revision {answer.revision} {when}{same}"))
    if not answer.persistent:
        say(NOT_PERSISTENT)


def _since(stub: AdminStub, rm_id: str, args: argparse.Namespace, base: int) -> list[str]:
    """The revisions that came in between."""
    newer = [described(revision) for revision in revisions_of(stub, rm_id, args) if revision.revision > base]
    head = f"licorne: nothing was changed: revision {base} of RM {printable(rm_id)} does not run"
    if not newer:
        return [f"{head}, and never did"]
    return [f"{head} any more. Since then came:", *(f"  {line}" for line in newer)]
