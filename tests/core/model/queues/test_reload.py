"""Changes of a queue tree by a reload, while applications run."""

import pytest

from licorne_core.model.queues.tree import QueueTree, check_reload, stop
from licorne_core.values.ids import QueuePath
from support.core.trees import ANN, check_tree, enter, outline, queue_at, reload_tree, root_config, tree_of

TWO = """
- name: root
  submitacl: '*'
  queues:
  - {name: a, resources: {max: {memory: 10}}}
  - {name: b, queues: [{name: x}, {name: y}]}
"""
ONLY_A = "- {name: root, submitacl: '*', queues: [{name: a}]}"


def follow(tree: QueueTree, queues: str) -> None:
    """Check a reload, which must have no problem, and apply it."""
    root = root_config(queues)
    assert check_reload(tree, root) == []
    tree.shares_stale = False
    reload_tree(tree, root)
    assert tree.shares_stale
    check_tree(tree)


@pytest.mark.row(49)
def test_reload_keeps_common_queues() -> None:
    """Queues in both configurations remain the same objects, with their applications."""
    tree = tree_of(TWO)
    leaf = queue_at(tree, "root.a")
    app = enter(leaf)
    follow(tree, TWO.replace("memory: 10", "memory: 20"))
    assert queue_at(tree, "root.a") is leaf
    assert leaf.applications == {app.app_id: app}


@pytest.mark.row(52)
def test_a_reload_changes_settings_of_existing_queues() -> None:
    """Existing queues have the sizes, access and properties of the new configuration; others are reset."""
    tree = tree_of(TWO)
    leaf = queue_at(tree, "root.a")
    follow(
        tree,
        "- {name: a, maxapplications: 4, submitacl: ann, adminacl: bob, "
        "properties: {priority.offset: '5'}, "
        "resources: {max: {memory: 20}, guaranteed: {memory: 5}}}",
    )
    assert leaf.max == {"memory": 20}
    assert leaf.guaranteed == {"memory": 5}
    assert leaf.max_applications == 4
    assert leaf.submit_acl.allows(ANN)
    assert "bob" in leaf.admin_acl.users
    assert leaf.settings.priority_offset == 5
    follow(tree, "- {name: a}")
    leaf = queue_at(tree, "root.a")
    assert (leaf.max, leaf.guaranteed, leaf.max_applications) == (None, None, 0)
    assert not leaf.submit_acl.allows(ANN)
    assert leaf.settings.priority_offset == 0


def test_a_reload_keeps_the_size_of_root() -> None:
    """Root keeps the cluster's size as its maximum, and the maximum of applications from its creation."""
    tree = tree_of("- {name: root, maxapplications: 5, queues: [{name: a, maxapplications: 1}]}")
    tree.root.max = {"memory": 100}
    follow(tree, "- {name: root, maxapplications: 9, queues: [{name: a, maxapplications: 1}]}")
    assert tree.root.max == {"memory": 100}
    assert tree.root.max_applications == 5


@pytest.mark.row(50)
def test_a_missing_queue_drains() -> None:
    """A queue that is missing in the configuration drains, with all managed queues below it."""
    tree = tree_of(TWO)
    enter(queue_at(tree, "root.b.x"))
    follow(tree, ONLY_A)
    assert outline(tree) == [
        "root parent managed Active",
        "root.a leaf managed Active",
        "root.b parent managed Draining",
        "root.b.x leaf managed Draining",
        "root.b.y leaf managed Draining",
    ]
    assert [queue.path for queue in tree.clean()] == ["root.b.y"]
    queue_at(tree, "root.b.x").applications.clear()
    assert [queue.path for queue in tree.clean()] == ["root.b.x", "root.b"]
    check_tree(tree)


@pytest.mark.row(51)
def test_a_draining_queue_that_is_configured_again_is_active() -> None:
    """A draining queue that is configured again is active, and is not removed."""
    tree = tree_of(TWO)
    queue = queue_at(tree, "root.b.x")
    follow(tree, ONLY_A)
    follow(tree, TWO)
    assert queue_at(tree, "root.b.x") is queue
    assert "root.b.x leaf managed Active" in outline(tree)
    assert tree.clean() == []


def test_a_dynamic_queue_that_is_configured_becomes_managed() -> None:
    """A dynamic queue that the configuration names has the configured settings, not the template's."""
    tree = tree_of("- {name: root, submitacl: '*', childtemplate: {maxapplications: 2}, queues: [{name: a}]}")
    leaf = tree.create(QueuePath("root.users.ann"), ANN)
    enter(leaf)
    follow(tree, "- {name: users, queues: [{name: ann, maxapplications: 7}]}")
    assert "root.users parent managed Active" in outline(tree)
    assert "root.users.ann leaf managed Active" in outline(tree)
    assert leaf.max_applications == 7


def test_dynamic_queues_below_a_draining_queue_are_cleaned() -> None:
    """Dynamic queues below a draining queue do not drain, but are removed once they are empty."""
    tree = tree_of("- {name: root, submitacl: '*', queues: [{name: users, parent: true}, {name: a}]}")
    leaf = tree.create(QueuePath("root.users.ann"), ANN)
    enter(leaf)
    follow(tree, ONLY_A)
    assert "root.users parent managed Draining" in outline(tree)
    assert "root.users.ann leaf dynamic Active" in outline(tree)
    assert tree.clean() == []
    leaf.applications.clear()
    assert [queue.path for queue in tree.clean()] == ["root.users.ann", "root.users"]


def test_a_leaf_with_applications_cannot_become_a_parent() -> None:
    """A reload in which a leaf in use becomes a parent has a problem with the path of the leaf."""
    tree = tree_of(TWO)
    enter(queue_at(tree, "root.a"))
    enter(queue_at(tree, "root.b.x"), "app-2")
    before = outline(tree)
    problems = check_reload(
        tree, root_config("- {name: b, queues: [{name: x, parent: true}]}\n- {name: a, queues: [{name: z}]}")
    )
    assert [problem.message for problem in problems] == [
        "queue root.b.x has applications and cannot become a parent",
        "queue root.a has applications and cannot become a parent",
    ]
    assert all(problem.line > 0 for problem in problems)
    assert problems[1].path == "partitions[0].queues[1]"
    assert outline(tree) == before


@pytest.mark.row(27)
def test_a_parent_becomes_a_leaf_when_its_children_are_removed() -> None:
    """A parent that is configured as a leaf is a parent until its children are removed."""
    tree = tree_of(TWO)
    enter(queue_at(tree, "root.b.x"))
    as_leaf = TWO.replace(", queues: [{name: x}, {name: y}]", "")
    follow(tree, as_leaf)
    assert "root.b parent managed Active" in outline(tree)
    tree.clean()
    assert "root.b parent managed Active" in outline(tree)
    queue_at(tree, "root.b.x").applications.clear()
    tree.clean()
    check_tree(tree)
    assert outline(tree)[-1] == "root.b leaf managed Active"


def test_a_later_reload_cancels_the_change_of_a_parent_into_a_leaf() -> None:
    """If a later configuration gives it children again, a parent does not become a leaf."""
    tree = tree_of(TWO)
    enter(queue_at(tree, "root.b.x"))
    follow(tree, TWO.replace(", queues: [{name: x}, {name: y}]", ""))
    follow(tree, TWO.replace("{name: x}, {name: y}", "{name: z}"))
    queue_at(tree, "root.b.x").applications.clear()
    tree.clean()
    assert outline(tree)[-2:] == ["root.b parent managed Active", "root.b.z leaf managed Active"]


def test_a_reload_starts_no_stopped_queue() -> None:
    """Stopped queues, managed or dynamic, are still stopped after a reload."""
    tree = tree_of(TWO)
    tree.create(QueuePath("root.users.ann"), ANN)
    stop(tree)
    follow(tree, TWO)
    assert all(line.endswith("Stopped") for line in outline(tree))


def test_a_stopped_queue_that_is_missing_drains() -> None:
    """A stopped queue that is missing in a reload drains, and is active if it is configured again."""
    tree = tree_of("- {name: a}\n- {name: b}")
    stop(tree)
    follow(tree, "- {name: b}")
    assert outline(tree)[1] == "root.a leaf managed Draining"
    follow(tree, "- {name: a}\n- {name: b}")
    assert outline(tree)[1] == "root.a leaf managed Active"
