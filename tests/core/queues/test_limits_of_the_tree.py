"""A tree does not grow without end (reliability § 4: caps on dynamic queues)."""

import pytest

from licorne_core.errors import Rejected
from licorne_core.identity import UserGroup
from licorne_core.ids import QueuePath
from licorne_core.queues import tree as trees
from support.trees import tree_of


def test_one_queue_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Placement creates so many queues and no more, and nothing of the one too many."""
    monkeypatch.setattr(trees, "MAX_QUEUES", 4)
    tree = tree_of("- {name: root, submitacl: '*'}")
    ann = UserGroup("ann", ("ann",))
    tree.create(QueuePath("root.a.b"), ann)
    with pytest.raises(Rejected, match=r"queue root.c.d is one too many, at most 4 queues allowed"):
        tree.create(QueuePath("root.c.d"), ann)
    assert tree.get("root.c") is None
    tree.create(QueuePath("root.c"), ann)
