"""The queue tree: building, lookup, creation, cleaning, and access to queues."""

import pytest

from licorne_core.model.queues.queue import RECOVERY_PATH, QueueState, may_submit, takes_applications
from licorne_core.model.queues.tree import MAX_LEVELS, MAX_PATH_LENGTH, QueueTree, stop
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.rm_caps import Holdings, RmCaps
from support.core.trees import ANN, check_tree, enter, outline, queue_at, reload_tree, root_config, tree_of

OPEN = """
- name: root
  submitacl: '*'
  queues:
  - {name: b, queues: [{name: z}, {name: a}]}
  - {name: a, parent: true}
"""


def create(tree: QueueTree, path: str, user: UserGroup = ANN) -> str:
    """Create a queue; return its path."""
    return tree.create(QueuePath(path), user).path


def refusal(tree: QueueTree, path: str, user: UserGroup = ANN) -> str:
    """The reason why the creation of a queue is refused; the refusal must not change the tree."""
    before = outline(tree)
    with pytest.raises(Rejected) as refused:
        tree.create(QueuePath(path), user)
    assert outline(tree) == before
    return str(refused.value)


@pytest.mark.row(27)
def test_a_walk_has_parents_before_children() -> None:
    """A walk visits parents before children, and children by name; children or a flag make a parent."""
    tree = tree_of(OPEN)
    check_tree(tree)
    assert outline(tree) == [
        "root parent managed Active",
        "root.a parent managed Active",
        "root.b parent managed Active",
        "root.b.a leaf managed Active",
        "root.b.z leaf managed Active",
    ]
    assert [leaf.path for leaf in tree.leaves()] == ["root.b.a", "root.b.z"]


def test_a_lookup_ignores_case() -> None:
    """A queue is found by its path in any case; for a missing path the result is None."""
    tree = tree_of(OPEN)
    assert tree.get("ROOT.B.Z") is queue_at(tree, "root.b.z")
    for missing in ("", "root.c", "b.z", "root.", "root.b.z."):
        assert tree.get(missing) is None


def test_nearest_gives_the_last_existing_queue_of_a_path() -> None:
    """For a path that does not exist, `nearest` returns the last existing queue on the path."""
    tree = tree_of(OPEN)
    assert tree.nearest("root.b.z").path == "root.b.z"
    assert tree.nearest("root.b.y.z").path == "root.b"
    assert tree.nearest("root.c").path == "root"


def test_the_text_of_a_tree_lists_its_queues() -> None:
    """The text of a tree lists the names of its queues."""
    assert repr(tree_of("- {name: a}\n- {name: b}")) == "<QueueTree: root root.a root.b>"


@pytest.mark.row(46)
def test_missing_parents_are_created_with_a_leaf() -> None:
    """The missing parents of a leaf are created with the leaf, as dynamic queues; no share changes."""
    tree = tree_of(OPEN)
    tree.shares_stale = False
    assert create(tree, "root.A.users.Ann") == "root.a.users.ann"
    check_tree(tree)
    assert outline(tree)[1:4] == [
        "root.a parent managed Active",
        "root.a.users parent dynamic Active",
        "root.a.users.ann leaf dynamic Active",
    ]
    assert not tree.shares_stale


@pytest.mark.row(39)
def test_creation_needs_submit_access() -> None:
    """Without submit access to the nearest queue nothing is created."""
    tree = tree_of("- {name: a, parent: true, submitacl: bob}")
    assert refusal(tree, "root.a.x.y") == (
        "submit access to queue root.a denied during create of: root.a.x.y"
    )
    assert create(tree, "root.a.x.y", UserGroup("bob")) == "root.a.x.y"


@pytest.mark.row(81)
def test_nothing_is_created_below_a_leaf() -> None:
    """The creation of a queue below a leaf is refused."""
    assert refusal(tree_of(OPEN), "root.b.z.new.one") == (
        "creation of queue root.b.z.new.one failed parent is already a leaf: root.b.z"
    )


@pytest.mark.row(50)
def test_nothing_is_created_below_a_draining_queue() -> None:
    """No queue is created below a draining parent, nor below its dynamic children."""
    tree = tree_of(OPEN)
    enter(queue_at(tree, create(tree, "root.a.users.ann")))
    reload_tree(tree, root_config("- {name: root, submitacl: '*', queues: [{name: b}]}"))
    text = "cannot add a child queue when queue is marked for deletion: "
    assert refusal(tree, "root.a.new") == f"{text}root.a"
    assert refusal(tree, "root.a.users.bob") == f"{text}root.a.users"


def test_depth_and_length_of_a_path_are_bounded() -> None:
    """A path at the bounds of depth and length is created; a deeper or longer path is refused."""
    tree = tree_of(OPEN)
    deepest = ".".join(["root", *["x"] * (MAX_LEVELS - 1)])
    assert create(tree, deepest) == deepest
    assert refusal(tree, f"root.y{'.y' * 31}") == ("queue path of 33 levels is too deep, at most 32 allowed")
    assert refusal(tree, f"root.{'z' * MAX_PATH_LENGTH}") == (
        "queue path of 4101 characters is too long, at most 4096 allowed"
    )


@pytest.mark.row(84)
def test_the_recovery_queue_is_created_without_access() -> None:
    """A forced application creates the recovery queue as a fifo leaf without limits and template."""
    tree = tree_of(
        """
        - name: root
          childtemplate:
            maxapplications: 2
            properties: {application.sort.policy: fair}
            resources: {max: {memory: 10}}
          queues: [{name: a}]
        """
    )
    queue = tree.create(RECOVERY_PATH, ANN, recovery=True)
    assert outline(tree)[1] == "root.@recovery@ leaf dynamic Active"
    reload_tree(tree, root_config("- {name: root, childtemplate: {maxapplications: 3}, queues: [{name: a}]}"))
    assert queue.max is None
    assert queue.max_applications == 0
    assert not queue.properties
    enter(queue)
    assert tree.clean() == []
    queue.applications.clear()
    assert tree.clean() == [queue]


@pytest.mark.row(104)
def test_cleaning_removes_empty_dynamic_queues() -> None:
    """A cleaning removes empty dynamic leaves and their empty parents, and nothing else."""
    tree = tree_of(OPEN)
    ann = queue_at(tree, create(tree, "root.a.users.ann"))
    bob = queue_at(tree, create(tree, "root.a.users.bob"))
    enter(ann)
    tree.shares_stale = False
    assert tree.clean() == [bob]
    assert not tree.shares_stale
    ann.applications.clear()
    assert [queue.path for queue in tree.clean()] == ["root.a.users.ann", "root.a.users"]
    check_tree(tree)
    assert tree.get("root.a.users") is None
    assert tree.clean() == []


def test_a_removed_queue_is_not_ranked() -> None:
    """A removed queue, active or set aside, is no longer ranked among its siblings."""
    tree = tree_of(OPEN)
    for name in ("x", "y"):
        child = queue_at(tree, create(tree, f"root.a.{name}"))
        queue_at(tree, "root.a").ranking.put(child, (child.path,))
    queue_at(tree, "root.a").ranking.set_aside(queue_at(tree, "root.a.y"))
    tree.clean()
    assert len(queue_at(tree, "root.a").ranking) == 0


def test_a_stop_of_the_tree_stops_every_queue() -> None:
    """All queues of a stopped tree are Stopped, and no queue can be created."""
    tree = tree_of(OPEN)
    create(tree, "root.a.x")
    stop(tree)
    assert {queue.state for queue in tree.walk()} == {QueueState.STOPPED}
    assert refusal(tree, "root.a.y").startswith("cannot add a child queue")


BOB = UserGroup("bob", ("guests",))


@pytest.mark.row(40)
def test_administrators_may_submit() -> None:
    """A user in the administration list of a queue, or of a parent, may submit to the queue."""
    tree = tree_of("- {name: a, adminacl: ann, queues: [{name: b, submitacl: bob}]}")
    leaf = queue_at(tree, "root.a.b")
    assert may_submit(leaf, ANN)
    assert may_submit(leaf, BOB)


@pytest.mark.row(84)
def test_nobody_may_submit_to_the_recovery_queue() -> None:
    """Nobody may submit to the recovery queue, even if root is open to all."""
    tree = tree_of("- {name: root, submitacl: '*', adminacl: '*', queues: [{name: a}]}")
    leaf = tree.create(RECOVERY_PATH, ANN, recovery=True)
    assert may_submit(tree.root, ANN)
    assert not may_submit(leaf, ANN)


def test_only_active_leaves_accept_applications() -> None:
    """A parent, a draining leaf, and a leaf with a draining ancestor accept no applications."""
    tree = tree_of("- {name: root, submitacl: '*', queues: [{name: a, parent: true}, {name: b}]}")
    below = tree.create(QueuePath("root.a.x"), ANN)
    assert takes_applications(below)
    assert not takes_applications(queue_at(tree, "root.a"))
    reload_tree(tree, root_config("- {name: c}"))
    assert not takes_applications(below)
    assert not takes_applications(queue_at(tree, "root.b"))
    assert takes_applications(queue_at(tree, "root.c"))


def test_a_path_above_the_cap_of_queues_is_not_created() -> None:
    """Queues are created up to the cap of the RM; of a path that would exceed the cap, none is created."""
    holdings = Holdings("rm", RmCaps(queues=4))
    tree = tree_of("- {name: root, submitacl: '*'}", holdings)
    ann = UserGroup("ann", ("ann",))
    tree.create(QueuePath("root.a.b"), ann)
    with pytest.raises(Rejected, match=r"root\.c\.d is one too many: RM rm has 3 queues"):
        tree.create(QueuePath("root.c.d"), ann)
    assert tree.get("root.c") is None
    tree.create(QueuePath("root.c"), ann)
