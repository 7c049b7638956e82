"""Queues as they change: bars on a terminal, a line a second elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from licorne.v1.state_pb2 import Queue
from licorne_server.cli.output import human_cores, printable

BAR_WIDTH = 32
MEASURE = "vcore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The queues of each RM at one moment, root first, and a line with totals."""

    seconds: float
    queues: Sequence[tuple[str, Sequence[Queue]]]
    totals: str


class Board:
    """Shows snapshots. Use as a context manager."""

    def __init__(self, console: Console) -> None:
        """Live on a terminal; otherwise at most a line a second."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line = 0.0

    def __enter__(self) -> "Board":
        """Take the terminal."""
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give the terminal back, the last picture left on it."""
        if self._live is not None:
            self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        """Show how things are now."""
        if self._live is not None:
            self._live.update(picture(snapshot), refresh=True)
        elif snapshot.seconds >= self._next_line:
            self._next_line = int(snapshot.seconds) + 1.0
            self._console.print(line(snapshot), highlight=False, markup=False, soft_wrap=True)


def line(snapshot: Snapshot) -> str:
    """Everything in one line."""
    parts = [f"{printable(who)} {filled(own[0]):4.0%}" for who, own in snapshot.queues if own]
    return f"{snapshot.seconds:4.0f} s  {'  '.join(parts)}  {snapshot.totals}"


def filled(root: Queue) -> float:
    """How much of a cluster is allocated."""
    capacity = root.max.get(MEASURE, 0)
    return root.allocated.get(MEASURE, 0) / capacity if capacity else 0.0


def picture(snapshot: Snapshot) -> Group:
    """A row with a bar for every queue; what is being preempted has a column while there is any."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("QUEUE", "USED", "CORES", "GUARANTEED", "MAX", "PENDING", "APPS"):
        table.add_column(header, justify="left" if header in ("QUEUE", "USED") else "right")
    preempts = any(queue.preempting for _, queues in snapshot.queues for queue in queues)
    if preempts:
        table.add_column("PREEMPTING", justify="right")
    for who, queues in snapshot.queues:
        for queue in queues:
            going = (cores(queue.preempting),) if preempts else ()
            table.add_row(*row(who, queue, queues[0].max.get(MEASURE, 0)), *going)
    return Group(table, Text(f"{snapshot.seconds:.1f} s  {snapshot.totals}", style="bold"))


def row(who: str, queue: Queue, capacity: int) -> tuple[Text | str, ...]:
    """The row of one queue; root has the name of its RM."""
    depth = queue.path.count(".")
    name = queue.path.rpartition(".")[2] if depth else who
    style = "bold" if not depth else "" if queue.is_managed else "italic"
    return (
        Text("  " * depth + printable(name), style=style),
        bar(queue, capacity),
        cores(queue.allocated),
        cores(queue.guaranteed),
        cores(queue.max),
        cores(queue.pending),
        str(queue.applications),
    )


def cores(resources: Mapping[str, int]) -> str:
    """The cores of an amount, nothing for none."""
    amount = resources.get(MEASURE, 0)
    return human_cores(amount) if amount else ""


def bar(queue: Queue, capacity: int) -> Text:
    """A bar for what is used of the maximum, or of the cluster where there is no maximum.

    It is green up to what is guaranteed and yellow above; a mark shows where the guarantee ends.
    """
    whole = queue.max.get(MEASURE, 0) or capacity or 1
    used, guaranteed = queue.allocated.get(MEASURE, 0), queue.guaranteed.get(MEASURE, 0)
    full, mark = cell(used, whole), cell(guaranteed, whole) if guaranteed else BAR_WIDTH
    within = min(full, mark)
    rest = "".join("│" if at == mark else "·" for at in range(full, BAR_WIDTH))
    return Text.assemble(("█" * within, "green"), ("█" * (full - within), "yellow"), (rest, "dim"))


def cell(amount: int, whole: int) -> int:
    """How many cells of a bar an amount fills."""
    return min(BAR_WIDTH, round(amount / whole * BAR_WIDTH))
