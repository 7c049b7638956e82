"""Reasons of gangs that wait for room for all members at the same time."""

from dataclasses import dataclass
from typing import Final

from licorne_core.values.ids import AppId

NO_PLACE_TOGETHER: Final = "TOPOLOGY_NO_DOMAIN"
"""Code for a gang whose members find no room together on the nodes."""
GANG_INCOMPLETE: Final = "GANG_INCOMPLETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherCheck:
    """The members of a gang find no room together, have not all arrived, or have reached their maximum.

    `where` names the nodes of the last search that are nearest to the gang's needs. It is empty for all
    nodes, and for a gang whose asks have not all arrived.
    """

    app_id: AppId
    code: str
    text: str
    where: str = ""

    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return self.text
