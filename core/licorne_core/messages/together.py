"""Reasons of gangs that wait for a place together."""

from dataclasses import dataclass
from typing import Final

from licorne_core.values.ids import AppId

NO_PLACE_TOGETHER: Final = "TOPOLOGY_NO_DOMAIN"
"""Its nodes have no room for all members."""
GANG_INCOMPLETE: Final = "GANG_INCOMPLETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherCheck:
    """The members of a gang have no place together, have not all been asked for, or are enough.

    `where` names the nodes of the last search that come nearest to what it needs; it is empty for all nodes,
    and for a gang without some of its asks.
    """

    app_id: AppId
    code: str
    text: str
    where: str = ""

    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return self.text
