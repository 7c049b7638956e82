"""Common parts of all benchmark commands: options, a progress line, failures and exit codes."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, TypeVar

from licorne_cli.failures import UsageError
from licorne_cli.output.text import is_terminal, say
from licorne_server.commands.server_process import ServerFailed
from licorne_tools.bench.driver import BenchError, Progress

OK = 0
FAILED = 2
INTERRUPTED = 130


class Outcome:
    """The exit code so far. Each piece of work is a block `with outcome:`.

    A failure of the benchmark, or Ctrl-C, ends the block and is reported; the code after the block still
    runs. Any other exception is a bug, and is raised.
    """

    code: int
    """The most severe exit code so far."""

    def __init__(self) -> None:
        """Start without failures."""
        self.code = OK

    @property
    def is_interrupted(self) -> bool:
        """True after an interrupt: no more work should be started."""
        return self.code == INTERRUPTED

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Report a failure; True if the code after the block still runs."""
        if isinstance(error, KeyboardInterrupt):
            say("stopped")
            self.code = INTERRUPTED
            return True
        if isinstance(error, (BenchError, ServerFailed)):
            say(f"licorne: {error}")
            self.code = max(self.code, FAILED)
            return True
        return False


class Named(Protocol):
    """An item of a benchmark, with a name."""

    @property
    def name(self) -> str:
        """The name of the item in its scenario."""


N = TypeVar("N", bound=Named)


def each(scenario: str, items: Sequence[N], progress: Progress, outcome: Outcome) -> Iterator[N]:
    """The items of a scenario, each with its progress; ends after an interrupt."""
    for number, item in enumerate(items, start=1):
        progress.begin(f"{scenario} {item.name}, {number} of {len(items)}")
        yield item
        if outcome.is_interrupted:
            break


PER_SECOND = 4
"""Refreshes of the progress line per second: few, because this process is also the benchmark's client."""


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show a progress line below all messages during the block, if stderr is a terminal."""
    if not is_terminal(sys.stderr):
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    def line() -> Text:
        return Text(str(progress), style="dim", no_wrap=True, overflow="ellipsis")

    console = Console(file=sys.stderr, highlight=False)
    live = Live(get_renderable=line, console=console, refresh_per_second=PER_SECOND, transient=True)
    with live:
        live.refresh()
        yield


OF_PREDICATES = ("untagged", "refuse", "answer_after", "table")


@dataclass(frozen=True, slots=True)
class Alone:
    """Scenarios that run alone: descriptions by name, their own options, and the options that they refuse."""

    scenarios: Mapping[str, str]
    own: tuple[str, ...]
    refused: tuple[str, ...]

    def check(self, args: argparse.Namespace) -> None:
        """Check the options that depend on one of these scenarios.

        Raises:
            UsageError: the options contradict each other.
        """
        name = args.scenario
        for option in given(args, (*self.refused, *OF_PREDICATES)):
            raise UsageError(f"{option} cannot be used with {name}")
        if args.more:
            raise UsageError(f"{name} is measured alone, without {args.more[0]}")


def chosen_alone(args: argparse.Namespace, every: Sequence[Alone]) -> int | None:
    """The index of the chosen scenario among those that run alone; None for any other scenario.

    An option may belong to several of these scenarios.

    Raises:
        UsageError: the options contradict each other.
    """
    for name in dict.fromkeys(name for alone in every for name in alone.own):
        owners = [scenario for alone in every if name in alone.own for scenario in alone.scenarios]
        if args.scenario not in owners:
            for option in given(args, (name,)):
                *others, last = owners
                raise UsageError(
                    f"{option} is for {' and '.join(filter(None, (', '.join(others), last)))} only"
                )
    for place, alone in enumerate(every):
        if args.scenario in alone.scenarios:
            alone.check(args)
            return place
    return None


def given(args: argparse.Namespace, names: tuple[str, ...]) -> list[str]:
    """The given options among `names`, as on the command line."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
