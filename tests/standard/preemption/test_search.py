"""In many small random clusters the search finds the same plans as an exhaustive search."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from licorne_core.config.schema import VictimOrder
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.requests import MAY_GO
from licorne_core.standard.preemption import search
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.planning import VictimPlan
from licorne_core.standard.preemption.search import PreemptionSearch, SearchRefusal
from licorne_core.standard.preemption.victim_index import VictimIndex
from licorne_core.standard.preemption.victims import Victim, age_of
from licorne_core.values.ids import NodeId
from support.preemption import asking
from support.preemption.asking import ENDLESS, A, B, cluster, queue, runs, shown, waits
from support.preemption.brute_force import BruteForce, Party, members_of
from support.preemption.building import PART, Built, Changing, build
from support.preemption.drawing import ASK, NOW, Drawing
from support.preemption.records import Cluster, NodeRecord, RequestRecord
from support.seeds import lively


@pytest.mark.worlds(size=100)
def test_the_best_plans_equal_an_exhaustive_search(part: range) -> None:
    """The best plan, the best three plans, and the blocking law equal those of an exhaustive search."""
    assert sum(map(plans_compared, part)) > lively(len(part)) // 10


@pytest.mark.worlds(first=500_000, size=100)
def test_the_best_plans_with_elastic_gangs_equal_an_exhaustive_search(part: range) -> None:
    """With elastic gangs, whose newest steps are stopped first, the plans equal an exhaustive search."""
    grown = sum(
        plans_compared(seed, elastic=True, what=lambda plans: any(plan.step for plan in plans))
        for seed in part
    )
    assert grown > lively(len(part)) // 20


@pytest.mark.worlds(first=600_000, size=100)
def test_the_best_plans_up_to_a_fair_share_equal_an_exhaustive_search(part: range) -> None:
    """With fair shares, the plans equal those of an exhaustive search, with or without guarantees."""
    reclaimed = [
        plans_compared(seed, elastic=seed % 5 == 0, reclaims=True, what=_is_for_share) for seed in part
    ]
    assert sum(reclaimed) > lively(len(part)) // 10


def _is_for_share(plans: list[VictimPlan]) -> bool:
    return any(plan.victims and plan.rule is PreemptionRule.FAIR_SHARE for plan in plans)


@pytest.mark.parametrize(
    ("seed", "elastic"),
    [
        pytest.param(500_118, True, id="a step and its whole gang"),
        pytest.param(244, False, id="node reserved for an ask of the same priority"),
        pytest.param(943, False, id="one victim for the node and a maximum"),
    ],
)
def test_the_best_plans_in_rare_worlds_equal_an_exhaustive_search(seed: int, elastic: bool) -> None:
    """The plans also equal an exhaustive search in worlds with rare combinations."""
    plans_compared(seed, elastic=elastic)


def plans_compared(
    seed: int,
    *,
    elastic: bool = False,
    reclaims: bool = False,
    what: Callable[[list[VictimPlan]], bool] = lambda _: True,
) -> int:
    """Compare the plans of a world with an exhaustive search; return the number of searches with a plan."""
    found_some = 0
    cluster = Drawing(seed, elastic=elastic, reclaims=reclaims).cluster()
    for most, first_nodes in ((1, 32), (1, 0), (3, 1)):
        wanted = BruteForce(cluster, cluster.requests[-1]).answer(most)
        found = asking.search(cluster, ASK, most=most, first_nodes=first_nodes)
        assert shown(found) == wanted, f"seed {seed}, {most} plans, first_nodes {first_nodes}"
        found_some += isinstance(found, list) and what(found)
    return found_some


@pytest.mark.worlds(size=100)
def test_the_check_of_a_plan_agrees_with_the_laws(part: range) -> None:
    """The check of random victims on a random node accepts exactly the plans that the laws allow."""
    standing = 0
    for seed in part:
        cluster = Drawing(seed, elastic=seed % 3 == 0, reclaims=seed % 4 == 1).cluster()
        built, tried = build(cluster), BruteForce(cluster, cluster.requests[-1])
        app, request = built.request(ASK)
        random = Random(seed)
        for _ in range(20):
            node = random.choice(cluster.nodes)
            there = [Party((one,)) for one in cluster.requests if one.node is not None]
            parties = _some(tried.rules.candidates or there, random)
            chosen = members_of(parties)
            here = [one for one in chosen if one.node == node.name]
            split = random.randint(0, len(here))
            plan = VictimPlan(
                node=built.nodes.by_id[NodeId(node.name)],
                on_node=_victims(built, here[:split]),
                other_nodes=_victims(built, [one for one in chosen if one.node != node.name]),
                spare=_victims(built, here[split:]),
            )
            keys = {one.key for one in chosen}
            wanted = any(
                by.may_host(node)
                and keys == {one.key for one in members_of(_among(by, parties))}
                and by.is_legal(tuple(_among(by, parties)))
                and by.is_enough(node, tuple(parties))
                and by.is_enough(node, ()) is not bool(parties)
                for by in tried.claims()
            )
            upto = len(here) - 1
            assert built.search.stands(app, request, plan, upto, cluster.now) is wanted, seed
            standing += wanted
    assert standing > 0


@pytest.mark.worlds(one_in=4)
def test_found_plans_are_legal(part: range) -> None:
    """Every found plan is legal, even with all its spare victims."""
    for seed in part:
        cluster = Drawing(seed, elastic=seed % 2 == 0).cluster()
        built = build(cluster)
        app, request = built.request(ASK)
        found = built.search.find(app, request, cluster.now, steps=1 if seed % 4 == 0 else ENDLESS)
        for plan in found if isinstance(found, list) else []:
            for upto in range(plan.start, len(plan.on_node + plan.spare)):
                assert built.search.stands(app, request, plan, upto, cluster.now), seed


@pytest.mark.worlds(one_in=4)
def test_a_search_changes_no_state(part: range) -> None:
    """A search leaves queues, nodes and applications unchanged; only its count of work rises."""
    for seed in part:
        built = build(Drawing(seed).cluster())
        app, request = built.request(ASK)
        before = _books(built)
        built.search.find(app, request, 1e6)
        worked = built.search.work
        assert _books(built) == before
        again = built.search.find(app, request, 1e6)
        assert built.search.find(app, request, 1e6) == again
        assert built.search.work >= worked >= 0


@pytest.mark.worlds(one_in=2)
def test_a_search_with_few_steps_finds_legal_plans(part: range) -> None:
    """With few steps a legal plan is found nearly as often as with many."""
    exact = greedy = 0
    for seed in part:
        cluster = Drawing(seed).cluster()
        built, tried = build(cluster), BruteForce(cluster, cluster.requests[-1])
        app, request = built.request(ASK)
        found = built.search.find(app, request, cluster.now, steps=1)
        best = built.search.find(app, request, cluster.now, steps=ENDLESS)
        exact += isinstance(best, list)
        if isinstance(found, list):
            assert isinstance(best, list)
            assert found[0].score_upto(found[0].start) >= best[0].score_upto(best[0].start)
            greedy += 1
            for plan in found:
                _check_minimal(cluster, tried, plan)
    assert greedy > 0.8 * exact


def _check_minimal(cluster: Cluster, tried: BruteForce, plan: VictimPlan) -> None:
    """Check that a plan is legal and sufficient, and insufficient without any one of its victims."""
    (node,) = [one for one in cluster.nodes if one.name == plan.node.node_id]
    keys = {victim.request.key for victim in plan.victims}
    gone = tuple(one for one in tried.rules.candidates if one.first.key in keys)
    assert len(gone) == len(plan.victims)
    assert tried.is_legal(gone)
    assert tried.is_enough(node, gone)
    for spared in gone:
        assert not tried.is_enough(node, tuple(one for one in gone if one is not spared))


def test_equal_victims_are_ordered_by_key() -> None:
    """The order in which equal allocations and nodes are given does not change the result."""
    for seed in range(60):
        cluster = Drawing(seed).cluster()
        backwards = replace(cluster, requests=cluster.requests[::-1], nodes=cluster.nodes[::-1])
        assert shown(asking.search(backwards, ASK)) == shown(asking.search(cluster, ASK))


def _among(tried: BruteForce, parties: Sequence[Party]) -> list[Party]:
    """The candidates with the same members and step as one of these parties."""
    wanted = [(party.members, party.step) for party in parties]
    return [one for one in tried.rules.candidates if (one.members, one.step) in wanted]


def _some(parties: list[Party], random: Random) -> list[Party]:
    found: list[Party] = []
    for one in random.sample(parties, random.randint(0, min(3, len(parties)))):
        if all(member not in members_of(found) for member in one.members):
            found.append(one)
    return found


def _victims(built: Built, records: Sequence[RequestRecord]) -> tuple[Victim, ...]:
    found = []
    for record in records:
        app, request = built.request(record.key)
        assert request.allocation is not None
        found.append(Victim(app, request, built.nodes.by_id[request.allocation.node_id]))
    return tuple(found)


def _books(built: Built) -> list[object]:
    queues = [(q.path, dict(q.allocated), dict(q.preempting), dict(q.promised)) for q in built.tree.walk()]
    nodes = [
        (n.node_id, dict(n.allocated), dict(n.available), n.version, list(n.reservations))
        for n in built.nodes.by_id.values()
    ]
    requests = [
        (request.key, request.state, request.triggered)
        for app in built.applications.values()
        for request in app.requests.values()
    ]
    return [queues, nodes, requests]


# Data cached between searches


@pytest.mark.worlds(one_in=2)
@pytest.mark.parametrize("first_nodes", [0, 1, 32])
def test_a_cached_search_equals_a_new_one(part: range, first_nodes: int) -> None:
    """After any additions, removals, resizes and stops, a cached search equals a new one."""
    plans = 0
    for seed in part:
        built = build(Drawing(seed, 14).cluster(), first_nodes)
        app, request = built.request(ASK)
        changing = Changing(built, Random(seed))
        for _ in range(12):
            changing.change()
            fresh = PreemptionSearch(
                built.tree.root, built.nodes, built.applications, built.reserved, built.losses, part=PART
            )
            for most in (1, 3):
                wanted = fresh.find(app, request, NOW, most=most, steps=ENDLESS)
                found = built.search.find(app, request, NOW, most=most, steps=ENDLESS)
                assert found == wanted, f"seed {seed}"
                built.search.check()
                plans += isinstance(wanted, list)
    assert plans > 0


@pytest.mark.worlds(one_in=4)
def test_a_leaf_lists_its_candidates_in_order(part: range, monkeypatch: pytest.MonkeyPatch) -> None:
    """After any bookings, resizes and ends, each candidate is listed once, youngest first."""
    monkeypatch.setattr("licorne_core.standard.preemption.victims.MOST_ENDED", 2)
    went = 0
    for seed in part:
        built = build(Drawing(seed, 14).cluster())
        changing = Changing(built, Random(seed))
        index = VictimIndex(built.nodes, built.applications, built.reserved, built.losses)
        for _ in range(24):
            changing.change()
            for leaf in built.tree.leaves():
                fresh = [one for app in leaf.applications.values() for one in app.requests.values()]
                there = sorted(age_of(one) for one in fresh if one.state in MAY_GO)
                kept = index.leaf(leaf)
                assert [one.age for one in kept.order if one.may_go] == there, f"seed {seed}"
                went += len(kept.order) - len(there)
    assert went > 0


@pytest.mark.parametrize("nodes", [50, 400])
def test_a_repeated_search_examines_only_changed_nodes(nodes: int) -> None:
    """After the change of one node, the cost of another search is small for any number of nodes."""
    built = build(full(nodes, spare=4))
    app, request = built.request(f"{A}-w1")
    assert isinstance(built.search.find(app, request, NOW, most=1), list)
    before = built.search.work
    built.nodes.changed.note(built.nodes.by_id[NodeId("n007")])
    assert isinstance(built.search.find(app, request, NOW, most=1), list)
    assert 0 < built.search.work - before < 50


@pytest.mark.parametrize("nodes", [50, 400])
def test_a_repeated_failure_examines_only_changed_nodes(nodes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed search no node is examined again unless it has changed."""
    monkeypatch.setattr(search, "MOST_COUNTED", 10)
    built = build(full(nodes, spare=1))
    app, request = built.request(f"{A}-w1")
    built.search.find(app, request, NOW, most=1)
    before = built.search.work
    found = built.search.find(app, request, NOW, most=1)
    assert isinstance(found, SearchRefusal)
    assert found.law is Law.NOT_ENOUGH
    assert 0 < built.search.work - before < 50


def full(nodes: int, spare: int) -> Cluster:
    """Nodes filled by queue B, which may lose `spare` cores, and an ask of A that needs two victims."""
    names = [f"n{number:03}" for number in range(nodes)]
    return cluster(
        [queue(A, {"vcore": 4}), queue(B, {"vcore": 2 * nodes - spare})],
        *[runs(B, 2 * number, 2 * number + 1, node=name) for number, name in enumerate(names)],
        waits(A, 1, vcore=2),
        nodes=tuple(NodeRecord(name=name, capacity={"vcore": 2}) for name in names),
    )


# The counted work, which limits the length of a turn


WIDE = 320


def wide(guaranteed: int, *, asked: int = 1) -> Cluster:
    """An ask of A for `asked` cores, and many nodes filled by B, which has this guarantee."""
    names = [f"n{number:03}" for number in range(WIDE)]
    return cluster(
        [queue(A, {"vcore": 4}), queue(B, {"vcore": guaranteed})],
        *[runs(B, number, node=name, priority=9) for number, name in enumerate(names)],
        waits(A, 1, vcore=asked),
        nodes=tuple(NodeRecord(name=name, capacity={"vcore": 1}) for name in names),
    )


def worked(scene: Cluster) -> tuple[Law, int]:
    """The law by which a second search fails, and the work of that search."""
    built = build(scene)
    app, request = built.request(f"{A}-w1")
    built.search.find(app, request, NOW)
    before = built.search.work
    found = built.search.find(app, request, NOW)
    assert isinstance(found, SearchRefusal)
    return found.law, built.search.work - before


def test_examined_nodes_without_permitted_victims_count_in_the_cost() -> None:
    """Each examined node counts as work, even if it has no legal victim."""
    law, work = worked(wide(1))
    assert law is Law.NO_VICTIMS
    assert work >= WIDE


def test_examined_nodes_that_are_too_small_count_in_the_cost() -> None:
    """Each node that is examined before the search fails counts as work."""
    law, work = worked(wide(1, asked=2))
    assert law is Law.NO_NODE
    assert work >= WIDE


def test_few_nodes_are_examined_if_no_leaf_has_victims() -> None:
    """If no leaf has more than its guarantee, only few nodes are examined."""
    law, work = worked(wide(WIDE))
    assert law is Law.NO_VICTIMS
    assert 2 <= work < WIDE // 4


# By cost: victims with the least lost work


def loses(*jobs: tuple[str, int, float], asked: int, nodes: int = 1) -> list[str]:
    """The victims for an ask of `asked` cores, among jobs given by node, cores, and lost seconds."""
    running = [
        one
        for number, (name, size, lost) in enumerate(jobs)
        for one in runs(B, number, node=name, vcore=size, checkpoint=NOW - lost)
    ]
    names = [f"n{number}" for number in range(nodes)]
    sizes = [sum(size for there, size, _ in jobs if there == name) for name in names]
    world = cluster(
        [queue(A, {"vcore": 99}, preemption_victim_order=VictimOrder.COST), queue(B)],
        running,
        waits(A, 1, vcore=asked),
        nodes=tuple(
            NodeRecord(name=n, capacity={"vcore": size}) for n, size in zip(names, sizes, strict=True)
        ),
    )
    found = asking.search(replace(world, now=NOW), f"{A}-w1")
    assert isinstance(found, list)
    return asking.keys(found[0].victims)


def test_costs_are_compared_over_all_nodes() -> None:
    """The victim that loses 1 s is chosen, although a node with a larger loss is first in order."""
    assert loses(("n0", 2, 10), ("n1", 2, 1), asked=2, nodes=2) == [f"{B}-1"]


def test_the_cost_is_the_amount_times_the_seconds() -> None:
    """One core for 3 s costs less than three cores for 2 s."""
    assert loses(("n0", 3, 2), ("n0", 1, 3), asked=1) == [f"{B}-1"]


def test_more_victims_are_stopped_if_they_lose_less() -> None:
    """Two victims of one core that lose 1 s each are stopped instead of one of two cores that loses 10 s."""
    assert loses(("n0", 2, 10), ("n0", 1, 1), ("n0", 1, 1), asked=2) == [f"{B}-2", f"{B}-1"]


def test_of_equal_costs_the_fewest_victims_are_stopped() -> None:
    """Two victims of one core that lose 1 s cost as much as one of two cores: only this one is stopped."""
    assert loses(("n0", 1, 1), ("n0", 1, 1), ("n0", 2, 1), asked=2) == [f"{B}-2"]


@pytest.mark.parametrize("seed", range(10))
def test_the_loss_is_close_to_that_of_the_cheapest_legal_choice(seed: int) -> None:
    """With a dozen jobs on each of six nodes, the loss is at most 1.05 times the smallest legal loss."""
    random = Random(seed)
    jobs = [
        (f"n{number % 6}", random.randint(1, 4), float(random.randint(1, 600))) for number in range(6 * 12)
    ]
    asked = random.randint(3, 9)
    gone = loses(*jobs, asked=asked, nodes=6)
    lost = sum(jobs[int(key.rpartition("-")[2])][1] * jobs[int(key.rpartition("-")[2])][2] for key in gone)
    least = min(
        _cheapest([(size, size * seconds) for name, size, seconds in jobs if name == there], asked)
        for there in {name for name, _, _ in jobs}
    )
    assert lost <= 1.05 * least


def _cheapest(jobs: list[tuple[int, float]], asked: int) -> float:
    """The least total loss of jobs, given as (size, loss), whose sizes add up to at least `asked`."""
    best = [0.0, *[float("inf")] * asked]
    for size, loss in jobs:
        best = [min(best[have], best[max(0, have - size)] + loss) for have in range(asked + 1)]
    return best[asked]
