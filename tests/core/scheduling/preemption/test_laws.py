"""Each law of preemption, judged from outside by sums over what runs before and after."""

import pytest

from licorne_core.config.schema import PreemptionPolicy
from licorne_core.model.apps.requests import RequestState
from licorne_core.scheduling.preemption import Law, Plan
from support.preemption.asking import carried_out, keys, search
from support.preemption.drawing import ASK, Drawing
from support.preemption.records import Cluster, RequestRecord, lineage

RUNNING = 60
"""Allocations in a cluster: too many to try everything."""

pytestmark = pytest.mark.worlds(one_in=2)


def cases(part: range) -> list[tuple[Cluster, RequestRecord, Plan, list[RequestRecord]]]:
    """Clusters, their asks, the plans that are found for them, and the victims."""
    found = []
    for seed in part:
        cluster = Drawing(seed, RUNNING).cluster()
        plans = search(cluster, ASK, steps=2000, most=3)
        for plan in [] if isinstance(plans, Law) else plans:
            going = set(keys(plan.victims))
            gone = [one for one in cluster.requests if one.key in going]
            found.append((cluster, cluster.requests[-1], plan, gone))
    assert found
    return found


def apart(leaf: str, ask: RequestRecord) -> list[str]:
    """The queues of a victim that are not the ask's as well."""
    return [path for path in lineage(leaf) if path not in lineage(ask.leaf)]


def due(cluster: Cluster, path: str) -> dict[str, int]:
    """What a queue is guaranteed, zeros left out."""
    return {k: v for k, v in (cluster.queue(path).guaranteed or {}).items() if v}


def test_no_queue_is_left_below_its_guarantee(part: range) -> None:
    """Law 2: afterwards, the victims' queues still have what they are guaranteed."""
    for cluster, ask, plan, gone in cases(part):
        after = carried_out(cluster, ASK, plan)
        for victim in gone:
            for path in apart(victim.leaf, ask):
                for name, least in due(cluster, path).items():
                    if name in victim.size:
                        assert after.settled(path, name) >= least


def test_no_victim_in_the_same_queue(part: range) -> None:
    """Law 3: neither the ask's application nor its queue loses anything."""
    for cluster, ask, plan, gone in cases(part):
        assert all(one.app != ask.app and one.leaf != ask.leaf for one in gone)
        after = carried_out(cluster, ASK, plan)
        for name, wanted in ask.size.items():
            assert after.settled(ask.leaf, name) == cluster.settled(ask.leaf, name) + wanted


def test_only_who_stays_within_its_guarantee_takes(part: range) -> None:
    """Law 4: with the ask, the lowest queue that guarantees it something has no more than that."""
    for cluster, ask, plan, _ in cases(part):
        after = carried_out(cluster, ASK, plan)
        entitled = next(p for p in lineage(ask.leaf) if due(cluster, p).keys() & ask.size.keys())
        for name, most in due(cluster, entitled).items():
            if name in ask.size:
                assert after.settled(entitled, name) <= most


def test_only_who_is_above_its_guarantee_gives(part: range) -> None:
    """Law 5: every queue that guarantees something loses of a type of which it has more."""
    for cluster, ask, _, gone in cases(part):
        for victim in gone:
            queues = [path for path in apart(victim.leaf, ask) if due(cluster, path)]
            if queues:
                assert any(
                    all(
                        cluster.settled(path, name) > due(cluster, path)[name]
                        for path in queues
                        if name in due(cluster, path)
                    )
                    for name in ask.size
                    if any(name in due(cluster, path) for path in queues)
                )


def test_victims_have_no_higher_priority(part: range) -> None:
    """Law 6: where no queue changes priorities, no victim's is above the ask's."""
    for cluster, ask, _, gone in cases(part):
        settings = [queue.settings for queue in cluster.queues]
        if not any(each.priority_fence or each.priority_offset for each in settings):
            assert all(victim.priority <= ask.priority for victim in gone)


def test_nothing_goes_outside_the_fence(part: range) -> None:
    """Law 7: an ask inside a fence has its victims there, and a disabled queue gives nothing."""
    for cluster, ask, _, gone in cases(part):
        for path in lineage(ask.leaf):
            if cluster.queue(path).settings.preemption is PreemptionPolicy.FENCE:
                assert all(path in lineage(victim.leaf) for victim in gone)
        for victim in gone:
            policy = cluster.queue(victim.leaf).settings.preemption
            assert policy is not PreemptionPolicy.DISABLED


def test_the_ask_fits_afterwards(part: range) -> None:
    """Node and maxima have room for the ask, and nobody goes who had to stay or goes already."""
    for cluster, ask, plan, gone in cases(part):
        after = carried_out(cluster, ASK, plan)
        (node,) = [one for one in cluster.nodes if one.name == plan.node.node_id]
        assert node.schedulable
        for name in ask.size:
            assert after.free(node, name) >= 0
            for path in lineage(ask.leaf):
                most = after.most(path, name)
                assert most is None or after.settled(path, name) <= most
        for victim in gone:
            assert victim.state in (RequestState.ALLOCATED, RequestState.PLACEHOLDER)
            assert victim.required_node is None
