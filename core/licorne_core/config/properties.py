"""Queue properties and the settings derived from them (spec § 2.4)."""

from dataclasses import dataclass
from enum import Enum


class AppSortPolicy(Enum):
    """How a leaf orders its applications (spec § 5.2)."""

    FIFO = "fifo"
    FAIR = "fair"
    STATE_AWARE = "stateaware"


class PreemptionPolicy(Enum):
    """What a queue lets preemption do to it (spec § 2.4)."""

    DEFAULT = "default"
    FENCE = "fence"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What a queue's merged properties mean. Delays are in seconds, 0 for off."""

    app_sort: AppSortPolicy = AppSortPolicy.FIFO
    priority_sort: bool = True
    priority_fence: bool = False
    priority_offset: int = 0
    preemption: PreemptionPolicy = PreemptionPolicy.DEFAULT
    preemption_delay: float = 30.0
    quota_preemption_delay: float = 0.0
    backoff_threshold: int = 0
    backoff_delay: float = 30.0
