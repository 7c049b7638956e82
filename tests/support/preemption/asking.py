"""Searching in clusters of records, and what becomes of them when a plan is carried out."""

from dataclasses import replace

from licorne_core.model.apps.requests import RequestState
from licorne_core.scheduling.preemption import Law, Plan, Refusal, Victim
from support.preemption.brute_force import BrutePlan
from support.preemption.building import build
from support.preemption.records import Cluster

ENDLESS = 10**9
"""More what-if steps than any small cluster needs."""


def search(
    cluster: Cluster, key: str, *, steps: int = ENDLESS, most: int = 1, glance: int = 32
) -> list[Plan] | Law:
    """What the core finds for a pending request; of a refusal the law only."""
    built = build(cluster, glance)
    app, request = built.request(key)
    found = built.search.find(app, request, cluster.now, steps=steps, most=most)
    return found.law if isinstance(found, Refusal) else found


def refusal(cluster: Cluster, key: str) -> Refusal:
    """Why the core finds nothing for a pending request."""
    built = build(cluster)
    app, request = built.request(key)
    found = built.search.find(app, request, cluster.now)
    assert isinstance(found, Refusal), found
    return found


def plans(cluster: Cluster, key: str, *, most: int = 1) -> list[Plan]:
    """The plans that the core finds for a pending request; there is one at least."""
    found = search(cluster, key, most=most)
    assert isinstance(found, list), found
    return found


def victims(cluster: Cluster, key: str) -> list[str] | Law:
    """The keys of the victims of the best plan, or the law in the way."""
    found = search(cluster, key)
    return found if isinstance(found, Law) else keys(found[0].victims)


def keys(victims: tuple[Victim, ...]) -> list[str]:
    """The keys of victims, in order."""
    return [victim.request.key for victim in victims]


def shown(found: list[Plan] | Law) -> list[BrutePlan] | Law:
    """Plans as brute force shows them."""
    if isinstance(found, Law):
        return found
    return [
        BrutePlan(plan.node.node_id, tuple(keys(plan.on_node)), tuple(keys(plan.other_nodes)))
        for plan in found
    ]


def carried_out(cluster: Cluster, key: str, plan: Plan) -> Cluster:
    """The cluster once the victims are gone and the request is placed."""
    gone = set(keys(plan.victims))
    placed = [
        replace(
            one,
            state=RequestState.ALLOCATED,
            node=plan.node.node_id,
            started=cluster.now,
            hold=None,
        )
        if one.key == key
        else one
        for one in cluster.requests
        if one.key not in gone
    ]
    return replace(cluster, requests=tuple(placed))


def served(cluster: Cluster, asks: list[str]) -> Cluster:
    """The cluster after all plans that are found for these requests, one after the other."""
    for key in asks:
        found = search(cluster, key)
        if not isinstance(found, Law):
            cluster = carried_out(cluster, key, found[0])
    return cluster
