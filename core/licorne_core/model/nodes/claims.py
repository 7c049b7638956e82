"""Room on a node that is held for a claim from a time on (`model/claims.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.resources import Items


class Room(ABC):
    """Amounts on one node that are held from `start` on, in unix seconds, until `end`, inf for unknown."""

    reason: str
    """Why the node refuses an ask that would take some of it."""
    start: float
    end: float
    items: Items

    @abstractmethod
    def lets(self, wanted: AskClass | Shape, node: Any, holder: object = None) -> bool:
        """True if an ask that is placed on the node now ends by the start, or leaves the room free.

        It is an ask of the claim `holder`, if that is not None, which needs its own room no more.
        """

    @abstractmethod
    def leaves(self, wanted: AskClass | Shape, node: Any) -> Mapping[str, int]:
        """Amounts that asks of the class may take now, the kept ones among them; none for no bound."""
