"""The messages of a scenario: configuration, nodes, applications, and serialized asks."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    Allocation,
    AllocationRelease,
    AllocationReleasesRequest,
    AllocationRequest,
    NodeInfo,
    Quantity,
    Resource,
    TerminationType,
    UserGroupInformation,
)
from licorne.v1.session_pb2 import UpdateRequest
from licorne_tools.bench.scenarios import Scenario

T = TypeVar("T")
MI = 1024 * 1024
# Two sizes of asks in milli-cores and bytes, so that asks are not all equal.
SIZES = ((100, 128 * MI), (200, 512 * MI))
LARGEST = SIZES[-1]
# The minimum capacity of a node; some scenarios need more.
NODE_VCORE, NODE_MEMORY = 32_000, 128 * 1024 * MI
UNPLACEABLE = 100
APPS_AHEAD = 10
USERS = 1000
"""Number of users, who own the applications in turn; each has a limit that is never reached."""
LIMIT = {"memory": "1Pi", "vcore": "100M"}
HIGH_PRIORITY = 10
PREDICATE_CLASS = {"licorne/predicate-class": "bench"}


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of length `size`; the last list may be shorter."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def resource(vcore: int, memory: int) -> Resource:
    """Milli-cores and bytes as a message."""
    return Resource(resources={"vcore": Quantity(value=vcore), "memory": Quantity(value=memory)})


def configuration(scenario: Scenario) -> str:
    """One leaf per queue of the scenario, below root, open to everybody, with limits for users."""
    leaves = [
        {"name": queue, "properties": {"application.sort.policy": scenario.sort}}
        for queue in queue_names(scenario)
    ]
    everybody = {
        "limit": "each user",
        "users": [user_name(number) for number in range(USERS)],
        "maxresources": LIMIT,
        "maxapplications": 1_000_000,
    }
    return config(leaves, limits=[everybody])


def config(
    queues: Sequence[Mapping[str, Any]],
    *,
    limits: Sequence[Mapping[str, Any]] = (),
    rules: Sequence[Mapping[str, Any]] = (),
    partitions: Sequence[str] = ("default",),
    properties: Mapping[str, str] | None = None,
) -> str:
    """A configuration with these queues below root, open to all users.

    `limits` and `properties` are for root, `rules` are placement rules. All partitions are equal.
    """
    open_root: dict[str, Any] = {"name": "root", "submitacl": "*", "properties": properties or {}}
    root = {**open_root, "queues": queues, "limits": limits}
    # Any JSON is valid YAML, and JSON is written much faster.
    return json.dumps(
        {"partitions": [{"name": name, "queues": [root], "placementrules": rules} for name in partitions]}
    )


def queue_names(scenario: Scenario) -> list[str]:
    """The names of the leaves."""
    return [f"q{number:04}" for number in range(scenario.queues)]


def nodes(
    scenario: Scenario,
    *,
    action: NodeInfo.ActionFromRM.ValueType = NodeInfo.CREATE,
    full_at: int = 0,
) -> Iterator[NodeInfo]:
    """The nodes: large enough for all asks, or full with `full_at` asks of the larger size.

    Half an ask's resources remain free on a full node. Therefore the nodes block the next ask, not the
    maximum of root.
    """
    vcore, memory = LARGEST
    if full_at:
        capacity = resource(vcore * full_at + vcore // 2, memory * full_at + memory // 2)
    else:
        room = 2 * scenario.pods_per_node
        capacity = resource(max(NODE_VCORE, vcore * room), max(NODE_MEMORY, memory * room))
    for number in range(scenario.nodes):
        name = node_name(number)
        yield NodeInfo(
            nodeID=name,
            action=action,
            attributes={"si/hostname": name},
            schedulableResource=capacity,
        )


def node_name(number: int) -> str:
    """The id of the node with this number."""
    return f"node-{number:05}"


def refused_nodes(scenario: Scenario) -> frozenset[str]:
    """The ids of the nodes that the RM refuses."""
    refuses = scenario.asking.refuses
    return frozenset(node_name(number) for number in range(scenario.nodes) if refuses(number))


def app_names(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Queue and id of every application."""
    for queue in queue_names(scenario):
        for number in range(scenario.apps):
            yield queue, f"app-{queue}-{number:04}"


def user_name(number: int) -> str:
    """The name of the user with this number; numbers from `USERS` on repeat the users."""
    return f"user-{number % USERS:04}"


def application(queue: str, name: str, number: int = 0) -> AddApplicationRequest:
    """An application of the user with this number."""
    user = user_name(number)
    return AddApplicationRequest(
        applicationID=name,
        queueName=f"root.{queue}",
        ugi=UserGroupInformation(user=user, groups=[user]),
    )


def applications(scenario: Scenario) -> Iterator[AddApplicationRequest]:
    """All applications of the scenario."""
    names = enumerate(app_names(scenario))
    return (application(queue, name, number) for number, (queue, name) in names)


def asks(
    scenario: Scenario,
    *,
    sizes: tuple[tuple[int, int], ...] = SIZES,
    tags: Mapping[str, str] | None = None,
) -> Iterator[Allocation]:
    """All asks; they alternate between the applications and between the sizes."""
    resources = [resource(vcore, memory) for vcore, memory in sizes]
    apps = [name for _, name in app_names(scenario)]
    for number in range(scenario.asks):
        for name in apps:
            yield Allocation(
                allocationKey=f"{name}-{number:06}",
                applicationID=name,
                resourcePerAlloc=resources[number % len(resources)],
                allocationTags=tags,
            )


def ahead_names() -> list[str]:
    """The ids of the applications that are ahead of all others, and whose asks are never placed."""
    return [f"ahead-{number}" for number in range(APPS_AHEAD)]


def unplaceable(app: str) -> Iterator[Allocation]:
    """Asks larger than any node, each of a different size: half in `app`, half in the applications ahead."""
    ahead = ahead_names()
    for number in range(UNPLACEABLE):
        name = app if number % 2 else ahead[number // 2 % len(ahead)]
        yield Allocation(
            allocationKey=f"{name}-unplaceable-{number:03}",
            applicationID=name,
            priority=HIGH_PRIORITY,
            resourcePerAlloc=resource(2 * NODE_VCORE + number, MI),
        )


def requests(rm_id: str, items: Iterable[Allocation], batch: int) -> list[bytes]:
    """Asks as si.v1 messages, created before the measurement."""
    return [
        AllocationRequest(rmID=rm_id, allocations=some).SerializeToString() for some in batched(items, batch)
    ]


def session_requests(items: Iterable[Allocation], batch: int) -> list[bytes]:
    """Asks as messages of a session, without their numbers."""
    return [
        UpdateRequest(allocations=AllocationRequest(allocations=some)).SerializeToString()
        for some in batched(items, batch)
    ]


def releases(
    rm_id: str,
    items: Iterable[Allocation | AllocationRelease],
    why: TerminationType.ValueType = TerminationType.STOPPED_BY_RM,
) -> bytes:
    """The message that releases allocations, or confirms their release."""
    released = [
        AllocationRelease(
            applicationID=item.applicationID,
            allocationKey=item.allocationKey,
            partitionName=item.partitionName,
            terminationType=why,
        )
        for item in items
    ]
    request = AllocationReleasesRequest(allocationsToRelease=released)
    return AllocationRequest(rmID=rm_id, releases=request).SerializeToString()
