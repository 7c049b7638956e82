"""The worlds of the scenarios about preemption.

In each of them the *lender* is a queue that has more than its guarantee. Its allocations let
themselves be preempted, and all are of one size, the unit.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import cycle, islice
from typing import Any

import yaml

from licorne.si.v1.si_pb2 import AddApplicationRequest, Allocation, NodeInfo, PreemptionPolicy
from licorne_tools.bench import workload
from licorne_tools.bench.scenarios import Scenario

Size = tuple[int, int]
"""Milli-cores and bytes."""

LENDER, GREEDY = "lender", "greedy"
LENDER_APPS = 10
# How soon an ask may preempt others: at once, for all that matters here.
AT_ONCE = "1ms"
# The victims that each claim of a full cluster needs, and what a node holds at least.
VICTIMS, FEWEST_HELD = 2, 10
# In a storm: what a node holds, what the greedy ask lacks there, and what the lender may lose.
LENT, LACKING, SPARE = 8, 4, 3


def full_configuration(scenario: Scenario) -> str:
    """A lender without a guarantee, and leaves that are guaranteed all that they claim."""
    due = times(claim(), scenario.apps * scenario.asks)
    return configuration([leaf(LENDER), *(leaf(name, due) for name in workload.queue_names(scenario))])


def full_nodes(scenario: Scenario) -> Iterator[NodeInfo]:
    """Nodes that the lender fills."""
    return workload.nodes(scenario, full_at=held(scenario))


def held(scenario: Scenario) -> int:
    """How many allocations of the lender a full node holds: twice those that have to go."""
    return max(FEWEST_HELD, 2 * VICTIMS * scenario.pods_per_node)


def claims(scenario: Scenario) -> Iterator[Allocation]:
    """The asks that others have to make way for."""
    return claiming(workload.asks(scenario, sizes=(claim(),)))


def claim() -> Size:
    """The size of one of them."""
    return times(workload.LARGEST, VICTIMS)


def storm_configuration(scenario: Scenario) -> str:
    """A lender that may lose less than the greedy ask lacks on any node; leaves for the asks."""
    kept = times(room(scenario), LENT * scenario.nodes - SPARE)
    leaves = [leaf(LENDER, kept), leaf(GREEDY, greed(scenario))]
    return configuration([*leaves, *map(leaf, workload.queue_names(scenario))])


def storm_nodes(scenario: Scenario) -> Iterator[NodeInfo]:
    """Nodes with room for what the lender has there, and for twice their share of the asks."""
    capacity = workload.resource(*times(room(scenario), LENT + 1))
    for number in range(scenario.nodes):
        name = workload.node_name(number)
        yield NodeInfo(nodeID=name, action=NodeInfo.CREATE, schedulableResource=capacity)


def room(scenario: Scenario) -> Size:
    """What the lender leaves free on each node of a storm; its allocations are as large."""
    return times(workload.LARGEST, 2 * scenario.pods_per_node)


def greed(scenario: Scenario) -> Size:
    """The size of the greedy ask."""
    return times(room(scenario), LACKING + 1)


def greedy_ask(scenario: Scenario) -> Iterator[Allocation]:
    """The ask that preemption cannot help."""
    ask = Allocation(
        allocationKey=GREEDY,
        applicationID=GREEDY,
        resourcePerAlloc=workload.resource(*greed(scenario)),
    )
    return claiming([ask])


def lender_applications() -> Iterator[AddApplicationRequest]:
    """The applications of the lender."""
    return (workload.application(LENDER, name) for name in lender_names())


def lender_names() -> list[str]:
    """Their ids."""
    return [f"{LENDER}-{number}" for number in range(LENDER_APPS)]


def lent(count: int, unit: Size) -> Iterator[Allocation]:
    """So many asks of the lender."""
    size, policy = workload.resource(*unit), PreemptionPolicy(allowPreemptSelf=True)
    for number, app in enumerate(islice(cycle(lender_names()), count)):
        yield Allocation(
            allocationKey=f"{app}-{number:06}",
            applicationID=app,
            resourcePerAlloc=size,
            preemptionPolicy=policy,
        )


def claiming(asks: Iterable[Allocation]) -> Iterator[Allocation]:
    """The asks, allowed to preempt others."""
    for ask in asks:
        ask.preemptionPolicy.allowPreemptOther = True
        yield ask


def leaf(name: str, guaranteed: Size | None = None) -> dict[str, Any]:
    """A leaf of the configuration."""
    made: dict[str, Any] = {"name": name, "properties": {"preemption.delay": AT_ONCE}}
    if guaranteed is not None:
        vcore, memory = guaranteed
        made["resources"] = {"guaranteed": {"vcore": f"{vcore}m", "memory": f"{memory}"}}
    return made


def configuration(leaves: Iterable[Mapping[str, Any]]) -> str:
    """These leaves below root, open to everybody."""
    root = {"name": "root", "submitacl": "*", "queues": list(leaves)}
    text: str = yaml.safe_dump({"partitions": [{"name": "default", "queues": [root]}]})
    return text


def times(size: Size, number: int) -> Size:
    """A size so many times."""
    vcore, memory = size
    return vcore * number, memory * number
