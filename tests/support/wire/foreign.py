"""The track of a foreign allocation."""

from collections.abc import Iterable

from support.wire.items import AskItem, ReleaseItem
from support.wire.things import Occupied, Rejected, Surroundings
from support.wire.tracks import Track


class ForeignTrack(Track[Occupied | None, AskItem | ReleaseItem, Rejected]):
    """One foreign allocation: never answered but to be refused."""

    def __init__(self, key: str, around: Surroundings) -> None:
        """Not there."""
        super().__init__(f"foreign key {key!r}", None)
        self._around = around

    def after(
        self, state: Occupied | None, item: AskItem | ReleaseItem | None, answer: Rejected | None
    ) -> Iterable[Occupied | None]:
        """It comes, moves, goes, and goes with its node."""
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
        """What an item makes of it."""
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
