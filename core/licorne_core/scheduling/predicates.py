"""Interface of the kernel to predicate checks, which a standard feature implements (spec § 8.4).

Before an ask with a predicate is placed on a node, the RM may have to accept the node. Meanwhile the request
is *assumed*: it is booked, and is later confirmed or pending again (`handlers/assumed.py`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.calls import Call
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.asks import AskClass


class Assumed(NamedTuple):
    """A request that waits for an answer, and its node."""

    app: Application
    request: Request
    node: Node


class NodeQuestion(NamedTuple):
    """A decision: ask the RM about these nodes for the class of each ask, and place nothing yet."""

    app: Application
    questions: Sequence[tuple[Request, Sequence[Node]]]


class Predicates(ABC):
    """Predicate checks of one partition, and the requests that wait for answers."""

    closed_checks: int
    """Number of closed checks; after each of them, decisions that depend on answers may change."""

    @property
    @abstractmethod
    def owed(self) -> Blocker:
        """Blocks asks while too many requests wait for answers."""

    @property
    @abstractmethod
    def waiting(self) -> int:
        """Number of requests that wait for answers."""

    @property
    def full(self) -> bool:
        """True if no other request may wait for an answer."""
        return not self.owed.lets_through()

    @abstractmethod
    def is_needed(self, ask_class: AskClass, node: Node, *, allocate: bool = True) -> bool:
        """True if the RM has to be asked before an ask of the class may be placed on the node.

        Without `allocate`: before room on the node is reserved for the ask.
        """

    @abstractmethod
    def spared(self, ask_class: AskClass) -> None:
        """Note that an ask of the class needed no check of its own, as an earlier answer applies."""

    @abstractmethod
    def ask(self, request: Request, node: Node) -> Call:
        """The check whose answer decides if the request may be placed on the node in its present state."""

    @abstractmethod
    def ask_to_reserve(self, request: Request, node: Node) -> Call:
        """The check whose answer decides if room on the node may be reserved for the ask."""

    @abstractmethod
    def wait(self, call: Call, assumed: Assumed) -> None:
        """Let an assumed request wait for the answer of the check."""

    @abstractmethod
    def leave(self, request: Request) -> None:
        """Stop the wait of the request."""
