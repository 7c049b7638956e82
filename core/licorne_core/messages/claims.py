"""Reasons of asks that must not use some room, because it is held for a later start of other asks."""

from dataclasses import dataclass
from typing import Final

from licorne_core.messages.checks import ExtensionCheck, Shown
from licorne_core.values.asks import Passed

BEHIND_RESERVATION: Final = "BEHIND_RESERVATION"


@dataclass(frozen=True, slots=True, kw_only=True)
class BehindReservationCheck(ExtensionCheck):
    """Nodes have room for the ask, but it is held for a later start of another ask or gang.

    `held` has the fields of the claim, and `claim` its name for texts. `nodes` is the number of nodes that
    have such room.
    """

    held: Passed
    claim: str
    nodes: int

    @property
    def code(self) -> str:
        """``BEHIND_RESERVATION``."""
        return BEHIND_RESERVATION

    @property
    def passed(self) -> bool:
        """Always False: the check exists only for an ask that is blocked by the held room."""
        return False

    def message(self) -> str:
        """The reason in one sentence, without the time."""
        nodes = "1 node" if self.nodes == 1 else f"{self.nodes} nodes"
        holder = self.held.holder
        return f"would delay the {self.claim} of {holder} on {nodes}: it declares no end before that"

    def shown(self) -> Shown:
        """The holder and its planned start."""
        return Shown(self.held.kind, self.held.app_id, self.held.start)
