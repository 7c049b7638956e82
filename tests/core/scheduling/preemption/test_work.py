"""What a search costs is counted, also if it finds nobody: turns end by that count (spec § 9.2)."""

from licorne_core.scheduling.preemption import Law, Refusal
from support.preemption.building import build
from support.preemption.records import Cluster, NodeRecord
from support.preemption.scenes import NOW, A, B, cluster, queue, runs, waits

NODES = 320


def wide(guaranteed: int, *, asked: int = 1) -> Cluster:
    """An ask of A, and many full nodes of B, which is guaranteed so much."""
    names = [f"n{number:03}" for number in range(NODES)]
    return cluster(
        [queue(A, {"vcore": 4}), queue(B, {"vcore": guaranteed})],
        *[runs(B, number, node=name, priority=9) for number, name in enumerate(names)],
        waits(A, 1, vcore=asked),
        nodes=tuple(NodeRecord(name=name, capacity={"vcore": 1}) for name in names),
    )


def worked(scene: Cluster) -> tuple[Law, int]:
    """Why a search is in vain, and what it costs once the nodes are known."""
    built = build(scene)
    app, request = built.request(f"{A}-w1")
    built.search.find(app, request, NOW)
    before = built.search.work
    found = built.search.find(app, request, NOW)
    assert isinstance(found, Refusal)
    return found.law, built.search.work - before


def test_nodes_that_are_looked_at_in_vain_count() -> None:
    """B may give, and nothing of it may go: each node is looked at."""
    law, work = worked(wide(1))
    assert law is Law.NO_VICTIMS
    assert work >= NODES


def test_nodes_that_are_all_too_small_count() -> None:
    """That none could be kept is known when each was looked at."""
    law, work = worked(wide(1, asked=2))
    assert law is Law.NO_NODE
    assert work >= NODES


def test_where_no_leaf_may_give_hardly_any_node_is_looked_at() -> None:
    """B has no more than it is guaranteed: the leaves count, and the nodes are not compared."""
    law, work = worked(wide(NODES))
    assert law is Law.NO_VICTIMS
    assert 2 <= work < NODES // 4
