"""Records of preemption: the last victims, for explanations, and the losses of leaves (spec § 9).

A record holds the numbers of the moment at which the victim was chosen. Nothing in it changes later
but the time at which the victim was gone. Losses are amounts times the seconds run, of the last hour;
`preemption.loss.limit` bounds them. Sums are whole numbers, of amounts times milliseconds, so that
what expires takes off exactly what was added.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import EMPTY, Items, Resources, charge, refund

KEPT = 10_000
"""Records that a ledger keeps."""


class PreemptionRule(StrEnum):
    """Reason that an allocation had to end."""

    GUARANTEE = "guarantee"
    """For an ask of a queue below its guarantee (spec § 9.1)."""
    REQUIRED_NODE = "required-node"
    """For an ask that may go to no other node (spec § 9.5)."""
    QUOTA = "quota"
    """Because a queue had more than its new maximum (spec § 9.6)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """The amounts of a queue at some moment, by resource name; a `max` without a name has none."""

    path: QueuePath
    guaranteed: Resources
    max: Resources
    allocated: Resources
    preempting: Resources
    promised: Resources

    @classmethod
    def of(cls, queue: Queue) -> "QueueNumbers":
        """Copy the present numbers of the queue."""
        return cls(
            path=queue.path,
            guaranteed=dict(queue.guaranteed or EMPTY),
            max=dict(queue.max or EMPTY),
            allocated=dict(queue.allocated),
            preempting=dict(queue.preempting),
            promised=dict(queue.promised),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRecord:
    """An allocation that the RM was asked to stop; times are in unix seconds.

    The first five fields are the victim's. The beneficiary is the ask that is to run instead; for
    the rule `QUOTA` its fields are empty, and `beneficiary_queue` is the queue whose maximum was
    enforced.
    """

    app_id: AppId
    key: AllocationKey
    node_id: NodeId
    resources: Resources
    priority: int
    time: float
    rule: PreemptionRule
    victim_queue: QueueNumbers
    beneficiary_app_id: AppId = AppId("")
    beneficiary_key: AllocationKey = AllocationKey("")
    beneficiary_priority: int = 0
    beneficiary_queue: QueueNumbers | None = None
    released_time: float = 0.0
    """Time at which the victim was gone; 0.0 while it is not."""
    number: int = 0
    """Its number in the ledger, from 1 up without a gap; 0 before it is there."""


class Ledger:
    """The records of the last victims; when there are too many, the oldest goes first.

    No call but walking through `latest` takes longer when there are more records.
    """

    __slots__ = ("_kept", "_last", "_noted", "_records", "counts")

    def __init__(self, kept: int = KEPT) -> None:
        """Start empty, for so many records."""
        self._kept = kept
        self.counts = dict.fromkeys(PreemptionRule, 0)
        """Victims by rule, those that are not kept any more among them."""
        self._noted = 0
        # By number, oldest first. A plain dict would get slower as its first entries go.
        self._records: OrderedDict[int, PreemptionRecord] = OrderedDict()
        # The number of each victim's last record that is kept.
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
        """An allocation is gone. Only the first time counts, and only for one that was a victim."""
        number = self._last.get((app_id, key))
        if number is not None and not self._records[number].released_time:
            self._records[number] = replace(self._records[number], released_time=now)

    def find(self, app_id: AppId, key: AllocationKey) -> PreemptionRecord | None:
        """The last record about the allocation, if one is kept."""
        number = self._last.get((app_id, key))
        return None if number is None else self._records[number]

    def latest(
        self, app_id: str = "", key: str = "", *, before: int | None = None
    ) -> Iterator[PreemptionRecord]:
        """Yield the records, newest first; with an application or a key only those of such victims.

        With `before` only those with lower numbers. Later ones are not among them, and
        they end where the oldest were forgotten meanwhile.
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

    def left(self, leaf: Queue, now: float) -> dict[str, int]:
        """Amounts that a leaf may still lose in this hour, of the types that its settings limit."""
        limit = leaf.settings.preemption_loss_limit
        lost = self.lost(leaf.path, now) if limit else EMPTY
        return {name: amount * UNIT - lost.get(name, 0) for name, amount in limit}

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
