"""The operator's consent to what a command is about to do."""

import sys

from licorne_cli.connection.failures import UsageError

AGREED = ("y", "yes")


def ask_consent(question: str, undone: str, *, yes: bool) -> None:
    """Ask on a terminal, unless `yes` agreed to it already; `undone` says that nothing happened.

    Raises:
        UsageError: the answer is no, or there is no terminal to ask on.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(f"{undone}: say --yes to do it")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in AGREED:
        raise UsageError(undone)
