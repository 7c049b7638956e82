"""Snapshots as lines, for an output that is not a terminal."""

from licorne_cli.output.text import printable
from licorne_cli.screen.pieces import percent
from licorne_cli.screen.tree import Cluster, Snapshot

MEASURE = "vcore"


class Lines:
    """Prints snapshots as lines, at most one per second."""

    def __init__(self) -> None:
        """Start; the next snapshot is printed."""
        self._next = 0.0

    def show(self, snapshot: Snapshot, seconds: float, status: str) -> None:
        """Print a line, at most one per second; `seconds` is the time since the start."""
        if seconds >= self._next:
            self._next = int(seconds) + 1.0
            print(line(snapshot, seconds, status), flush=True)


def line(snapshot: Snapshot, seconds: float, status: str) -> str:
    """The allocated share of the cores of each cluster, and its marks."""
    parts = [_part(cluster) for cluster in snapshot.clusters if cluster.queues]
    return f"{seconds:4.0f} s  {'  '.join(parts)}  {status}"


def _part(cluster: Cluster) -> str:
    root = cluster.queues[0]
    used, capacity = root.allocated.get(MEASURE, 0), root.max.get(MEASURE, 0)
    lost = " (RM lost)" if cluster.rm is not None and not cluster.rm.connected else ""
    held = " (on hold)" if cluster.partition.holds else ""
    return f"{printable(cluster.name)} {percent(used, capacity):>4}{lost}{held}"
