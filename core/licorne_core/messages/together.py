"""Reasons of gangs that wait for a place together."""

from dataclasses import dataclass
from typing import Final

from licorne_core.values.ids import AppId

NO_DOMAIN: Final = "TOPOLOGY_NO_DOMAIN"
GANG_INCOMPLETE: Final = "GANG_INCOMPLETE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TogetherCheck:
    """The members of a gang have no place together, have not all been asked for, or are enough.

    `level` and `domain` name the best domain of the last search; both are empty for the whole partition
    and for a gang without some of its asks. `short` is the number of members that have no place there,
    0 where that is not known.
    """

    app_id: AppId
    code: str
    text: str
    members: int = 0
    level: str = ""
    domain: str = ""
    short: int = 0

    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return self.text
