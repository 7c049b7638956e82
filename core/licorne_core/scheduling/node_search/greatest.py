"""Greatest amount of each resource type on any open node: rules asks out without a search."""

from collections.abc import Callable, Iterable, Mapping

from licorne_core.model.nodes.node import Node
from licorne_core.values.resources import Items


class Greatest:
    """For each resource type an amount that no open node exceeds.

    Always true: with what it has not read of the log of changes, no open node has more of a type.
    It rises when a node is noted that has more. A node that leaves, is drained or takes an ask only
    has less, so the amounts stay, and are too high for a while: then fewer asks are ruled out. They
    are exact again when all open nodes are noted by a new one.
    """

    __slots__ = ("_most", "_of", "exact_at", "read")

    def __init__(self, of: Callable[[Node], Mapping[str, int]], changes: tuple[int, int]) -> None:
        """Start without nodes. `of` gives the amounts of a node that count."""
        self._of = of
        self._most: dict[str, int] = {}
        self.exact_at = changes
        """Change count at which all nodes were noted: they need not be noted again."""
        self.read = 0
        """Its position in the log of changes."""

    def note(self, nodes: Iterable[Node]) -> None:
        """These nodes are new, or may have more than before; only open ones count."""
        most = self._most
        for node in nodes:
            if node.open:
                for name, value in self._of(node).items():
                    if value > most.get(name, 0):
                        most[name] = value

    def rules_out(self, items: Items) -> bool:
        """True if no open node has that much of each type."""
        most = self._most
        return any(value > most.get(name, 0) for name, value in items)
