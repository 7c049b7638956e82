"""Asks and allocations: what an RM wants, and what it was given.

One object serves an ask from the door to the end of its life, so that a million of them
stay cheap: an `Ask` never changes, an `Allocation` is an ask with its node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from licorne_core.ids import AllocationKey, AppId, NodeId
from licorne_core.resources import Items, Resources, has_negative

NO_TAGS: Mapping[str, str] = {}


class AskClass:
    """Everything that decides on which nodes an ask fits: asks of one class share it.

    Whoever creates asks in bulk keeps the class of equal resources and hands the same
    object to all of them; equal classes compare equal all the same. `size` is the class of
    the same resources and required node for which no predicates are asked.
    """

    __slots__ = (
        "_hash",
        "has_negative",
        "items",
        "predicate",
        "required_node",
        "resources",
        "size",
    )

    def __init__(
        self,
        resources: Resources,
        required_node: NodeId | None = None,
        predicate: str | None = None,
    ) -> None:
        """Take the resources wanted (bytes, milli-cores, counts) and the only node allowed.

        With `predicate` the RM decides which nodes will do, with equal verdicts for equal texts.
        """
        self.resources = resources
        self.required_node = required_node
        self.predicate = predicate
        self.size = self if predicate is None else AskClass(resources, required_node)
        self.items = tuple(sorted((name, value) for name, value in resources.items() if value))
        self.has_negative = has_negative(resources)
        self._hash = hash((self.items, required_node))
        if predicate is not None:
            self._hash = hash((self._hash, predicate))

    def asked_as(self, predicate: str) -> "AskClass":
        """The class of the same size for which the RM is asked, with verdicts for that text."""
        size = self.size
        made = AskClass.__new__(AskClass)
        made.resources = size.resources
        made.required_node = size.required_node
        made.predicate = predicate
        made.size = size
        made.items = size.items
        made.has_negative = size.has_negative
        made._hash = hash((size._hash, predicate))
        return made

    def __hash__(self) -> int:
        """Computed once: classes are looked up for every ask."""
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Equal resources and equal required node; zero amounts do not count."""
        if self is other:
            return True
        if not isinstance(other, AskClass):
            return NotImplemented
        return (
            self.items == other.items
            and self.required_node == other.required_node
            and self.predicate == other.predicate
        )

    def __lt__(self, other: "AskClass") -> bool:
        """An order for reports and walks that must not depend on hashes."""
        return self._order() < other._order()

    def _order(self) -> tuple[Items, str, str]:
        return (self.items, self.required_node or "", self.predicate or "")

    def __repr__(self) -> str:
        """``AskClass(memory=10, vcore=100 @node-1)``."""
        amounts = ", ".join(f"{name}={value}" for name, value in self.items)
        return f"AskClass({amounts}{f' @{self.required_node}' if self.required_node else ''})"


@dataclass(slots=True)
class Ask:
    """One request for one allocation (spec § 5.3); never changed after it was made.

    `create_time` is in unix seconds, None for «when it arrives». `node_id` is set when the RM
    already knows the node: an existing allocation that is replayed, or one that it
    placed itself. Not a frozen dataclass, because a million are made per second or so
    and freezing doubles the cost.
    """

    key: AllocationKey
    app_id: AppId
    ask_class: AskClass
    priority: int = 0
    create_time: float | None = None
    node_id: NodeId | None = None
    partition: str = ""
    originator: bool = False
    allow_preempt_self: bool = False
    allow_preempt_other: bool = False
    placeholder: bool = False
    task_group: str = ""
    tags: Mapping[str, str] = field(default_factory=lambda: NO_TAGS)


@dataclass(slots=True)
class Allocation:
    """An ask on a node. Times are in unix seconds; never changed after it was made.

    Equal by value, but found by identity: two applications may use the same key.
    """

    ask: Ask
    node_id: NodeId
    request_time: float
    allocation_time: float

    __hash__ = object.__hash__

    @property
    def key(self) -> AllocationKey:
        """The ask's key, which is the allocation's as well."""
        return self.ask.key
