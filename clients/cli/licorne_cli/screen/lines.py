"""Snapshots as lines, for what is no terminal: at most one a second."""

from rich.console import Console

from licorne_cli.output.text import printable
from licorne_cli.screen.snapshot import Cluster, Snapshot
from licorne_cli.screen.table import percent

MEASURE = "vcore"


class Lines:
    """Prints snapshots, each in a line."""

    def __init__(self, console: Console) -> None:
        """Print on a console."""
        self._console = console
        self._next = 0.0

    def show(self, snapshot: Snapshot, seconds: float, status: str) -> None:
        """Print how things are these seconds after the start, if no line was just printed."""
        if seconds >= self._next:
            self._next = int(seconds) + 1.0
            self._console.print(line(snapshot, seconds, status), soft_wrap=True)


def line(snapshot: Snapshot, seconds: float, status: str) -> str:
    """The allocated share of the cores of each cluster, and its troubles."""
    parts = [_part(cluster) for cluster in snapshot.clusters if cluster.queues]
    return f"{seconds:4.0f} s  {'  '.join(parts)}  {status}"


def _part(cluster: Cluster) -> str:
    root = cluster.queues[0]
    used, capacity = root.allocated.get(MEASURE, 0), root.max.get(MEASURE, 0)
    lost = " (RM lost)" if cluster.rm is not None and not cluster.rm.connected else ""
    held = " (on hold)" if cluster.partition.holds else ""
    return f"{printable(cluster.name)} {percent(used, capacity):>4}{lost}{held}"
