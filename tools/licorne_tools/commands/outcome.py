"""What the benches share on the command line: their options, a line of progress, failures and exit codes."""

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
    """The exit code so far. Work is done in `with outcome:`, as often as there is any.

    A failure of the bench, or Ctrl-C, ends the block and is said; what stands behind the block goes
    on. Any other exception is a defect, and leaves the block.
    """

    code: int
    """The gravest that has happened."""

    def __init__(self) -> None:
        """Nothing has failed yet."""
        self.code = OK

    @property
    def is_interrupted(self) -> bool:
        """Whether somebody has stopped it, so that no more should be begun."""
        return self.code == INTERRUPTED

    def __enter__(self) -> None:
        """Nothing has to be prepared."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        """Say what has failed; whether it goes on behind the block."""
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
    """Something that is measured by itself."""

    @property
    def name(self) -> str:
        """Its name in the scenario."""


N = TypeVar("N", bound=Named)


def each(scenario: str, items: Sequence[N], progress: Progress, outcome: Outcome) -> Iterator[N]:
    """One of a scenario's items after the other, announced; none after an interrupt."""
    for number, item in enumerate(items, start=1):
        progress.begin(f"{scenario} {item.name}, {number} of {len(items)}")
        yield item
        if outcome.is_interrupted:
            break


PER_SECOND = 4
"""More would take time from the client of the benchmark, which is in this process."""


@contextmanager
def shown(progress: Progress) -> Iterator[None]:
    """Show it as long as this lasts, below whatever is said meanwhile; on a terminal only."""
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
    """Scenarios by name with their texts, their own options, and those that they cannot have."""

    scenarios: Mapping[str, str]
    own: tuple[str, ...]
    refused: tuple[str, ...]

    def check(self, args: argparse.Namespace) -> bool:
        """True if one of these is wanted, which is so with options that go with it.

        Raises:
            UsageError: the options make no sense together.
        """
        name = args.scenario
        if name not in self.scenarios:
            for option in given(args, self.own):
                raise UsageError(f"{option} is for {' and '.join(self.scenarios)} only")
            return False
        for option in given(args, (*self.refused, *OF_PREDICATES)):
            raise UsageError(f"{option} cannot be used with {name}")
        if args.more:
            raise UsageError(f"{name} is measured alone, without {args.more[0]}")
        return True


def given(args: argparse.Namespace, names: tuple[str, ...]) -> list[str]:
    """The options of these names that were given."""
    return [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
