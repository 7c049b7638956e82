"""Reasons of asks that would take what another one holds for later."""

from dataclasses import dataclass
from typing import Final

from licorne_core.messages.checks import ExtensionCheck, Shown
from licorne_core.values.ids import AllocationKey, AppId

BEHIND_RESERVATION: Final = "BEHIND_RESERVATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindReservationCheck(ExtensionCheck):
    """Nodes have room for the ask, and it would take what is held there from a later time on.

    `app_id` and `key` are the holder's, the key empty for a gang. The holder is planned to start at `start`,
    in unix seconds; `claim` names what it holds, `kind` whose that is. `nodes` is the number of nodes where
    that is so.
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
        """Never: there is a check only for an ask that would."""
        return False

    def message(self) -> str:
        """The reason in one sentence, without the time."""
        holder = f"ask {self.key} of application {self.app_id}" if self.key else f"gang {self.app_id}"
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        return f"would delay the {self.claim} of {holder} on {nodes}: it declares no end before that"

    def shown(self) -> Shown:
        """The holder, and its start."""
        return Shown(self.kind, self.app_id, self.start)
