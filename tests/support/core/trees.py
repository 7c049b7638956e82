"""Queue trees on their own, without a scheduler around them: building, using and checking them."""

from licorne_core.config import load
from licorne_core.config.schema import PartitionConfig, QueueConfig
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue, QueueState
from licorne_core.model.queues.tree import QueueTree
from licorne_core.values.ids import AppId, UserGroup
from licorne_core.values.rm_caps import Holdings

ANN = UserGroup("ann", ("staff",))


def partition_config(queues_and_rules: str) -> PartitionConfig:
    """The configuration of one partition, given the keys below its name, unindented."""
    body = "\n".join(f"  {line}" for line in queues_and_rules.strip("\n").splitlines())
    (partition,) = load(f"partitions:\n- name: default\n{body}\n").partitions
    return partition


def root_config(queues: str) -> QueueConfig:
    """Root's configuration, given the list of queues as YAML."""
    return partition_config(f"queues:\n{queues.strip(chr(10))}").root


def tree_of(queues: str, holdings: Holdings | None = None) -> QueueTree:
    """A tree of these queues, given as a YAML list."""
    return whole_tree(root_config(queues), holdings)


def whole_tree(root: QueueConfig, holdings: Holdings | None = None) -> QueueTree:
    """A tree of all queues of a configuration."""
    tree = QueueTree(root, holdings)
    reload_tree(tree, root)
    return tree


def reload_tree(tree: QueueTree, root: QueueConfig) -> None:
    """The tree follows another configuration."""
    for visit in tree.visits(root):
        tree.settle(visit)


def queue_at(tree: QueueTree, path: str) -> Queue:
    """The queue of that path, which exists."""
    queue = tree.get(path)
    assert queue is not None, f"no queue {path} in {tree}"
    return queue


def enter(leaf: Queue, app_id: str = "app-1", user: UserGroup = ANN) -> Application:
    """Put a new application into a leaf."""
    app = Application(AppId(app_id), leaf.path, user, {}, 0.0)
    leaf.applications[app.app_id] = app
    return app


def outline(tree: QueueTree) -> list[str]:
    """A line for each queue in the order of the walk: path, kind, origin, state."""
    return [
        f"{queue.path} {'leaf' if queue.is_leaf else 'parent'} "
        f"{'managed' if queue.managed else 'dynamic'} {queue.state.value}"
        for queue in tree.walk()
    ]


def check_tree(tree: QueueTree) -> None:
    """Whatever was done to a tree, this holds."""
    queues = list(tree.walk())
    assert queues[0] is tree.root
    assert len({queue.path for queue in queues}) == len(queues)
    for queue in queues:
        assert tree.get(queue.path) is queue
        assert tree.nearest(queue.path) is queue
        if queue.parent is not None:
            assert queue.parent.children[queue.name] is queue
            assert queue.path == f"{queue.parent.path}.{queue.name}"
            assert queue.lineage == (queue, *queue.parent.lineage)
        if queue.is_leaf:
            assert not queue.children
            assert queue.template is None
        else:
            assert not queue.applications
        assert queue.managed or queue.state is not QueueState.DRAINING
    assert list(tree.leaves()) == [queue for queue in queues if queue.is_leaf]
