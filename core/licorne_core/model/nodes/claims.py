"""Room on a node that is held for a claim from a later time on (`model/claims.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.resources import Items


class HeldRoom(ABC):
    """Amounts on one node that are held from `start` to `end`, in unix seconds; `end` inf if unknown."""

    reason: str
    """The reason for which the node is refused to an ask that would use some of the room."""
    start: float
    end: float
    items: Items

    @abstractmethod
    def lets(self, wanted: AskClass | Shape, node: Any, holder: object = None) -> bool:
        """True if an ask placed on the node now ends before the start, or leaves the room free."""

    @abstractmethod
    def leaves(self, wanted: AskClass | Shape, node: Any) -> Mapping[str, int]:
        """Amounts that asks of the class may use now, including reserved ones; empty if unlimited."""
