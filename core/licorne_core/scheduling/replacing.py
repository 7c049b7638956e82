"""Applications with placeholders, which real asks may replace (spec § 6.5).

They are tried after the reserved asks and before the queues. An application is tried when its asks or
placeholders have changed, or when a node that the RM refused changes.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import TaskGroup
from licorne_core.model.apps.requests import AskPlace, Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.order import Above, PriorityPass, app_key, path_above
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.values.ranking import Key


class Replacement(NamedTuple):
    """A decision: the real ask replaces the placeholder, and runs on the node.

    With `elsewhere` the ask uses other room than its placeholder, usually on another node.
    """

    app: Application
    request: Request
    placeholder: Request
    node: Node
    elsewhere: bool


class Obstacles(NamedTuple):
    """Obstacles to all replacements of an application: blockers, and nodes that the RM refused."""

    blockers: tuple[Blocker, ...]
    nodes: tuple[Node, ...]


class ReplacingApps(PriorityPass[Application]):
    """The applications with placeholders; ready ones may have one to replace."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        # Nodes that the RM refused, with the applications that wait until they change.
        self._refused: dict[Node, dict[Application, None]] = {}
        self._watched: dict[Application, tuple[Node, ...]] = {}

    def path_up(self, item: Application) -> Sequence[Above]:
        """The application's leaf and the queues above it, preceded by the user in a fair leaf."""
        return path_above(item)

    def key(self, item: Application) -> Key:
        """Key of the application in its leaf, as in the regular pass."""
        return app_key(item, item.leaf)

    def wake(self, items: Iterable[Application]) -> None:
        """Make applications ready that have a placeholder to replace; forget the others."""
        for app in items:
            if app in self.ready:
                continue
            if any(first_asks(app)):
                super().wake((app,))
            else:
                self.forget(app)

    def watch(self, app: Application, found: Obstacles) -> None:
        """Park a failed application with its blockers, and watch the nodes that the RM refused."""
        self.forget(app)
        self.park(app, found.blockers)
        if found.nodes:
            self._watched[app] = found.nodes
            for node in found.nodes:
                self._refused.setdefault(node, {})[app] = None

    def wake_on(self, node: Node) -> bool:
        """Wake applications that wait for a change of the node; return True if there were any."""
        waiting = self._refused.get(node)
        if not waiting:
            return False
        for app in list(waiting):
            self.forget(app)
            self.wake((app,))
        return True

    def forget(self, app: Application) -> None:
        """Remove the application from its blockers, watched nodes and ready items."""
        super().forget(app)
        for node in self._watched.pop(app, ()):
            waiting = self._refused[node]
            waiting.pop(app, None)
            if not waiting:
                del self._refused[node]


def first_asks(app: Application) -> Iterator[tuple[AskPlace, TaskGroup]]:
    """First ask of each group of real asks with a free placeholder, and its task group.

    Asks of one group fit the same nodes, so one is enough.
    """
    if app.gang.free_count:
        for group in app.groups.values():
            _, name, is_placeholder = group.key
            task_group = None if is_placeholder else app.gang.groups.get(name)
            if group.waiting and task_group is not None and task_group.free:
                yield group.first(), task_group
