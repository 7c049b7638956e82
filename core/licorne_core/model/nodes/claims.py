"""Room on a node, or below a maximum, that is held for a claim from a time on (`model/claims.py`)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.resources import Items


class HeldRoom(ABC):
    """Amounts on a node, or of a quota, held from `start` to `end` in unix seconds; `end` inf if unknown."""

    reason: str
    """The reason for which the node is refused to an ask that would use some of the room."""
    start: float
    end: float
    items: Items

    def lets(self, wanted: AskClass | Shape, node: Any, holder: object = None) -> bool:
        """True if an ask placed on the node now ends before the start, or leaves the room free."""
        return self.admits(wanted.items, wanted.runtime, node, holder)

    @abstractmethod
    def admits(self, items: Items, runtime: float, thing: Any, holder: object = None) -> bool:
        """Like `lets`, for amounts used for `runtime` seconds from now on, on a node or of a quota."""

    @abstractmethod
    def has_left(self, items: Items, thing: Any, holder: object) -> bool:
        """True if the amounts are free at the start beside all rooms held then, but for that of `holder`."""

    @abstractmethod
    def leaves(self, wanted: AskClass | Shape, node: Any) -> Mapping[str, int]:
        """Amounts that asks of the class may use now, including reserved ones; empty if unlimited."""
