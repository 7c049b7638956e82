"""Records of allocations that the RM was asked to stop in favour of others (spec § 9).

A record has the numbers at the time of the decision. Only its `released_time` changes later.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace

from licorne_core.messages.preemption import PreemptionRecord, PreemptionRule, QueueNumbers
from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.resources import EMPTY

KEPT = 10_000
"""Maximum number of records in a ledger."""


def numbers_of(queue: Queue) -> QueueNumbers:
    """Copy the current numbers of the queue."""
    return QueueNumbers(
        path=queue.path,
        guaranteed=dict(queue.guaranteed or EMPTY),
        max=dict(queue.max or EMPTY),
        allocated=dict(queue.allocated),
        preempting=dict(queue.preempting),
        promised=dict(queue.promised),
    )


class Ledger:
    """Records of the last victims, bounded; the oldest is dropped first.

    The cost of a call does not depend on the number of records, except for iteration with `latest`.
    """

    def __init__(self, kept: int = KEPT) -> None:
        """Start empty, for at most `kept` records."""
        self._kept = kept
        self.counts = dict.fromkeys(PreemptionRule, 0)
        """Number of victims by rule, including dropped records."""
        self._noted = 0
        # By number, oldest first. A plain dict gets slower as its first entries are deleted.
        self._records: OrderedDict[int, PreemptionRecord] = OrderedDict()
        # By victim, the number of its last record.
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
        """Record the release of an allocation. Ignored without a record, and from the second call on."""
        number = self._last.get((app_id, key))
        if number is not None and not self._records[number].released_time:
            self._records[number] = replace(self._records[number], released_time=now)

    def find(self, app_id: AppId, key: AllocationKey) -> PreemptionRecord | None:
        """Last record of the allocation; None if there is none."""
        number = self._last.get((app_id, key))
        return None if number is None else self._records[number]

    def latest(
        self, app_id: str = "", key: str = "", *, before: int | None = None
    ) -> Iterator[PreemptionRecord]:
        """Yield records, newest first.

        `app_id` and `key` select victims; all if they are empty. `before` selects records with lower numbers.
        Records noted meanwhile are not yielded. The iteration ends at the first record dropped meanwhile.
        """
        newest = self._noted if before is None else min(self._noted, before - 1)
        for number in range(newest, 0, -1):
            record = self._records.get(number)
            if record is None:
                return
            if (not app_id or record.app_id == app_id) and (not key or record.key == key):
                yield record
