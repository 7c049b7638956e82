"""Possible states of a key and of a foreign allocation: legal sequences (reliability § 3.3)."""

from collections.abc import Iterable

from licorne.si.v1 import si_pb2 as si
from licorne_core.handlers.allocations import RELEASED_BY_RM
from licorne_core.handlers.outcome import KEEPING_ON_TIMEOUT, ON_COMPLETION, PENDING_ON_TIMEOUT
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.standard.preemption.stopping import TEXTS
from support.wire.items import BAD_PARTITIONS, AskItem, ReleaseItem, home
from support.wire.tracks import (
    Asked,
    Held,
    KeyAnswer,
    New,
    Occupied,
    Preempted,
    Rejected,
    Released,
    Surroundings,
    TimedOut,
    Track,
)

PARTITION_REMOVED = "PartitionRemoved"
_UNANSWERED = {si.TIMEOUT, si.PREEMPTED_BY_SCHEDULER}


class KeyTrack(Track[Held | None, AskItem | ReleaseItem, KeyAnswer]):
    """One key of an application."""

    def __init__(self, app_id: str, key: str, around: Surroundings) -> None:
        """Start without an ask."""
        super().__init__(f"key {key!r} of {app_id!r}", None)
        self.app_id = app_id
        self.key = key
        self._around = around
        self._reservable: frozenset[str] = frozenset()

    def restart(self, state: Held | None) -> None:
        """Start again in this state: any open node may be reserved for a pending ask (§ 8.5)."""
        waits = state is not None and not state.node_id
        self._reservable = self._reservable | self._around.open_nodes() if waits else frozenset()
        super().restart(state)

    def after(
        self,
        state: Held | None,
        item: AskItem | ReleaseItem | None,
        answer: KeyAnswer | None,
    ) -> Iterable[Held | None]:
        """Rejected only with a reason; new only after an ask, released only after an allocation."""
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
            case Preempted(message) if state is not None and state.node_id and not state.required:
                # The victim occupies its node until the RM confirms.
                for_daemon = message.startswith(TEXTS[PreemptionRule.REQUIRED_NODE].format(""))
                return [state] if for_daemon and self._may_be_cleared(state) else []
        return []

    def _may_be_decided(self, state: Held, new: New) -> bool:
        """D2, D3: the ask was pending, the node is legal, and the answer changes nothing but the node."""
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

    def _may_be_cleared(self, state: Held) -> bool:
        return self._around.may_be_cleared(state.node_id)

    @staticmethod
    def _timed_out(state: Held, message: str) -> list[Held | None]:
        """A pending ask is dropped; an allocated placeholder occupies its node until the RM confirms."""
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

    def _asked(self, state: Held | None, item: AskItem, answer: KeyAnswer | None) -> Iterable[Held | None]:
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
        """The state of the key after an item."""
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
        self, state: Held | None, item: ReleaseItem, answer: KeyAnswer | None
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
        # An allocation whose end was requested does not return to the asks.
        stays = state is not None and (state.placeholder or self._may_be_cleared(state))
        stays = stays and item.why == si.SCHEDULING_FAILED_ON_RM
        return [after, state] if stays else [after]


class ForeignTrack(Track[Occupied | None, AskItem | ReleaseItem, Rejected]):
    """One foreign allocation, which is answered only if it is rejected."""

    def __init__(self, key: str, around: Surroundings) -> None:
        """Start without an allocation."""
        super().__init__(f"foreign key {key!r}", None)
        self._around = around

    def after(
        self, state: Occupied | None, item: AskItem | ReleaseItem | None, answer: Rejected | None
    ) -> Iterable[Occupied | None]:
        """A foreign allocation is added, moved and removed by the RM, and removed with its node."""
        if item is None:
            gone = state is not None and self._around.node_may_be(state.node_id, there=False)
            return [None] if answer is None and gone else []
        if answer is not None:
            return [state] if self._plausible(answer.reason, item) else []
        if item.fault:
            return []
        if isinstance(item, AskItem) and not self._around.node_may_be(item.node_id, there=True):
            return []
        return [self.taken(state, item)]

    def taken(self, state: Occupied | None, item: AskItem | ReleaseItem) -> Occupied | None:
        """The state after an item."""
        if item.fault:
            return state
        if isinstance(item, AskItem):
            return Occupied(item.node_id, item.size)
        return None

    def _plausible(self, reason: str, item: AskItem | ReleaseItem) -> bool:
        if item.fault and item.fault in reason:
            return True
        if isinstance(item, ReleaseItem):
            return False
        if reason == f"failed to find node {item.node_id} for allocation {item.key}":
            return self._around.node_may_be(item.node_id, there=False)
        return self._around.huge and reason.endswith("beyond int64")
