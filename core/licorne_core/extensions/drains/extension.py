"""Nodes of one partition that operators have closed, and the terms of their drains."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from licorne_core.extensions.drains import NAME
from licorne_core.extensions.drains.contents import contents_of
from licorne_core.extensions.drains.messages import Cordon, DrainTerms
from licorne_core.extensions.drains.pace import stop_some
from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId, NodeId
from licorne_core.values.timers import Due, Timer


class Drains(Extension):
    """Terms of drains by node. Always true: a node with terms is in `NodeBook.closed`.

    The node book has the marks of the operators who closed nodes.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without terms."""
        super().__init__(name, bit, context)
        self.terms: dict[NodeId, DrainTerms] = {}

    def set(self, node_id: NodeId, cordon: Cordon | None) -> None:
        """Set or remove a cordon; the caller changes the node itself."""
        closed = self.context.node_book.closed
        self.terms.pop(node_id, None)
        if cordon is None:
            closed.pop(node_id, None)
            self.timers.cancel(_timer(node_id))
            return
        closed[node_id] = cordon.mark
        if cordon.drain is not None:
            self.terms[node_id] = cordon.drain

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Restore the cordons; their nodes have not been added yet."""
        for name, cordon in marks.items():
            self.set(NodeId(name), cordon)

    def marks(self) -> Mapping[str, Any]:
        """Cordons by node, including the cordons of removed nodes."""
        closed = self.context.node_book.closed
        return {node_id: Cordon(mark=mark, drain=self.terms.get(node_id)) for node_id, mark in closed.items()}

    def closed_node_changed(self, node: Node, now: float) -> None:
        """Set the timer, because an allocation may have to be stopped immediately."""
        terms = self.terms.get(node.node_id)
        if terms is not None and terms.deadline is not None:
            self.timers.set(_timer(node.node_id), now)

    def node_lost(self, node: Node) -> None:
        """Cancel the timer, as no allocation runs on the node any more."""
        self.timers.cancel(_timer(node.node_id))

    def work(self, job: Any) -> Iterator[int]:
        """Stop the due allocations of one node, and set the time of the next stop."""
        return stop_some(self.terms, job)

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Compare nodes, terms and times.

        While an allocation on a node with a deadline has to be stopped, there is a timer for the node.
        """
        times, nodes = self.timers.names(), self.context.nodes
        busy = any(timer.due is Due.GO_ON for timer in times)
        for timer in times:
            if timer.name == NAME and not (timer.node_id in nodes and timer.node_id in self.terms):
                raise InvariantBroken(f"L2: node {timer.node_id} is drained no more")
        for node_id, terms in self.terms.items():
            node = nodes.get(node_id)
            if node_id not in self.context.node_book.closed:
                raise InvariantBroken(f"D4: node {node_id} is drained, and not closed")
            if node is None or terms.deadline is None or busy or _timer(node_id) in self.timers:
                continue
            there = contents_of(applications, node)
            if there.remaining > there.stopping:
                raise InvariantBroken(f"D5: node {node_id}: {there}, and no time for the next")


def _timer(node_id: NodeId) -> Timer:
    """Name of the deadline at which the next allocation of the node is stopped."""
    return Timer(Due.EXTENSION_WORK, node_id=node_id, name=NAME)


KIND: Final = Drains
