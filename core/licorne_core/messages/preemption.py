"""Records of preemption: stopped allocations, with the reason and the beneficiary (spec § 9)."""

from dataclasses import dataclass
from enum import StrEnum

from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Resources


class PreemptionRule(StrEnum):
    """Reason for stopping an allocation."""

    GUARANTEE = "guarantee"
    """The victim was stopped for an ask of a queue below its guarantee (spec § 9.1)."""
    FAIR_SHARE = "fair-share"
    """Stopped for an ask of a queue below its fair share, up to which it may preempt (spec § 9.1)."""
    REQUIRED_NODE = "required-node"
    """The victim was stopped for an ask that requires the node (spec § 9.5)."""
    QUOTA = "quota"
    """The queue exceeded its maximum, which had changed (spec § 9.6)."""
    DRAIN = "drain"
    """An operator has drained the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueNumbers:
    """Amounts of a queue at one time, by resource name. A type that is missing in `max` is unlimited."""

    path: QueuePath
    guaranteed: Resources
    max: Resources
    allocated: Resources
    preempting: Resources
    promised: Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Spared:
    """An allocation that was not chosen as a victim: the next one in the order of victims."""

    app_id: AppId
    key: AllocationKey
    lost: float
    """Seconds of its work that its stop would have lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionRecord:
    """An allocation that the RM was asked to stop; times are in unix seconds.

    The first five fields describe the victim. With the rule `QUOTA` there is no beneficiary, and
    `beneficiary_queue` is the queue whose maximum was enforced. With `DRAIN` there is no queue either.
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
    """Time of the victim's release, in unix seconds; 0.0 before it."""
    number: int = 0
    """Number in the ledger, from 1 up without gaps; 0 before the record is added."""
    ran: float = 0.0
    """Seconds that the victim had run."""
    lost: float = 0.0
    """Seconds of its work that were lost: the time since its last checkpoint."""
    checkpoint: float | None = None
    """Time of the checkpoint, in unix seconds: reported by its RM, or else assumed; None if there is none."""
    noticed_time: float = 0.0
    """Time at which its RM was notified of the stop, in unix seconds; 0.0 if it was not."""
    spared: Spared | None = None
    """The allocation on the node that would have been stopped next; None if there was none."""
