"""Records of preemption: the last victims, for explanations, and the losses of leaves (spec § 9).

A record has the numbers at the time of the choice. Only its `released_time` changes later. Losses
are amounts times seconds run, of the victims of the last hour; `preemption.loss.limit` bounds them.
Sums are whole numbers, amounts times milliseconds, so that an expired loss is subtracted exactly.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import AllocationKey, AppId, QueuePath
from licorne_core.values.resources import EMPTY, Items, charge, refund
from licorne_core.values.timers import Timer, Timers

KEPT = 10_000
"""Most records in a ledger."""


def numbers_of(queue: Queue) -> QueueNumbers:
    """Copy the present numbers of the queue."""
    return QueueNumbers(
        path=queue.path,
        guaranteed=dict(queue.guaranteed or EMPTY),
        max=dict(queue.max or EMPTY),
        allocated=dict(queue.allocated),
        preempting=dict(queue.preempting),
        promised=dict(queue.promised),
    )


Needed = Callable[[Any, PreemptionRecord, Sequence[Request]], bool]
"""Whether those of a unit that run on are still to be stopped, by partition and record."""


class Stay:
    """A victim that runs on for a while, as an extension has put its stop off, until its deadline fires.

    Times are in unix seconds.
    """

    __slots__ = ("_timer", "_timers", "record", "stops_at", "words")

    def __init__(
        self, record: PreemptionRecord, stops_at: float, words: str, timers: Timers[Timer], timer: Timer
    ) -> None:
        """Set its deadline; `words` tell of it in explanations."""
        self.record = record
        """The record for the ledger, once the victim is stopped."""
        self.stops_at = stops_at
        """Time at which the victim is stopped, if it is still to be."""
        self.words = words
        self._timers, self._timer = timers, timer
        timers.set(timer, stops_at)

    def stop_at(self, time: float) -> None:
        """It is stopped at another time."""
        self.stops_at = time
        self._timers.set(self._timer, time)

    def reconsider(self, now: float) -> None:
        """Have it decided at once if the victim goes on: what chose it may have changed."""
        self._timers.set(self._timer, now)

    def is_due(self, now: float) -> bool:
        """True if that is decided now in any case."""
        deadline = self._timers.deadline(self._timer)
        return deadline is not None and deadline <= now

    def end(self, stays: "Mapping[Request, Stay]", *, stopped: bool) -> None:
        """The victim is `stopped`, goes on for good, or has ended; `stays` are the others."""
        self._timers.cancel(self._timer)


class Ledger:
    """Records of the last victims, bounded; the oldest is dropped first.

    The cost of a call does not depend on the number of records, but for walks through `latest`.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Start empty, for at most `kept` records."""
        self._kept = kept
        self.stays: dict[Request, Stay] = {}
        """Victims that run on for a while, of which there are no records yet."""
        self.counts = dict.fromkeys(PreemptionRule, 0)
        """Number of victims by rule, those of dropped records included."""
        self._noted = 0
        # By number, oldest first. A plain dict gets slower as its first entries are deleted.
        self._records: OrderedDict[int, PreemptionRecord] = OrderedDict()
        # The number of the last record of each victim.
        self._last: dict[tuple[AppId, AllocationKey], int] = {}

    def __len__(self) -> int:
        """Number of records."""
        return len(self._records)

    def note(self, record: PreemptionRecord) -> None:
        """Record a victim."""
        self._noted += 1
        self.counts[record.rule] += 1
        self._records[self._noted] = replace(record, number=self._noted)
        self._last[record.app_id, record.key] = self._noted
        if len(self._records) > self._kept:
            number, oldest = self._records.popitem(last=False)
            victim = oldest.app_id, oldest.key
            if self._last[victim] == number:
                del self._last[victim]

    def released(self, app_id: AppId, key: AllocationKey, now: float) -> None:
        """Note the release of an allocation. Ignored without a record, and from the second call on."""
        number = self._last.get((app_id, key))
        if number is not None and not self._records[number].released_time:
            self._records[number] = replace(self._records[number], released_time=now)

    def find(self, app_id: AppId, key: AllocationKey) -> PreemptionRecord | None:
        """Last record of the allocation; None for none."""
        number = self._last.get((app_id, key))
        return None if number is None else self._records[number]

    def latest(
        self, app_id: str = "", key: str = "", *, before: int | None = None
    ) -> Iterator[PreemptionRecord]:
        """Yield records, newest first.

        `app_id` and `key` select victims; empty for all. `before` selects records with lower numbers.
        Records noted meanwhile are not yielded. The walk ends at the first record dropped meanwhile.
        """
        newest = self._noted if before is None else min(self._noted, before - 1)
        for number in range(newest, 0, -1):
            record = self._records.get(number)
            if record is None:
                return
            if (not app_id or record.app_id == app_id) and (not key or record.key == key):
                yield record


WINDOW = 3600.0
"""Seconds for which a loss counts."""
UNIT = 1000
"""Units of time of a loss in a second."""


def loss_of(items: Items, seconds: float) -> Items:
    """Loss by stopping an allocation of that size after `seconds`: amounts times milliseconds."""
    run = round(max(0.0, seconds) * UNIT)
    return tuple((name, value * run) for name, value in items)


class Losses:
    """Losses of all leaves of a partition. Times are in unix seconds and never decrease."""

    def __init__(self) -> None:
        """Start empty."""
        # Of victims that run on for a while, by leaf.
        self._pledged: dict[QueuePath, dict[str, int]] = {}
        self._entries: dict[QueuePath, deque[tuple[float, Items]]] = {}
        self._sums: dict[QueuePath, dict[str, int]] = {}
        # Of all leaves, oldest first. By path, so that a removed leaf expires as well.
        self._order: deque[tuple[float, QueuePath]] = deque()

    def add(self, leaf: QueuePath, lost: Items, now: float) -> None:
        """Add the loss of a victim of the leaf; `lost` is the result of `loss_of`."""
        self._expire(now)
        self._order.append((now, leaf))
        self._entries.setdefault(leaf, deque()).append((now, lost))
        charge(self._sums.setdefault(leaf, {}), lost)

    def pledge(self, leaf: QueuePath, lost: Items) -> None:
        """Count the loss of a victim that runs on for a while, until `redeem`."""
        charge(self._pledged.setdefault(leaf, {}), lost)

    def redeem(self, leaf: QueuePath, lost: Items) -> None:
        """Count a pledged loss no more: the victim is stopped, or goes on."""
        pledged = self._pledged.get(leaf, {})
        refund(pledged, lost)
        if not pledged:
            self._pledged.pop(leaf, None)

    def lost(self, leaf: QueuePath, now: float) -> Mapping[str, int]:
        """Sum of the leaf's losses in the last hour, in the unit of `loss_of`."""
        self._expire(now)
        return self._sums.get(leaf, EMPTY)

    def remaining(self, leaf: Queue, now: float) -> dict[str, int]:
        """Losses that the leaf may still have in this hour, by type of its loss limit."""
        limit = leaf.settings.preemption_loss_limit
        if not limit:
            return {}
        lost, pledged = self.lost(leaf.path, now), self._pledged.get(leaf.path, EMPTY)
        return {name: amount * UNIT - lost.get(name, 0) - pledged.get(name, 0) for name, amount in limit}

    def next_change(self, leaf: QueuePath, now: float) -> float | None:
        """Time at which the oldest loss of the leaf expires; None without losses."""
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
