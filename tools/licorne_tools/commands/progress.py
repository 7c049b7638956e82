"""One line on a terminal, rewritten in place, that says how far a benchmark is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from licorne_cli.output.text import is_terminal
from licorne_tools.bench.progress import Progress

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
