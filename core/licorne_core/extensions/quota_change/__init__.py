"""Enforcement of a lowered maximum: allocations above it are stopped (spec § 9.6).

A queue exceeds its maximum after a configuration has lowered it, or after allocations were recovered or
resized. If it has the property `quota.preemption.delay`, and its partition's switch is on (`keys`), enough of
its allocations are stopped after the delay. This happens once: a remaining excess is tolerated.

`clock` has the times at which queues are enforced. `victims` computes the amounts to stop, and chooses
victims. `extension` follows reloads and growth, checks the queues each second while one of them has a time,
and stops the victims in steps. `reports` has fields for reports of queues and partitions. `recount`
compares the times with the settings, and with the partition's timer.
"""

from typing import Final

NAME: Final = "quota_change"
SWITCH: Final = "preemption.quotapreemptionenabled"
"""The key of a partition that enables the enforcement."""
