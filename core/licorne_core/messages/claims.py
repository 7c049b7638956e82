"""Reasons of asks that may not use room which is held for a later start of others."""

from dataclasses import dataclass
from typing import Final

from licorne_core.messages.checks import ExtensionCheck, Shown
from licorne_core.values.ids import AllocationKey, AppId

BEHIND_RESERVATION: Final = "BEHIND_RESERVATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindReservationCheck(ExtensionCheck):
    """Nodes have room for the ask, but it is held for a later start of another ask or gang.

    `app_id` and `key` are those of the holder; the key is empty for a gang. The holder is planned to start
    at `start`, in unix seconds. `kind` is the kind of the holder and `claim` the name of its hold, for
    texts. `nodes` is the number of nodes with such room.
    """

    app_id: AppId
    key: AllocationKey
    start: float
    kind: str
    claim: str
    nodes: int

    @property
    def code(self) -> str:
        """``BEHIND_RESERVATION``."""
        return BEHIND_RESERVATION

    @property
    def passed(self) -> bool:
        """False: the check is made only for an ask that the hold stops."""
        return False

    def message(self) -> str:
        """The reason in one sentence, without the time."""
        holder = f"ask {self.key} of application {self.app_id}" if self.key else f"gang {self.app_id}"
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"would delay the {self.claim} of {holder} on {nodes}: it declares no end before that"

    def shown(self) -> Shown:
        """The holder, and its planned start."""
        return Shown(self.kind, self.app_id, self.start)
