"""Nodes that come, change and go, and which one an ask gets, seen from outside (spec § 7)."""

import pytest

from licorne.si.v1 import si_pb2 as si
from support.peers.served_rm import ServedRm
from support.peers.shim import application, ask, node, resource


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


def sized(node_id: str, vcore: int) -> si.NodeInfo:
    """A node has another capacity."""
    size = resource(vcore=vcore)
    return si.NodeInfo(nodeID=node_id, action=si.NodeInfo.UPDATE, schedulableResource=size)


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


@pytest.mark.row(114)
async def test_a_node_is_taken_once(rm: ServedRm) -> None:
    """The second of an id is rejected with its reason, and the first keeps its size."""
    await rm.register("", n0=1000)
    assert await rm.tell_nodes(node("n0", vcore=9), node("n1", vcore=500)) == [
        "partition [rm]default has an existing node n0, node name must be unique"
    ]
    sizes = {item["nodeID"]: item["capacity"] for item in await rm.get("nodes")}
    assert sizes == {"n0": {"vcore": 1000}, "n1": {"vcore": 500}}


@pytest.mark.row(115)
@pytest.mark.parametrize(("vcore", "keys"), [(199, []), (200, ["k2"]), (300, ["k2", "k3"])])
async def test_a_node_that_grows_runs_more(rm: ServedRm, vcore: int, keys: list[str]) -> None:
    """What waits for room on a node runs at once; shrunk below its usage it kills nothing."""
    await rm.register("", n0=150, n1=150)
    await rm.submit(application("app"))
    await rm.ask(*(ask(f"k{number}") for number in range(4)))
    assert (await rm.heard()).new == [("k0", "n0"), ("k1", "n1")]
    await rm.tell_nodes(sized("n0", vcore))
    assert (await rm.heard()).new == [(key, "n0") for key in keys]
    await rm.tell_nodes(sized("n0", 50))
    assert await rm.heard() == ([], [], [])
    assert (await rm.queue("root"))["maxResource"] == {"vcore": 200}


@pytest.mark.row(117)
async def test_a_decommissioned_node_lets_all_go(rm: ServedRm) -> None:
    """All its allocations are told to be stopped, and its capacity is gone; other nodes stay."""
    await rm.register("", n0=200, n1=100)
    await rm.submit(application("app"))
    await rm.ask(*(ask(f"k{number}") for number in range(3)))
    where = dict((await rm.heard()).new)
    await rm.tell_nodes(si.NodeInfo(nodeID="n0", action=si.NodeInfo.DECOMISSION))
    gone = [key for key, node_id in where.items() if node_id == "n0"]
    assert len(gone) == 2
    assert (await rm.heard()).released == [
        (key, "STOPPED_BY_RM", "Node n0 Removed") for key in gone
    ]
    assert await rm.used() == (100, 0)
    assert (await rm.queue("root"))["maxResource"] == {"vcore": 100}
