"""Ask classes that no node takes, and which changed nodes may feed them again (spec § 8.8)."""

from collections.abc import Collection

from licorne_core.asks import AskClass
from licorne_core.nodes.node import Node

MAX_FEEDERS = 8
"""Nodes that are noted for a starved class; with more it is not thought to be starved."""


def takes(node: Node, ask_class: AskClass) -> bool:
    """Whether an ask of the class may go there now; one that requires it may if drained (§ 7.7)."""
    if ask_class.required_node is None:
        if not node.open:
            return False
    elif ask_class.required_node != node.node_id:
        return False
    return node.fits(ask_class.items) and node.accepts(ask_class)


class Starved:
    """Classes for which a look at all nodes was in vain, until a look is not.

    With each are the nodes that have changed since so that they would do: its *feeders*.
    """

    __slots__ = ("_feeders",)

    def __init__(self) -> None:
        """None is."""
        self._feeders: dict[AskClass, dict[Node, None]] = {}

    def __len__(self) -> int:
        """How many are."""
        return len(self._feeders)

    def __contains__(self, ask_class: AskClass) -> bool:
        """Whether the class is among them."""
        return ask_class in self._feeders

    def add(self, ask_class: AskClass) -> None:
        """A look has shown that no node takes it."""
        self._feeders[ask_class] = {}

    def drop(self, ask_class: AskClass) -> None:
        """A node was found for it, or nobody asks for it any more."""
        self._feeders.pop(ask_class, None)

    def feed(self, node: Node) -> list[AskClass]:
        """The node has changed: the classes that it would do for, and no other did so far."""
        fed, sated = [], []
        for ask_class, feeders in self._feeders.items():
            if takes(node, ask_class):
                if not feeders:
                    fed.append(ask_class)
                feeders[node] = None
                if len(feeders) > MAX_FEEDERS:
                    sated.append(ask_class)
        for ask_class in sated:
            del self._feeders[ask_class]
        return fed

    def feeders(self, ask_class: AskClass) -> Collection[Node]:
        """The nodes that may feed a starved class, in the order in which they changed."""
        return self._feeders[ask_class].keys()

    def is_fed(self, ask_class: AskClass) -> bool:
        """Whether another look is worth it: no node would do, but one that has changed since."""
        feeders = self._feeders.get(ask_class)
        if feeders is None or any(takes(node, ask_class) for node in feeders):
            return True
        feeders.clear()
        return False

    def leave(self, ask_class: AskClass) -> None:
        """Nobody waits for the class where it could be tried: its feeders are not kept for it."""
        if self._feeders.get(ask_class):
            del self._feeders[ask_class]
