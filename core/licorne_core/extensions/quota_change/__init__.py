"""Enforcement of a lowered maximum: a queue loses what it has above it (spec § 9.6).

A queue exceeds its maximum after a configuration has lowered it, or after allocations were recovered or
resized. If its property `quota.preemption.delay` says so, and its partition's switch is on (`keys`), enough
of its allocations are stopped after the delay. This is done once: an excess that remains is tolerated.

`clock` has the times at which queues are enforced. `victims` says how much has to go, and chooses.
`extension` takes part in the partition: it follows reloads and growth, looks at the queues each second
while one of them has a time, and stops the victims in steps. `reports` are its fields in reports of queues
and partitions. `recount` compares the times with the settings, and with the partition's timer.
"""

from typing import Final

NAME: Final = "quota_change"
SWITCH: Final = "preemption.quotapreemptionenabled"
"""The key of a partition that turns it on."""
