"""Confidence in expected times, and reasons of asks that would delay the shadow start of another one."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from licorne_core.values.ids import AllocationKey, AppId

BEHIND_RESERVATION: Final = "BEHIND_RESERVATION"


class Confidence(StrEnum):
    """What an expected runtime, or a time that follows from several, rests on."""

    DECLARED = "declared"
    """The RM says it."""
    LEARNT = "learnt"
    """The median of what ran."""
    UNKNOWN = "unknown"
    """Nothing: there is no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindReservationCheck:
    """Nodes have room for the ask, and it would take what is held there from a later time on.

    `app_id` and `key` are the holder's, the key empty for a gang. The holder is planned to start at `start`,
    in unix seconds. `nodes` is the number of nodes where that is so.
    """

    app_id: AppId
    key: AllocationKey
    start: float
    nodes: int

    code = BEHIND_RESERVATION
    passed = False

    def message(self) -> str:
        """The reason in one sentence, without the time."""
        holder = f"ask {self.key} of application {self.app_id}" if self.key else f"gang {self.app_id}"
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"would delay the shadow start of {holder} on {nodes}: it declares no end before that"
