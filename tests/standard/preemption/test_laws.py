"""Laws of preemption, checked by sums over the allocations before and after."""

from typing import NamedTuple

import pytest

from licorne_core.config.schema import PreemptionPolicy
from licorne_core.model.apps.requests import RequestState
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.planning import VictimPlan
from support.preemption.asking import carried_out, keys, search
from support.preemption.drawing import ASK, Drawing
from support.preemption.records import Cluster, RequestRecord, lineage

RUNNING = 60
"""The number of allocations in a cluster, too many for an exhaustive search."""


class Case(NamedTuple):
    """A cluster before and after a plan for its last request, which is the preempting ask."""

    before: Cluster
    after: Cluster
    ask: RequestRecord
    plan: VictimPlan
    victims: list[RequestRecord]


def apart(leaf: str, ask: RequestRecord) -> list[str]:
    """The paths of the victim's leaf and its ancestors, without common ancestors with the ask."""
    return [path for path in lineage(leaf) if path not in lineage(ask.leaf)]


def due(cluster: Cluster, path: str) -> dict[str, int]:
    """The guarantee of a queue, without zeros."""
    return {k: v for k, v in (cluster.queue(path).guaranteed or {}).items() if v}


def law_2(case: Case) -> None:
    """Queues of victims keep their guarantees."""
    for victim in case.victims:
        for path in apart(victim.leaf, case.ask):
            for name, least in due(case.before, path).items():
                if name in victim.size:
                    assert case.after.settled(path, name) >= least


def law_3(case: Case) -> None:
    """Neither the application nor the leaf of the ask loses an allocation."""
    ask = case.ask
    assert all(one.app != ask.app and one.leaf != ask.leaf for one in case.victims)
    for name, wanted in ask.size.items():
        assert case.after.settled(ask.leaf, name) == case.before.settled(ask.leaf, name) + wanted


def law_4(case: Case) -> None:
    """The lowest queue that guarantees a type of the ask stays within its guarantee with the ask."""
    ask, cluster = case.ask, case.before
    entitled = next(p for p in lineage(ask.leaf) if due(cluster, p).keys() & ask.size.keys())
    for name, most in due(cluster, entitled).items():
        if name in ask.size:
            assert case.after.settled(entitled, name) <= most


def law_5(case: Case) -> None:
    """For every victim, some type of the ask exceeds each guarantee of that type in the victim's queues."""
    cluster = case.before
    for victim in case.victims:
        queues = [path for path in apart(victim.leaf, case.ask) if due(cluster, path)]
        if queues:
            assert any(
                all(
                    cluster.settled(path, name) > due(cluster, path)[name]
                    for path in queues
                    if name in due(cluster, path)
                )
                for name in case.ask.size
                if any(name in due(cluster, path) for path in queues)
            )


def law_6(case: Case) -> None:
    """Without offsets and fences, no victim has a higher priority than the ask."""
    settings = [queue.settings for queue in case.before.queues]
    if not any(each.priority_fence or each.priority_offset for each in settings):
        assert all(victim.priority <= case.ask.priority for victim in case.victims)


def law_7(case: Case) -> None:
    """Victims are inside the ask's fence, and never in a disabled queue."""
    for path in lineage(case.ask.leaf):
        if case.before.queue(path).settings.preemption is PreemptionPolicy.FENCE:
            assert all(path in lineage(victim.leaf) for victim in case.victims)
    for victim in case.victims:
        assert case.before.queue(victim.leaf).settings.preemption is not PreemptionPolicy.DISABLED


def is_enough(case: Case) -> None:
    """After the plan, node and maxima have room for the ask; no victim was stopping or required its node."""
    after = case.after
    (node,) = [one for one in case.before.nodes if one.name == case.plan.node.node_id]
    assert node.schedulable
    for name in case.ask.size:
        assert after.free(node, name) >= 0
        for path in lineage(case.ask.leaf):
            most = after.most(path, name)
            assert most is None or after.settled(path, name) <= most
    for victim in case.victims:
        assert victim.state in (RequestState.ALLOCATED, RequestState.PLACEHOLDER)
        assert victim.required_node is None


@pytest.mark.worlds(one_in=2)
def test_every_plan_keeps_all_laws(part: range) -> None:
    """Plans for random clusters keep all laws, even if the search has used up its steps."""
    plans = 0
    for seed in part:
        cluster = Drawing(seed, RUNNING).cluster()
        found = search(cluster, ASK, steps=2000, most=3)
        for plan in [] if isinstance(found, Law) else found:
            going = set(keys(plan.victims))
            victims = [one for one in cluster.requests if one.key in going]
            after = carried_out(cluster, ASK, plan)
            case = Case(cluster, after, cluster.requests[-1], plan, victims)
            for check in (law_2, law_3, law_4, law_5, law_6, law_7, is_enough):
                check(case)
            plans += 1
    assert plans > 0
