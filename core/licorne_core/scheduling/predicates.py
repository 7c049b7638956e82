"""What the kernel asks about the RM's say in nodes; a standard feature answers (spec § 8.4).

Before an ask with a predicate is placed on a node, the RM may have to agree. Meanwhile the request is
*assumed*: it is booked, and is either confirmed or pending again (`handlers/assumed.py`).
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
    """A decision: ask the RM about these nodes for the class of each ask, and do nothing yet."""

    app: Application
    questions: Sequence[tuple[Request, Sequence[Node]]]


class Predicates(ABC):
    """What the RM has to be asked in one partition, and the requests that wait for its answers."""

    closed_checks: int
    """Number of checks that were closed: what depends on answers may have changed with each."""

    @property
    @abstractmethod
    def owed(self) -> Blocker:
        """Blocks asks while too many wait for answers."""

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
        """True if the RM has to be asked before an ask of the class may go to the node.

        Without `allocate`, before room is kept for the ask.
        """

    @abstractmethod
    def spared(self, ask_class: AskClass) -> None:
        """Note that an ask of the class needed no check of its own."""

    @abstractmethod
    def ask(self, request: Request, node: Node) -> Call:
        """The question whose answer decides if the request may go to the node in its present state."""

    @abstractmethod
    def ask_to_reserve(self, request: Request, node: Node) -> Call:
        """The question whose answer decides if room on the node may be kept for the ask."""

    @abstractmethod
    def wait(self, call: Call, assumed: Assumed) -> None:
        """Let an assumed request wait for the answer."""

    @abstractmethod
    def leave(self, request: Request) -> None:
        """Let the request wait no longer."""
