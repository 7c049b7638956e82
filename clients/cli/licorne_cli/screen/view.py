"""The viewer's choices: cursor, order, filter, collapsed and opened queues."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from licorne_cli.screen.tree import Key, Node, Opened, Snapshot, Wanted, parents_below, resources, rows, trees

LONGEST_FILTER = 64
PAGE = 10
FAR = 10**9
STEPS = {
    "up": -1,
    "k": -1,
    "down": 1,
    "j": 1,
    "page-up": -PAGE,
    "page-down": PAGE,
    "home": -FAR,
    "g": -FAR,
    "end": FAR,
    "G": FAR,
}
"""The keys that move the cursor, with the number of rows."""


def _nothing() -> None:
    """Do nothing, for a key without a meaning."""


class View:
    """The state of a screen. Keys and snapshots change it."""

    def __init__(self) -> None:
        """Begin with an empty snapshot."""
        self.snapshot = Snapshot(time=0.0, clusters=())
        self.wanted = Wanted()
        self.selected: Key | None = None
        self.opened: Opened | None = None
        self.is_typing = False
        self.is_helping = False
        self.is_done = False
        self.help_top = 0
        self.top = 0
        """The first visible line of the table, counted from 0."""
        self._roots: Sequence[Node] = ()
        self._on_tree: Mapping[str, Callable[[], None]] = {
            **{key: partial(self._move, step) for key, step in STEPS.items()},
            "left": self._collapse,
            "right": self._expand,
            " ": self._fold,
            "/": self._start_typing,
            "enter": self._open,
        }
        self._wanting: Mapping[str, Callable[[], Wanted]] = {
            "-": lambda: replace(self.wanted, collapsed=parents_below(self._roots)),
            "+": lambda: replace(self.wanted, collapsed=frozenset()),
            "s": lambda: replace(self.wanted, order=self.wanted.next_order()),
            "m": lambda: replace(self.wanted, resource=self._next_resource()),
            "escape": lambda: replace(self.wanted, text=""),
        }
        self._inside: Mapping[str, Callable[[], None]] = {
            **{key: partial(self._move_inside, step) for key, step in STEPS.items()},
            "escape": self._close,
            "left": self._close,
            "backspace": self._close,
        }

    def saw(self, snapshot: Snapshot) -> None:
        """Take a new snapshot."""
        self.snapshot = snapshot
        self._roots = trees(snapshot)
        if self.selected is None and self._roots:
            self.selected = self._roots[0].key

    def _next_resource(self) -> str:
        return self.wanted.next_resource(resources(self._roots))

    def rows(self) -> list[Node]:
        """The visible queues, in order."""
        return rows(self._roots, self.wanted)

    def node(self, key: Key) -> Node | None:
        """A queue of the last snapshot, visible or not."""
        everything = rows(self._roots, Wanted())
        return next((node for node in everything if node.key == key), None)

    def position(self, seen: Sequence[Node]) -> int:
        """The line of the cursor: its queue, or the nearest visible ancestor."""
        at = {node.key: index for index, node in enumerate(seen)}
        if self.selected is None:
            return 0
        partition, path = self.selected
        while path:
            if (partition, path) in at:
                return at[partition, path]
            path = path.rpartition(".")[0]
        return 0

    def press(self, key: str) -> None:
        """Apply a key; other keys change nothing."""
        if self.is_typing:
            self._type(key)
        elif key == "q":
            self.is_done = True
        elif self.is_helping:
            self._press_in_help(key)
        elif key in ("?", "h"):
            self.is_helping, self.help_top = True, 0
        elif self.opened is not None:
            self._inside.get(key, _nothing)()
        elif key in self._wanting:
            self.wanted = self._wanting[key]()
        else:
            self._on_tree.get(key, _nothing)()

    def _press_in_help(self, key: str) -> None:
        """Scroll the help; every other key closes it."""
        if key in STEPS:
            self.help_top = max(self.help_top + STEPS[key], 0)
        else:
            self.is_helping = False

    def _move(self, step: int) -> None:
        seen = self.rows()
        if seen:
            at = min(max(self.position(seen) + step, 0), len(seen) - 1)
            self.selected = seen[at].key

    def _current(self) -> Node | None:
        seen = self.rows()
        return seen[self.position(seen)] if seen else None

    def _fold(self) -> None:
        """Collapse or expand the queue."""
        node = self._current()
        if node is not None and node.children:
            self.wanted = replace(self.wanted, collapsed=self.wanted.collapsed ^ {node.key})

    def _collapse(self) -> None:
        """Collapse the queue; from a queue without children, go to its parent."""
        node = self._current()
        if node is None:
            return
        if node.children and node.key not in self.wanted.collapsed:
            self.wanted = replace(self.wanted, collapsed=self.wanted.collapsed | {node.key})
        elif node.parent is not None:
            self.selected = node.parent.key

    def _expand(self) -> None:
        node = self._current()
        if node is not None:
            self.wanted = replace(self.wanted, collapsed=self.wanted.collapsed - {node.key})

    def _start_typing(self) -> None:
        self.is_typing = True

    def _type(self, key: str) -> None:
        """Add a key to the filter, which applies while it is typed."""
        text = self.wanted.text
        if key in ("enter", "down"):
            self.is_typing = False
        elif key == "escape":
            self.is_typing = False
            self.wanted = replace(self.wanted, text="")
        elif key == "backspace":
            self.wanted = replace(self.wanted, text=text[:-1])
        elif len(key) == 1 and len(text) < LONGEST_FILTER:
            self.wanted = replace(self.wanted, text=text + key)
        self._go_to_match()

    def _go_to_match(self) -> None:
        """Move to the first queue that matches itself, unless the cursor is on a match."""
        matching = [node.key for node in self.rows() if node.has(self.wanted.text)]
        if matching and self.selected not in matching:
            self.selected = matching[0]

    def _open(self) -> None:
        node = self._current()
        if node is not None:
            self.selected = node.key
            self.opened = Opened(partition=node.key[0], path=node.key[1])

    def _close(self) -> None:
        self.opened = None

    def _move_inside(self, step: int) -> None:
        """Choose another application of the opened queue."""
        inside = self.snapshot.inside
        if self.opened is None or inside is None or not inside.applications:
            return
        names = [application.application_id for application in inside.applications]
        at = names.index(self.opened.application) if self.opened.application in names else 0
        at = min(max(at + step, 0), len(names) - 1)
        self.opened = replace(self.opened, application=names[at])
