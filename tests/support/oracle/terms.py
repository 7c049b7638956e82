"""What the oracle knows of preemption beside allocations: terms, wishes, losses (spec § 9)."""

from dataclasses import dataclass, field
from typing import NamedTuple


class PreemptionTerms(NamedTuple):
    """What an ask says of preemption; `cost` is what a second of its run is worth."""

    others: bool
    itself: bool
    originator: bool
    cost: float


@dataclass(eq=False)
class WishRecord:
    """Asks of one kind want victims: not before `paused_until`, nor while the RM is `asked`.

    `refused` are the nodes that the RM does not want them on, whoever goes.
    """

    paused_until: float = 0.0
    asked: bool = False
    refused: list[str] = field(default_factory=list)


class LossRecord(NamedTuple):
    """What a leaf lost to preemption at a time in unix seconds: amounts, times seconds run."""

    leaf: str
    time: float
    size: dict[str, int]
    seconds: float


@dataclass
class PreemptionRecord:
    """What a partition knows of preemption: `searches` counts those of this turn by leaf.

    `judged`: the RM says which victims have to go.
    """

    enabled: bool
    judged: bool
    searches: dict[str, int] = field(default_factory=dict)
    losses: list[LossRecord] = field(default_factory=list)
