"""Random reloads, creations and cleanings leave a valid tree."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.schema import QueueConfig, TemplateConfig
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.model.queues.tree import QueueTree, check_reload
from licorne_core.values.errors import Rejected
from licorne_core.values.ids import QueuePath, UserGroup
from licorne_core.values.names import Acl
from support.core.trees import check_tree, enter, outline, reload_tree, whole_tree

NAMES = ("a", "b", "c")
USERS = (UserGroup("ann"), UserGroup("bob"))
names = st.sampled_from(NAMES)
users = st.sampled_from(USERS)
acls = st.sampled_from(["", "ann", "bob", "*"]).map(Acl.parse)
templates = st.none() | st.builds(TemplateConfig, max_applications=st.integers(0, 3))
paths = st.lists(names, min_size=1, max_size=4).map(lambda parts: ".".join(["root", *parts]))


def queue_configs(name: str, levels: int) -> st.SearchStrategy[QueueConfig]:
    """Random configurations of a queue with up to this number of levels below it."""
    if levels == 0:
        below: st.SearchStrategy[tuple[QueueConfig, ...]] = st.just(())
    else:
        below = st.lists(names, unique=True, max_size=3).flatmap(
            lambda chosen: st.tuples(*(queue_configs(child, levels - 1) for child in chosen))
        )
    return st.builds(
        QueueConfig,
        name=st.just(name),
        parent=st.booleans(),
        submit_acl=acls,
        child_template=templates,
        queues=below,
    )


roots = queue_configs("root", 3)
steps = st.one_of(
    st.tuples(st.just("reload"), roots),
    st.tuples(st.just("create"), st.tuples(paths, users)),
    st.tuples(st.just("enter"), st.integers(0, 20)),
    st.tuples(st.just("leave"), st.integers(0, 20)),
    st.tuples(st.just("clean"), st.none()),
)


def configured_paths(root: QueueConfig) -> set[str]:
    """The paths of all queues of a configuration."""
    found = set()
    waiting = [("root", root)]
    while waiting:
        path, config = waiting.pop()
        found.add(path)
        waiting += [(f"{path}.{child.name}", child) for child in config.queues]
    return found


def follow(tree: QueueTree, root: QueueConfig) -> None:
    """Reload unless there is a problem, and check that only configured queues are managed and active."""
    before = outline(tree)
    problems = check_reload(tree, root)
    assert outline(tree) == before
    if problems:
        return
    known = {queue.path for queue in tree.walk()}
    reload_tree(tree, root)
    active = {q.path for q in tree.walk() if q.managed and q.state is QueueState.ACTIVE}
    assert active == configured_paths(root)
    assert {queue.path for queue in tree.walk()} == known | active


def create(tree: QueueTree, path: str, user: UserGroup) -> None:
    """Create the missing queues of a path, and check that either all or none are created."""
    if tree.get(path) is not None:
        return
    before = outline(tree)
    try:
        leaf = tree.create(QueuePath(path), user)
    except Rejected:
        assert outline(tree) == before
        return
    assert leaf.path == path
    assert leaf.is_leaf
    added = set(outline(tree)) - set(before)
    assert added == {
        f"{above.path} {'leaf' if above is leaf else 'parent'} dynamic Active"
        for above in leaf.lineage
        if not above.managed and above.path not in {line.split()[0] for line in before}
    }


def clean(tree: QueueTree) -> None:
    """Clean the tree, and check that exactly the empty queues that are not configured are removed."""
    before = {queue.path for queue in tree.walk()}
    removed = [queue.path for queue in tree.clean()]
    assert before - {queue.path for queue in tree.walk()} == set(removed)
    for index, path in enumerate(removed):
        assert not [later for later in removed[index:] if later.startswith(f"{path}.")]
    assert not [queue for queue in tree.walk() if queue.may_be_removed and queue.is_empty]
    assert tree.clean() == []


def nth_leaf(tree: QueueTree, number: int) -> Queue | None:
    """A leaf of the tree by number; None if the tree has no leaf."""
    leaves = list(tree.leaves())
    return leaves[number % len(leaves)] if leaves else None


@pytest.mark.slow
@given(roots, st.lists(steps, max_size=12))
def test_any_history_leaves_a_valid_tree(root: QueueConfig, history: list[tuple[str, object]]) -> None:
    """After any history the links, kinds and states of queues are valid."""
    tree = whole_tree(root)
    check_tree(tree)
    for number, (what, operand) in enumerate(history):
        match what, operand:
            case "reload", QueueConfig() as config:
                follow(tree, config)
            case "create", (str(path), UserGroup() as user):
                create(tree, path, user)
            case "enter", int(index):
                leaf = nth_leaf(tree, index)
                if leaf is not None:
                    enter(leaf, f"app-{number}")
            case "leave", int(index):
                leaf = nth_leaf(tree, index)
                if leaf is not None:
                    leaf.applications.clear()
            case _:
                clean(tree)
        check_tree(tree)


@pytest.mark.slow
@given(roots, roots)
def test_a_reload_of_an_empty_tree_equals_a_new_tree(old: QueueConfig, new: QueueConfig) -> None:
    """A reload and a cleaning without applications give the tree of the new configuration."""
    tree = whole_tree(old)
    assert check_reload(tree, new) == []
    reload_tree(tree, new)
    tree.clean()
    assert outline(tree) == outline(whole_tree(new))
    for queue in whole_tree(new).walk():
        ours = tree.get(queue.path)
        assert ours is not None
        assert ours.submit_acl == queue.submit_acl
        assert ours.template == queue.template
