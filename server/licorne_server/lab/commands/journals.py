"""Code shared by the commands on journals: their arguments, and the report of failures."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final

from licorne_cli.failures import NOT_FOUND, OK, REFUSED, USAGE, NotFoundError, RefusedError, UsageError
from licorne_cli.output.text import say, while_read
from licorne_cli.parsing.parser import positive

MOMENT: Final = "an RFC 3339 time, unix seconds, or from the start of the run: +90, +1h30m"


def add_journal_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the directory and the run."""
    parser.add_argument("journal", type=Path, metavar="DIR", help="the directory of serve --journal")
    parser.add_argument(
        "--run", type=positive, metavar="N", help="of this start of the server (default: the last)"
    )


def with_journal(act: Callable[[], int | None]) -> int:
    """Run a command. A failure is printed as one line on stderr, and its exit code is returned."""
    try:
        with while_read():
            return act() or OK
    except UsageError as error:
        say(f"licorne: {error}")
        return USAGE
    except NotFoundError as error:
        say(f"licorne: {error}")
        return NOT_FOUND
    except RefusedError as error:
        say("\n".join(error.lines))
        return REFUSED
