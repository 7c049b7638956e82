"""The cost of comparing queues before and after a reload."""

from typing import Any

from licorne_core.config.schema import LimitConfig, QueueConfig
from licorne_core.messages.events.records import EventDetail
from licorne_core.model.queues.changes import limit_facts, snapshot
from support.core.trees import reload_tree, whole_tree


class Counted(dict[str, int]):
    """Amounts whose comparisons are counted."""

    compared = 0

    __hash__ = None

    def __eq__(self, other: Any) -> bool:
        """Compare, and count."""
        Counted.compared += 1
        return super().__eq__(other)


def limited(description: str, amount: int) -> QueueConfig:
    """Root with one limit for a thousand users."""
    users = tuple(f"u{number}" for number in range(1_000))
    sizes = Counted(memory=amount)
    limit = LimitConfig(limit=description, users=users, max_resources=sizes)
    return QueueConfig(name="root", parent=True, limits=(limit,))


def facts(before: QueueConfig, after: QueueConfig) -> list[str]:
    """The names with an event of a changed limit after a reload from one configuration to the other."""
    tree = whole_tree(before)
    earlier = snapshot(tree.root)
    reload_tree(tree, after)
    found = limit_facts((tree.root, earlier, snapshot(tree.root)), 0.0)
    return [record.object_id for record in found if record.detail is EventDetail.UG_USER_LIMIT]


def test_a_limit_is_compared_once_for_all_its_names() -> None:
    """For a limit with a thousand names the amounts are compared fewer than 20 times."""
    Counted.compared = 0
    assert facts(limited("old", 1), limited("new", 1)) == []
    assert len(facts(limited("old", 1), limited("new", 2))) == 1_000
    assert 0 < Counted.compared < 20
