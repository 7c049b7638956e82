"""Which node an ask gets, seen from outside (spec § 7.5)."""

import pytest

from support.served_rm import ServedRm
from support.shim import application, ask, node, resource


def sorted_by(policy: str) -> str:
    """A configuration whose nodes are sorted so."""
    return (
        f"partitions:\n  - name: default\n    nodesortpolicy: {policy}\n"
        "    queues: [{name: root, submitacl: '*', queues: [{name: a}]}]\n"
    )


def weighted(policy: str, vcore: float, memory: float) -> str:
    """A node sort policy with weights."""
    return f"{{type: {policy}, resourceweights: {{vcore: {vcore}, memory: {memory}}}}}"


async def uneven(rm: ServedRm, policy: str) -> None:
    """Node `cpu` uses 90 % of its cores and 50 % of its memory, `even` 75 % of both."""
    await rm.register(sorted_by(policy))
    size = {"vcore": 1000, "memory": 1000, "gpu": 8}
    await rm.tell_nodes(node("cpu", **size), node("even", **size))
    await rm.submit(application("app", "root.a"))
    await rm.ask(
        ask("c", nodeID="cpu", resourcePerAlloc=resource(vcore=900, memory=500, gpu=8)),
        ask("e", nodeID="even", resourcePerAlloc=resource(vcore=750, memory=750)),
    )
    await rm.heard()


@pytest.mark.row(118)
async def test_fair_spreads_over_nodes(rm: ServedRm) -> None:
    """Four asks go to four equal nodes, one each."""
    await rm.register(sorted_by("fair"), n0=1000, n1=1000, n2=1000, n3=1000)
    await rm.submit(application("app", "root.a"))
    await rm.ask(*(ask(f"k{number}") for number in range(4)))
    placed = (await rm.heard()).new
    assert sorted(node_id for _, node_id in placed) == ["n0", "n1", "n2", "n3"]


@pytest.mark.row(119)
async def test_binpacking_fills_one_node_before_the_next(rm: ServedRm) -> None:
    """Asks go to a node until it is full, and only then to another."""
    await rm.register(sorted_by("binpacking"), n0=300, n1=300)
    await rm.submit(application("app", "root.a"))
    await rm.ask(*(ask(f"k{number}") for number in range(6)))
    nodes = [node_id for _, node_id in (await rm.heard()).new]
    assert nodes == [nodes[0]] * 3 + [nodes[5]] * 3
    assert nodes[0] != nodes[5]


@pytest.mark.row(120)
@pytest.mark.parametrize(
    ("policy", "first"),
    [("fair", "cpu"), (weighted("fair", 4, 1), "even"), (weighted("binpacking", 4, 1), "cpu")],
    ids=["fair, 0.70 against 0.75", "fair, 0.82 against 0.75", "binpacking"],
)
async def test_utilization_is_a_weighted_mean(rm: ServedRm, policy: str, first: str) -> None:
    """Cores and memory count alike without weights; a type without a weight never counts."""
    await uneven(rm, policy)
    await rm.ask(ask("k", vcore=1))
    assert (await rm.heard()).new == [("k", first)]


@pytest.mark.row(121)
@pytest.mark.parametrize("policy", ["fair", "binpacking"])
@pytest.mark.parametrize("weights", [(4, 1), (1, 0.25), (1, 4), (0.25, 1)])
async def test_only_the_ratio_of_weights_matters(
    rm: ServedRm, policy: str, weights: tuple[float, float]
) -> None:
    """Four to one is one to a quarter, in both directions."""
    await uneven(rm, weighted(policy, *weights))
    await rm.ask(ask("k", vcore=1))
    cores_count = weights[0] > weights[1]
    assert (await rm.heard()).new == [("k", "even" if cores_count == (policy == "fair") else "cpu")]
