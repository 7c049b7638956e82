"""Following a new configuration while applications run."""

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
    """Reload as the partition does: check first, then apply."""
    root = root_config(queues)
    assert check_reload(tree, root) == []
    tree.shares_stale = False
    reload_tree(tree, root)
    assert tree.shares_stale
    check_tree(tree)


@pytest.mark.row(49)
def test_reload_keeps_common_queues() -> None:
    """Queues that are in both configurations are the same queues, with their applications."""
    tree = tree_of(TWO)
    leaf = queue_at(tree, "root.a")
    app = enter(leaf)
    follow(tree, TWO.replace("memory: 10", "memory: 20"))
    assert queue_at(tree, "root.a") is leaf
    assert leaf.applications == {app.app_id: app}


@pytest.mark.row(52)
def test_reload_changes_settings_live() -> None:
    """Sizes, applications, access and properties follow the new text, also back to none."""
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


def test_reload_leaves_root_alone() -> None:
    """Root's maximum is the cluster's size and its applications are set once, at creation."""
    tree = tree_of("- {name: root, maxapplications: 5, queues: [{name: a, maxapplications: 1}]}")
    tree.root.max = {"memory": 100}
    follow(tree, "- {name: root, maxapplications: 9, queues: [{name: a, maxapplications: 1}]}")
    assert tree.root.max == {"memory": 100}
    assert tree.root.max_applications == 5


@pytest.mark.row(50)
def test_missing_queue_drains() -> None:
    """A queue that is missing in the configuration drains with all managed queues below it."""
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
def test_draining_queue_comes_back() -> None:
    """A draining queue that is in the configuration again is active again, and not removed."""
    tree = tree_of(TWO)
    queue = queue_at(tree, "root.b.x")
    follow(tree, ONLY_A)
    follow(tree, TWO)
    assert queue_at(tree, "root.b.x") is queue
    assert "root.b.x leaf managed Active" in outline(tree)
    assert tree.clean() == []


def test_dynamic_queue_becomes_managed() -> None:
    """A dynamic queue that the configuration names follows that, not its template, from now on."""
    tree = tree_of("- {name: root, submitacl: '*', childtemplate: {maxapplications: 2}, queues: [{name: a}]}")
    leaf = tree.create(QueuePath("root.users.ann"), ANN)
    enter(leaf)
    follow(tree, "- {name: users, queues: [{name: ann, maxapplications: 7}]}")
    assert "root.users parent managed Active" in outline(tree)
    assert "root.users.ann leaf managed Active" in outline(tree)
    assert leaf.max_applications == 7


def test_dynamic_queues_below_a_draining_one_are_cleaned() -> None:
    """Dynamic children do not drain, but do not outlive their applications either."""
    tree = tree_of("- {name: root, submitacl: '*', queues: [{name: users, parent: true}, {name: a}]}")
    leaf = tree.create(QueuePath("root.users.ann"), ANN)
    enter(leaf)
    follow(tree, ONLY_A)
    assert "root.users parent managed Draining" in outline(tree)
    assert "root.users.ann leaf dynamic Active" in outline(tree)
    assert tree.clean() == []
    leaf.applications.clear()
    assert [queue.path for queue in tree.clean()] == ["root.users.ann", "root.users"]


def test_leaf_with_applications_stays_a_leaf() -> None:
    """A used leaf that would become a parent is refused with its place in the text; nothing changes."""
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
def test_parent_becomes_a_leaf_when_its_children_are_gone() -> None:
    """A parent that the configuration makes a leaf waits for its children to be cleaned."""
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


def test_parent_stays_a_parent_when_the_configuration_wants_it_back() -> None:
    """A later configuration with children overrules the wish for a leaf."""
    tree = tree_of(TWO)
    enter(queue_at(tree, "root.b.x"))
    follow(tree, TWO.replace(", queues: [{name: x}, {name: y}]", ""))
    follow(tree, TWO.replace("{name: x}, {name: y}", "{name: z}"))
    queue_at(tree, "root.b.x").applications.clear()
    tree.clean()
    assert outline(tree)[-2:] == ["root.b parent managed Active", "root.b.z leaf managed Active"]


def test_a_stopped_queue_stays_stopped_as_long_as_it_exists() -> None:
    """A configuration that keeps a queue, or a dynamic one, does not start it."""
    tree = tree_of(TWO)
    tree.create(QueuePath("root.users.ann"), ANN)
    stop(tree)
    follow(tree, TWO)
    assert all(line.endswith("Stopped") for line in outline(tree))


def test_a_stopped_queue_that_leaves_the_configuration_drains() -> None:
    """It must be able to end; if it returns it is active."""
    tree = tree_of("- {name: a}\n- {name: b}")
    stop(tree)
    follow(tree, "- {name: b}")
    assert outline(tree)[1] == "root.a leaf managed Draining"
    follow(tree, "- {name: a}\n- {name: b}")
    assert outline(tree)[1] == "root.a leaf managed Active"
