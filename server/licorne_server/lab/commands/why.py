"""`licorne why`: the explanation of an ask as it would have been at a moment of a recorded run."""

import argparse

from licorne_cli.output.text import DATA_FORMS
from licorne_server.lab.commands.journals import MOMENT, add_journal_arguments, with_journal

EXAMPLES = (
    ("licorne why journal pod-7 --at 2026-11-26T12:30:00Z", "why an ask waited then, or where it was"),
    ("licorne why journal pod-7 --at +1h30m --app train", "an hour and a half after the start of the run"),
    ("licorne why journal pod-7 --run 3 --at +90 -o json", "in an earlier run, for programs"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne why`."""
    add_journal_arguments(parser)
    add = parser.add_argument
    add("key", metavar="ASK", help="the ask, by its allocation key")
    add("--at", required=True, metavar="T", help=f"the moment: {MOMENT}")
    add("--partition", default="", metavar="NAME", help="its partition (default: all)")
    add("--app", default="", metavar="APP", help="its application (default: all)")
    add("-o", "--output", default="text", choices=("text", *DATA_FORMS), help="(%(default)s)")


def run(args: argparse.Namespace) -> int:
    """Replay up to the moment, and print the output of `licorne explain` at that time.

    0: the explanation was printed; 1: the journal is unreadable; 3: there was no such ask.
    """
    return with_journal(lambda: _run(args))


def _run(args: argparse.Namespace) -> None:
    # The module needs packages of the server's extra for journals.
    from licorne_server.lab.commands.asking_why import explain_and_print

    explain_and_print(args)
