"""Tracks of nodes, applications and keys: what may follow on what.

The states of a key are those of reliability § 3.3: asked, allocated, to be released, freed or
rejected. What is asked but neither freed nor rejected is `Held`, pending while it has no node.
"""

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from licorne.si.v1 import si_pb2 as si
from licorne_core.handlers.allocations import RELEASED_BY_RM
from licorne_core.handlers.stopping import KEEPING_ON_TIMEOUT, ON_COMPLETION, PENDING_ON_TIMEOUT
from support.wire.items import (
    BAD_PARTITIONS,
    Amounts,
    AppItem,
    AskItem,
    NodeItem,
    ReleaseItem,
    RemovalItem,
    amounts,
    home,
)
from support.wire.tracks import Track

PARTITION_REMOVED = "PartitionRemoved"

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


class Asked(NamedTuple):
    """Whether an ask may go to these nodes is for the RM to say."""

    node_ids: tuple[str, ...]


_KeyAnswer = New | Released | TimedOut | Rejected | Asked

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


_UNANSWERED = {si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER}


class KeyTrack(Track[Held | None, AskItem | ReleaseItem, _KeyAnswer]):
    """One key of an application."""

    def __init__(self, app_id: str, key: str, around: Surroundings) -> None:
        """Not asked."""
        super().__init__(f"key {key!r} of {app_id!r}", None)
        self.app_id = app_id
        self.key = key
        self._around = around
        self._reservable: frozenset[str] = frozenset()

    def restart(self, state: Held | None) -> None:
        """While it waits, a node that is open may be reserved for it, and drained later (§ 8.5)."""
        waits = state is not None and not state.node_id
        self._reservable = self._reservable | self._around.open_nodes() if waits else frozenset()
        super().restart(state)

    def after(
        self,
        state: Held | None,
        item: AskItem | ReleaseItem | None,
        answer: _KeyAnswer | None,
    ) -> Iterable[Held | None]:
        """Rejected only for a reason; new only when asked, released only when allocated."""
        if isinstance(item, AskItem):
            return self._asked(state, item, answer)
        if isinstance(item, ReleaseItem):
            return self._let_go(state, item, answer)
        match answer:
            case None if state is not None and not state.node_id:
                return [None] if self._around.app_may_be(self.app_id, there=False) else []
            case New() if state is not None and self._may_be_decided(state, answer):
                return [state._replace(node_id=answer.node_id)]
            case Asked(node_ids) if state is not None and not state.node_id:
                there = [self._around.node_may_be(node_id, there=True) for node_id in node_ids]
                fine = bool(node_ids) and all(there) and self._around.may_decide()
                return [state] if fine else []
            case Released(message) if state is not None and state.node_id:
                return [None] if self._may_have_ended(state, message) else []
            case TimedOut(message) if state is not None:
                return self._timed_out(state, message)
        return []

    def _may_be_decided(self, state: Held, new: New) -> bool:
        """D2, D3: pending before, on a node that takes it, and nothing but the node changes."""
        around = self._around
        if new.node_id in (state.required, *self._reservable):
            fine = around.node_may_be(new.node_id, there=True)
        else:
            fine = not state.required and new.node_id in around.open_nodes()
        fine = fine and home(new.node_id) == home(self.app_id)
        fine = fine and around.app_may_be(self.app_id, there=True)
        fine = fine and around.has_agreed(self.app_id, self.key, new.node_id)
        wanted = Held("", new.size, new.priority, state.required, new.placeholder)
        return fine and state == wanted

    @staticmethod
    def _timed_out(state: Held, message: str) -> list[Held | None]:
        """What waits is dropped; a placeholder that has its room keeps it until the RM confirms."""
        if state.node_id:
            asked = message in (KEEPING_ON_TIMEOUT, ON_COMPLETION)
            return [state] if state.placeholder and asked else []
        return [None] if message == PENDING_ON_TIMEOUT else []

    def _may_have_ended(self, state: Held, message: str) -> bool:
        around = self._around
        if message == PARTITION_REMOVED:
            return around.partition_may_be(home(self.app_id), there=False)
        if message == f"Application {self.app_id} Removed":
            return around.app_may_be(self.app_id, there=False)
        removed = message == f"Node {state.node_id} Removed"
        return removed and around.node_may_be(state.node_id, there=False)

    def _asked(
        self, state: Held | None, item: AskItem, answer: _KeyAnswer | None
    ) -> Iterable[Held | None]:
        match answer:
            case Rejected(reason):
                return [state] if self._plausible(reason, item) else []
            case Released() | Asked() | TimedOut():
                return []
        if item.fault or not self._around.app_may_be(self.app_id, there=True):
            return []
        placed = bool(item.node_id) and (state is None or not state.node_id)
        after = self.taken(state, item)
        if not placed:
            return [after] if answer is None else []
        assert after is not None
        fine = answer == New(after.node_id, after.size, after.priority, after.placeholder)
        return [after] if fine and self._around.node_may_be(after.node_id, there=True) else []

    def taken(self, state: Held | None, item: AskItem | ReleaseItem) -> Held | None:
        """What an item makes of the key."""
        if item.fault:
            return state
        if isinstance(item, ReleaseItem):
            return state and self._freed(state, item)
        if state is None:
            return Held(item.node_id, item.size, item.priority, item.required, item.placeholder)
        return state._replace(size=item.size, node_id=state.node_id or item.node_id)

    @staticmethod
    def _freed(state: Held, item: ReleaseItem) -> Held | None:
        if item.partition in BAD_PARTITIONS:
            return state
        if item.why == si.SCHEDULING_FAILED_ON_RM:
            return state._replace(node_id="") if item.key else state
        return state if item.why == si.TIMEOUT and not state.node_id else None

    def _plausible(self, reason: str, item: AskItem) -> bool:
        around = self._around
        if item.fault and item.fault in reason:
            return True
        if reason == f"failed to find application {self.app_id}":
            return around.app_may_be(self.app_id, there=False)
        if reason == f"failed to find node {item.node_id}":
            elsewhere = home(item.node_id) != home(self.app_id)
            return elsewhere or around.node_may_be(item.node_id, there=False)
        if reason.startswith(("Failed to find partition", "partition ")):
            return around.partition_may_be(home(self.app_id), there=False)
        return around.huge and reason.endswith("beyond int64")

    def _let_go(
        self, state: Held | None, item: ReleaseItem, answer: _KeyAnswer | None
    ) -> Iterable[Held | None]:
        if item.fault:
            return [state] if isinstance(answer, Rejected) and item.fault in answer.reason else []
        after = self.taken(state, item)
        ended = state is not None and bool(state.node_id) and after is None
        told = ended and item.why not in _UNANSWERED
        if state is not None and state.placeholder and item.why == si.PLACEHOLDER_REPLACED:
            told = False
        if answer != (Released(RELEASED_BY_RM) if told else None):
            return []
        # A placeholder that was told to end does not wait again.
        stays = state is not None and state.placeholder
        stays = stays and item.why == si.SCHEDULING_FAILED_ON_RM
        return [after, state] if stays else [after]
