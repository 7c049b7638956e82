"""Tracks of nodes and applications, and the states and answers of all things.

The states of a key are those of reliability § 3.3: asked, allocated, to be released, freed or
rejected. What is asked but neither freed nor rejected is `Held`, pending while it has no node.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from support.wire.items import BAD_PARTITIONS, Amounts, AppItem, NodeItem, RemovalItem, amounts, home
from support.wire.tracks import Track

# ---- Answers ----


class Accepted(NamedTuple):
    """A node or an application was taken."""


class Rejected(NamedTuple):
    """An item was not taken."""

    reason: str


class Updated(NamedTuple):
    """An application entered a state."""

    state: str


class New(NamedTuple):
    """A key has a node."""

    node_id: str
    size: Amounts
    priority: int
    placeholder: bool


class Released(NamedTuple):
    """An allocation has ended."""

    message: str


class TimedOut(NamedTuple):
    """A placeholder is to end, or an ask of a gang that did not come together was dropped."""

    message: str


class Preempted(NamedTuple):
    """An allocation is to end for an ask that may run nowhere else."""

    message: str


class Asked(NamedTuple):
    """Whether an ask may go to these nodes is for the RM to say."""

    node_ids: tuple[str, ...]


KeyAnswer = New | Released | TimedOut | Preempted | Rejected | Asked

# ---- States ----


class Standing(NamedTuple):
    """A node that is there."""

    schedulable: bool
    size: Amounts


class Held(NamedTuple):
    """A key that is pending, or allocated on a node."""

    node_id: str
    size: Amounts
    priority: int
    required: str
    placeholder: bool


class Occupied(NamedTuple):
    """A foreign allocation that is there."""

    node_id: str
    size: Amounts


class Surroundings(Protocol):
    """What a track has to know of the others."""

    huge: bool
    """Whether amounts were said that may not fit in together."""

    def may_decide(self) -> bool:
        """Whether asks may have been scheduled at all since things were certain."""

    def partition_may_be(self, partition: str, *, there: bool) -> bool:
        """Whether the partition may have been there, or not, since things were certain."""

    def app_may_be(self, app_id: str, *, there: bool) -> bool:
        """The same for an application."""

    def has_agreed(self, app_id: str, key: str, node_id: str) -> bool:
        """Whether a key may have been placed; where the RM is asked, with its consent."""

    def node_may_be(self, node_id: str, *, there: bool) -> bool:
        """The same for a node."""

    def may_be_cleared(self, node_id: str) -> bool:
        """Whether allocations may have been told to leave the node."""

    def open_nodes(self) -> frozenset[str]:
        """The nodes that may have taken asks since things were certain."""


class NodeTrack(Track[Standing | None, NodeItem, Accepted | Rejected]):
    """One node."""

    def __init__(self, node_id: str, around: Surroundings) -> None:
        """Not there."""
        super().__init__(f"node {node_id}", None)
        self.node_id = node_id
        self._around = around

    def after(
        self,
        state: Standing | None,
        item: NodeItem | None,
        answer: Accepted | Rejected | None,
    ) -> Iterable[Standing | None]:
        """Creations are answered, all else is not."""
        partition = home(self.node_id)
        if item is None:
            gone = self._around.partition_may_be(partition, there=False)
            return [None] if answer is None and gone else []
        if not item.is_answered:
            return [] if answer is not None else [self.taken(state, item)]
        match answer:
            case Accepted() if not item.fault and state is None:
                there = self._around.partition_may_be(partition, there=True)
                return [self.taken(state, item)] if there else []
            case Rejected(reason) if self._plausible(reason, state, item):
                return [state]
        return []

    def taken(self, state: Standing | None, item: NodeItem) -> Standing | None:
        """What an item makes of the node."""
        if item.fault or (state is None) is not item.creates:
            return state
        match item.action:
            case "CREATE" | "CREATE_DRAIN":
                return Standing(item.action == "CREATE", amounts(dict(item.size or ())))
            case "DECOMISSION":
                return None
        assert state is not None
        match item.action:
            case "DRAIN_NODE":
                return state._replace(schedulable=False)
            case "DRAIN_TO_SCHEDULABLE":
                return state._replace(schedulable=True)
            case _ if item.size is not None:
                return state._replace(size=item.size)
        return state

    def _plausible(self, reason: str, state: Standing | None, item: NodeItem) -> bool:
        if item.fault and item.fault in reason:
            return True
        if "failed to find partition" in reason:
            return self._around.partition_may_be(home(self.node_id), there=False)
        return state is not None and "has an existing node" in reason


_NEXT = {
    "New": {"Accepted", "Failing"},
    "Accepted": {"Running", "Completing", "Failing", "Resuming"},
    "Resuming": {"Accepted"},
    "Running": {"Completing", "Failing"},
    "Completing": {"Running", "Completed"},
    "Failing": {"Failed"},
}
_ENDS = {"Completed", "Failed"}
_PLACEMENT = (
    "failed to place application",
    "failed to find queue",
    "failed to create rule based queue",
)


class AppTrack(Track[str | None, AppItem | RemovalItem, Accepted | Rejected | Updated]):
    """One application; its state is the one last told."""

    def __init__(self, app_id: str, around: Surroundings) -> None:
        """Not there."""
        super().__init__(f"application {app_id}", None)
        self.app_id = app_id
        self._around = around

    def after(
        self,
        state: str | None,
        item: AppItem | RemovalItem | None,
        answer: Accepted | Rejected | Updated | None,
    ) -> Iterable[str | None]:
        """Adding is answered, removing is not, states follow on one another."""
        match item, answer:
            case None, Updated(to) if state is not None and to in _NEXT.get(state, ()):
                return [None if to in _ENDS else to]
            case RemovalItem(), None:
                return [self.taken(state, item)]
            case AppItem(), Accepted() if state is None and not item.fault:
                there = self._around.partition_may_be(home(self.app_id), there=True)
                return [self.taken(state, item)] if there else []
            case AppItem(), Rejected(reason) if self._plausible(reason, state, item):
                return [state]
        return []

    def taken(self, state: str | None, item: AppItem | RemovalItem) -> str | None:
        """What an item makes of the application."""
        if isinstance(item, RemovalItem):
            return state if item.partition in BAD_PARTITIONS else None
        return "New" if state is None and not item.fault else state

    def _plausible(self, reason: str, state: str | None, item: AppItem) -> bool:
        if item.fault and item.fault in reason:
            return True
        if "already existed" in reason:
            return state is not None and item.app_id != ""
        if reason.startswith(("Failed to add application", "partition ")):
            return self._around.partition_may_be(home(self.app_id), there=False)
        if item.forced or state is not None:
            return False
        if item.gang and reason.startswith("queue "):
            fair = item.queue == "root.b" and reason.endswith("unsupported sort type")
            return fair or "larger than max queue allocation" in reason
        return reason.startswith(_PLACEMENT)
