"""Access lists of queues, asked up to root."""

import pytest

from licorne_core.model.queues.queue import RECOVERY_PATH, may_submit, takes_applications
from licorne_core.model.queues.tree import QueueTree, stop
from licorne_core.values.ids import QueuePath, UserGroup
from support.core.trees import ANN, queue_at, reload_tree, root_config, tree_of

BOB = UserGroup("bob", ("guests",))


@pytest.mark.row(39)
def test_access_is_inherited_from_above() -> None:
    """Submit access at root is submit access everywhere below it."""
    tree = tree_of("- {name: root, submitacl: ann, queues: [{name: a, queues: [{name: b}]}]}")
    leaf = queue_at(tree, "root.a.b")
    assert may_submit(leaf, ANN)
    assert not may_submit(leaf, BOB)


@pytest.mark.row(39)
def test_access_to_one_queue_is_none_to_its_siblings() -> None:
    """A list counts for the queue that has it and what is below, nowhere else."""
    tree = tree_of("- {name: a, submitacl: ann}\n- {name: b}")
    assert may_submit(queue_at(tree, "root.a"), ANN)
    assert not may_submit(queue_at(tree, "root.b"), ANN)
    assert not may_submit(tree.root, ANN)


@pytest.mark.row(39)
def test_no_list_anywhere_lets_nobody_in() -> None:
    """Unset on every level means denied."""
    tree = tree_of("- {name: a}")
    assert not may_submit(queue_at(tree, "root.a"), ANN)


@pytest.mark.row(40)
def test_administrators_may_submit() -> None:
    """Who only stands in the administration list, even that of a parent, may submit too."""
    tree = tree_of("- {name: a, adminacl: ann, queues: [{name: b, submitacl: bob}]}")
    leaf = queue_at(tree, "root.a.b")
    assert may_submit(leaf, ANN)
    assert may_submit(leaf, BOB)


def test_groups_give_access() -> None:
    """A list after the blank names groups."""
    tree = tree_of("- {name: a, submitacl: ' staff'}")
    assert may_submit(queue_at(tree, "root.a"), ANN)
    assert not may_submit(queue_at(tree, "root.a"), BOB)


@pytest.mark.row(84)
def test_nobody_may_submit_to_the_recovery_queue() -> None:
    """The recovery queue is closed to all, however open root is."""
    tree = tree_of("- {name: root, submitacl: '*', adminacl: '*', queues: [{name: a}]}")
    leaf = tree.create(RECOVERY_PATH, ANN, recovery=True)
    assert may_submit(tree.root, ANN)
    assert not may_submit(leaf, ANN)


def test_only_active_leaves_take_applications() -> None:
    """A parent takes none, nor does a leaf that drains or has a draining queue above it."""
    tree = tree_of("- {name: root, submitacl: '*', queues: [{name: a, parent: true}, {name: b}]}")
    below = tree.create(QueuePath("root.a.x"), ANN)
    assert takes_applications(below)
    assert not takes_applications(queue_at(tree, "root.a"))
    reload_tree(tree, root_config("- {name: c}"))
    assert not takes_applications(below)
    assert not takes_applications(queue_at(tree, "root.b"))
    assert takes_applications(queue_at(tree, "root.c"))


def test_a_stopped_tree_takes_nothing() -> None:
    """Once a partition is being removed no queue takes applications."""
    tree: QueueTree = tree_of("- {name: a}")
    stop(tree)
    assert not any(takes_applications(queue) for queue in tree.walk())
