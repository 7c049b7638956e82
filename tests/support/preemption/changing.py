"""What happens to a cluster between two searches: random changes of the core's own things.

Each does to books, versions and counters what the core does in such a case.
"""

from collections.abc import Callable
from random import Random

from licorne_core.model.apps.requests import Request, RequestEvent, RequestState
from licorne_core.model.books import (
    book,
    book_preempting,
    unbook_in_quotas,
    unbook_on_node,
    unbook_preempting,
)
from licorne_core.model.nodes.node import Node
from licorne_core.values.asks import Allocation, AskClass
from licorne_core.values.ids import AllocationKey, NodeId
from support.preemption.building import Built
from support.preemption.drawing import NOW


class Changing:
    """Changes a cluster, one random thing at a time."""

    def __init__(self, built: Built, random: Random) -> None:
        """Nothing has changed yet."""
        self._built = built
        self._random = random
        self._made = 0
        self._changes: list[Callable[[], None]] = [
            *[self._stop] * 3,
            *[self._end] * 3,
            *[self._place] * 3,
            self._resize,
            self._add_node,
            self._remove_node,
            self._drain,
        ]

    def change(self) -> None:
        """One change, if what is drawn is possible."""
        self._random.choice(self._changes)()

    def _one(self, *states: RequestState) -> Request | None:
        """Any request in one of these states."""
        found = [
            request
            for app in self._built.applications.values()
            for request in app.requests.values()
            if request.state in states
        ]
        return self._random.choice(found) if found else None

    def _where(self, request: Request) -> tuple[Allocation, Node]:
        assert request.allocation is not None
        return request.allocation, self._built.nodes.by_id[request.allocation.node_id]

    def _note(self, node: Node) -> None:
        """The node has changed, and the log of changed nodes has it."""
        node.version += 1
        self._built.nodes.changed.note(node)

    def _stop(self) -> None:
        """A victim is told to stop; the version of its node stays."""
        request = self._one(RequestState.ALLOCATED)
        if request is not None:
            request.follow(RequestEvent.PREEMPT)
            app = self._built.applications[request.ask.app_id]
            node = self._where(request)[1]
            book_preempting(request.ask.ask_class.items, node, app)
            self._built.nodes.changed.note(node)

    def _end(self) -> None:
        """Something that runs is released, a victim or not."""
        request = self._one(RequestState.ALLOCATED, RequestState.PREEMPTING)
        if request is None:
            return
        app = self._built.applications[request.ask.app_id]
        allocation, node = self._where(request)
        items = allocation.ask.ask_class.items
        if request.state is RequestState.PREEMPTING:
            unbook_preempting(items, node, app)
        unbook_on_node(items, node)
        unbook_in_quotas(items, app)
        request.follow(RequestEvent.RELEASE)
        request.allocation = None
        del node.allocations[allocation], app.requests[request.key]
        app.leaf.counters.allocations_released += 1
        self._note(node)

    def _place(self) -> None:
        """An application gets a copy of something that runs, on any node."""
        like = self._one(RequestState.ALLOCATED)
        if like is None:
            return
        app = self._built.applications[like.ask.app_id]
        node = self._random.choice(list(self._built.nodes.by_id.values()))
        self._made += 1
        ask = like.ask.__class__(
            key=AllocationKey(f"m{self._made}"),
            app_id=app.app_id,
            ask_class=like.ask.ask_class,
            priority=like.ask.priority,
            allow_preempt_self=self._random.random() < 0.7,
        )
        request = Request(ask, NOW - self._random.randint(1, 99), self._made)
        request.follow(RequestEvent.ALLOCATE)
        request.allocation = Allocation(ask, node.node_id, request.create_time, NOW - 1)
        book(ask.ask_class.items, node, app)
        node.allocations[request.allocation] = None
        app.requests[request.key] = request
        app.leaf.counters.allocations_made += 1
        self._note(node)

    def _resize(self) -> None:
        """Something that runs grows where it is."""
        request = self._one(RequestState.ALLOCATED)
        if request is None:
            return
        app = self._built.applications[request.ask.app_id]
        allocation, node = self._where(request)
        unbook_on_node(allocation.ask.ask_class.items, node)
        unbook_in_quotas(allocation.ask.ask_class.items, app)
        del node.allocations[allocation]
        larger = {name: 2 * value for name, value in allocation.ask.ask_class.items}
        request.ask.ask_class = AskClass.of(larger)
        request.allocation = Allocation(request.ask, node.node_id, allocation.request_time, NOW - 1)
        book(request.ask.ask_class.items, node, app)
        node.allocations[request.allocation] = None
        # What was booked last is last among its requests.
        app.requests[request.key] = app.requests.pop(request.key)
        self._note(node)

    def _add_node(self) -> None:
        """A node comes that is full of what others run."""
        self._made += 1
        some = self._random.choice(list(self._built.nodes.by_id.values()))
        node_id = NodeId(f"n{self._random.randint(0, 9)}-{self._made}")
        self._built.nodes.add(Node(node_id, dict(some.capacity), {}, schedulable=True))
        self._built.tree.root.max = self._built.nodes.total

    def _remove_node(self) -> None:
        """A node goes that nothing is on."""
        empty = [
            node
            for node in self._built.nodes.by_id.values()
            if not node.allocations and not node.reservations
        ]
        if len(self._built.nodes.by_id) > 1 and empty:
            self._built.nodes.remove(self._random.choice(empty))
            self._built.tree.root.max = self._built.nodes.total

    def _drain(self) -> None:
        """A node is drained, or taken back."""
        node = self._random.choice(list(self._built.nodes.by_id.values()))
        node.set_schedulable(schedulable=not node.schedulable)
        self._note(node)
