"""Losses of leaves by preemption in the last hour: amounts times the seconds run.

`preemption.loss.limit` bounds it. Sums are whole numbers, of amounts times milliseconds, so that
what expires takes off exactly what was added.
"""

from collections import deque
from collections.abc import Mapping

from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import EMPTY, Items, charge, refund

WINDOW = 3600.0
"""Seconds for which a loss counts."""
UNIT = 1000
"""Parts of a second in which losses are counted."""


def loss_of(items: Items, seconds: float) -> Items:
    """Loss of an allocation of that size after that run time."""
    run = round(max(0.0, seconds) * UNIT)
    return tuple((name, value * run) for name, value in items)


class Losses:
    """The losses of all leaves of a partition. Times are in unix seconds and never go back."""

    __slots__ = ("_entries", "_order", "_sums")

    def __init__(self) -> None:
        """Start empty."""
        self._entries: dict[QueuePath, deque[tuple[float, Items]]] = {}
        self._sums: dict[QueuePath, dict[str, int]] = {}
        # Of all leaves, oldest first: a removed one is not looked up.
        self._order: deque[tuple[float, QueuePath]] = deque()

    def add(self, leaf: QueuePath, lost: Items, now: float) -> None:
        """Add the loss of a victim of the leaf; `lost` is that of `loss_of`."""
        self._expire(now)
        self._order.append((now, leaf))
        self._entries.setdefault(leaf, deque()).append((now, lost))
        charge(self._sums.setdefault(leaf, {}), lost)

    def lost(self, leaf: QueuePath, now: float) -> Mapping[str, int]:
        """Losses of the leaf in the last hour, in the unit of `loss_of`."""
        self._expire(now)
        return self._sums.get(leaf, EMPTY)

    def next_change(self, leaf: QueuePath, now: float) -> float | None:
        """Time at which the oldest loss of the leaf stops to count; None if nothing counts."""
        self._expire(now)
        entries = self._entries.get(leaf)
        return entries[0][0] + WINDOW if entries else None

    def _expire(self, now: float) -> None:
        order = self._order
        while order and order[0][0] + WINDOW <= now:
            leaf = order.popleft()[1]
            entries = self._entries[leaf]
            refund(self._sums[leaf], entries.popleft()[1])
            if not entries:
                del self._entries[leaf], self._sums[leaf]
