"""Losses of leaves by the victims of the last hour, which `preemption.loss.limit` bounds (spec § 9).

A loss is an amount times seconds of runtime. Sums are whole numbers, amounts times milliseconds, so that an
expired loss is subtracted exactly.
"""

from collections import deque
from collections.abc import Mapping

from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import EMPTY, Items, charge, refund

WINDOW = 3600.0
"""Seconds for which a loss counts."""
UNIT = 1000
"""Units of time in one second of a loss: losses are in milliseconds."""


def loss_of(items: Items, seconds: float) -> Items:
    """Loss by stopping an allocation of this size after `seconds`: amounts times milliseconds."""
    run = round(max(0.0, seconds) * UNIT)
    return tuple((name, value * run) for name, value in items)


class Losses:
    """Losses of all leaves of a partition. Times are in unix seconds and never decrease."""

    def __init__(self) -> None:
        """Start without losses."""
        # Losses by noticed victims that are not stopped yet, by leaf.
        self._pledged: dict[QueuePath, dict[str, int]] = {}
        self._entries: dict[QueuePath, deque[tuple[float, Items]]] = {}
        self._sums: dict[QueuePath, dict[str, int]] = {}
        # Losses of all leaves, oldest first; by path, so that the losses of a removed leaf expire too.
        self._order: deque[tuple[float, QueuePath]] = deque()

    def add(self, leaf: QueuePath, lost: Items, now: float) -> None:
        """Add the loss of a victim of the leaf; `lost` is the result of `loss_of`."""
        self._expire(now)
        self._order.append((now, leaf))
        self._entries.setdefault(leaf, deque()).append((now, lost))
        charge(self._sums.setdefault(leaf, {}), lost)

    def pledge(self, leaf: QueuePath, lost: Items) -> None:
        """Count the loss of a noticed victim, until `redeem`."""
        charge(self._pledged.setdefault(leaf, {}), lost)

    def redeem(self, leaf: QueuePath, lost: Items) -> None:
        """Remove a pledged loss: the victim is stopped, or spared."""
        pledged = self._pledged.get(leaf, {})
        refund(pledged, lost)
        if not pledged:
            self._pledged.pop(leaf, None)

    def lost(self, leaf: QueuePath, now: float) -> Mapping[str, int]:
        """Total of the leaf's losses in the last hour, in the unit of `loss_of`."""
        self._expire(now)
        return self._sums.get(leaf, EMPTY)

    def remaining(self, leaf: Queue, now: float) -> dict[str, int]:
        """Losses that the leaf may still have in this hour, by the types of its loss limit."""
        limit = leaf.settings.preemption_loss_limit
        if not limit:
            return {}
        lost, pledged = self.lost(leaf.path, now), self._pledged.get(leaf.path, EMPTY)
        return {name: amount * UNIT - lost.get(name, 0) - pledged.get(name, 0) for name, amount in limit}

    def next_change(self, leaf: QueuePath, now: float) -> float | None:
        """Time at which the oldest loss of the leaf expires; None if it has no losses."""
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
