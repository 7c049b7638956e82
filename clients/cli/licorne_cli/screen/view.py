"""The state of a viewer: the last snapshot, and the choices of cursor, order, filter and expanded queues."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from licorne_cli.screen.tree import (
    Inside,
    Key,
    Opened,
    QueueNode,
    Snapshot,
    Wanted,
    parents_below,
    resources,
    rows,
    trees,
)


class View:
    """The state of a screen; snapshots and keys change it."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Begin with a snapshot."""
        self.wanted = Wanted()
        self.opened: Opened | None = None
        self._selected: Key | None = None
        self.changes: Mapping[str, Callable[[], object]] = {
            "sort": lambda: self.want(order=self.wanted.next_order()),
            "resource": lambda: self.want(resource=self.wanted.next_resource(resources(self._roots))),
            "fold": self._fold,
            "collapse": self._collapse,
            "expand": self._expand,
            "collapse all": lambda: self.want(collapsed=parents_below(self._roots)),
            "expand all": lambda: self.want(collapsed=frozenset()),
        }
        """The changes of the table that keys make, by name."""
        self.saw(snapshot)

    def saw(self, snapshot: Snapshot) -> None:
        """Replace the snapshot."""
        self.snapshot = snapshot
        self._roots = trees(snapshot)
        self.arrange()

    def arrange(self) -> None:
        """Determine the visible queues and their order."""
        self.nodes: Sequence[QueueNode] = rows(self._roots, self.wanted)

    def want(self, **changes: Any) -> None:
        """Change the choice of visible queues."""
        self.wanted = replace(self.wanted, **changes)
        self.arrange()

    def select(self, row: int) -> None:
        """Move the cursor to a line."""
        if row < len(self.nodes):
            self._selected = self.nodes[row].key

    @property
    def row(self) -> int:
        """The line of the cursor: the line of its queue, or of the queue's nearest visible ancestor."""
        at = {node.key: index for index, node in enumerate(self.nodes)}
        if self._selected is None:
            return 0
        partition, path = self._selected
        while path:
            if (partition, path) in at:
                return at[partition, path]
            path = path.rpartition(".")[0]
        return 0

    @property
    def current(self) -> QueueNode | None:
        """The queue at the cursor; None if no queue is visible."""
        return self.nodes[self.row] if self.nodes else None

    def go_to_match(self) -> None:
        """Move to the first queue that itself matches the filter, unless the cursor is on such a queue."""
        matching = [node.key for node in self.nodes if node.has(self.wanted.text)]
        if matching and self._selected not in matching:
            self._selected = matching[0]

    def open(self) -> None:
        """Open the queue at the cursor."""
        node = self.current
        if node is not None:
            self.opened = Opened(partition=node.key[0], path=node.key[1])

    def node_of(self, opened: Opened) -> QueueNode | None:
        """The opened queue, whether visible or not; None if it was removed."""
        return next((node for node in rows(self._roots, Wanted()) if node.key == opened.key), None)

    def inside(self, opened: Opened) -> Inside | None:
        """The contents of the opened queue; None before they are read."""
        inside = self.snapshot.inside
        return inside if inside is not None and inside.opened.key == opened.key else None

    def choose(self, row: int) -> bool:
        """Choose an application of the opened queue; returns True if it has to be explained."""
        inside = None if self.opened is None else self.inside(self.opened)
        if self.opened is None or inside is None or row >= len(inside.applications):
            return False
        before, chosen = self.opened.application, inside.applications[row].application_id
        self.opened = replace(self.opened, application=chosen)
        # The screen explains the first choice anyway.
        return before not in ("", chosen)

    def _fold(self) -> None:
        """Collapse or expand the queue at the cursor."""
        node = self.current
        if node is not None and node.children:
            self.want(collapsed=self.wanted.collapsed ^ {node.key})

    def _collapse(self) -> None:
        """Collapse the queue at the cursor; if it has no children, move to its parent."""
        node = self.current
        if node is None:
            return
        if node.children and node.key not in self.wanted.collapsed:
            self.want(collapsed=self.wanted.collapsed | {node.key})
        elif node.parent is not None:
            self._selected = node.parent.key

    def _expand(self) -> None:
        """Expand the queue at the cursor."""
        node = self.current
        if node is not None:
            self.want(collapsed=self.wanted.collapsed - {node.key})
