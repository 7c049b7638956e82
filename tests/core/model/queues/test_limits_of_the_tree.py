"""A tree does not grow without end (reliability § 4: caps on dynamic queues)."""

import pytest

from licorne_core.values.errors import Rejected
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.rm_caps import Holdings, RmCaps
from support.core.trees import tree_of


def test_one_queue_too_many_is_refused() -> None:
    """Placement creates so many queues and no more, and nothing of the one too many."""
    holdings = Holdings("rm", RmCaps(queues=4))
    tree = tree_of("- {name: root, submitacl: '*'}", holdings)
    ann = UserGroup("ann", ("ann",))
    tree.create(QueuePath("root.a.b"), ann)
    with pytest.raises(Rejected, match=r"root\.c\.d is one too many: RM rm has 3 queues"):
        tree.create(QueuePath("root.c.d"), ann)
    assert tree.get("root.c") is None
    tree.create(QueuePath("root.c"), ann)
