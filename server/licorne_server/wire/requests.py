"""Converts messages of `si.v1` to commands (spec §§ 1.2, 1.6), item by item; caps are checked first.

An item that exceeds a cap or cannot be read becomes a rejection with its reason; the other items are
processed. Checks of the core, such as unknown applications and negative amounts, are not repeated here. The
core never sees protobuf.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import Generic, NamedTuple, TypeVar

import structlog

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.commands import (
    Command,
    NewApplication,
    NodeAction,
    NodeUpdate,
    RegisterRm,
    ReleaseRequest,
    RemoveApplication,
    TerminationType,
    UpdateAllocations,
    UpdateApplications,
    UpdateNodes,
)
from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsRejected,
    ApplicationRejection,
    ApplicationsAnswered,
    Effect,
    NodeRejection,
    NodesAnswered,
)
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId, UserGroup
from licorne_server.wire.asks import ASK, AskReader, read_resources
from licorne_server.wire.caps import (
    MAX_ANNOTATION,
    MAX_APPLICATION_TAGS,
    MAX_CONFIG_BYTES,
    MAX_GROUPS,
    MAX_ID,
    MAX_QUEUE_PATH,
    bytes_of,
    extra_problem,
    id_problem,
    map_problem,
    rm_id_problem,
    size_problem,
    tags_problem,
    text_problem,
)
from licorne_server.wire.errors import invalid_argument
from licorne_server.wire.framing import (
    ALLOCATION_REQUEST,
    APPLICATION_REQUEST,
    NODE_REQUEST,
    PART,
    Pace,
    Split,
)
from licorne_server.wire.framing import Layout as RequestLayout
from licorne_server.wire.items import (
    SMALL,
    BadItem,
    Large,
    Layout,
    check,
    names_of,
    parse,
    read_texts,
    take_apart,
    without_entries,
)
from licorne_server.wire.responses import Kind, runs

log = structlog.get_logger("core.convert_in")

NODE_PARTITION = "si/node-partition"
NODE = Layout(
    "node",
    si.NodeInfo,
    {si.NodeInfo.NODEID_FIELD_NUMBER: MAX_ID},
    texts="attributes",
    nested=(si.NodeInfo.SCHEDULABLERESOURCE_FIELD_NUMBER,),
    counted=si.NodeInfo.NODEID_FIELD_NUMBER,
    meant=frozenset({NODE_PARTITION}),
)
APPLICATION = Layout(
    "application",
    si.AddApplicationRequest,
    {si.AddApplicationRequest.APPLICATIONID_FIELD_NUMBER: MAX_ANNOTATION},
    texts="tags",
    nested=(
        si.AddApplicationRequest.UGI_FIELD_NUMBER,
        si.AddApplicationRequest.PLACEHOLDERASK_FIELD_NUMBER,
    ),
)
REMOVAL = Layout(
    "removal",
    si.RemoveApplicationRequest,
    {si.RemoveApplicationRequest.APPLICATIONID_FIELD_NUMBER: MAX_ANNOTATION},
)
RELEASE = Layout(
    "release",
    si.AllocationRelease,
    {
        si.AllocationRelease.ALLOCATIONKEY_FIELD_NUMBER: MAX_ID,
        si.AllocationRelease.APPLICATIONID_FIELD_NUMBER: MAX_ANNOTATION,
    },
)
REGISTRATION_FAILED = "registration of RM failed: "
_ACTIONS = {
    si.NodeInfo.CREATE: NodeAction.CREATE,
    si.NodeInfo.UPDATE: NodeAction.UPDATE,
    si.NodeInfo.DRAIN_NODE: NodeAction.DRAIN_NODE,
    si.NodeInfo.DECOMISSION: NodeAction.DECOMISSION,
    si.NodeInfo.DRAIN_TO_SCHEDULABLE: NodeAction.DRAIN_TO_SCHEDULABLE,
    si.NodeInfo.CREATE_DRAIN: NodeAction.CREATE_DRAIN,
}
_TERMINATIONS = {kind.value: kind for kind in TerminationType}
_AMOUNTS = attrgetter("ask_class.items")
"""The amounts of an ask."""

COMMAND_BYTES = 256 * 1024
"""Maximum number of bytes of items in one command; a single item may exceed it."""

COMMAND_AMOUNTS = 2_000
"""Maximum number of amounts in the items of one command; a single item may exceed it. Consecutive asks with
the same amounts cost the core little.
"""

_AGAIN = 4
"""Weight of a refused item's bytes, because it is read twice."""

_COST_OF_ADDITION = 5
"""Cost of adding an application, in asks: it passes all placement rules, and may create a queue."""

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Steps:
    """Commands and refusals of one request."""

    steps: list[Command | Effect] = field(default_factory=list)
    """Commands for the core, and answers that need no command, in order."""
    refused: int = 0
    """Number of nodes, applications and asks that were refused before they reached the core."""


class Sort(NamedTuple, Generic[T, R]):
    """Functions that read items of one kind."""

    layout: Layout
    read: Callable[[bytes], T]
    refuse: Callable[[list[str], str], R]
    """Makes a refusal from the names in the item and a reason."""
    read_large: Callable[[Large], T] | None = None
    """Reads a large item; None for items without texts, which are all read by `read`."""
    amounts: Callable[[T], Sized | None] = lambda _: None
    """The amounts of resources in an item; None if there are none."""


async def gather(
    items: Sequence[bytes], batch_size: int, sort: Sort[T, R], pace: Pace
) -> tuple[list[Sequence[T]], list[R]]:
    """Read items; returns the accepted items, grouped by command, and the refusals of other items.

    A command has at most `batch_size` items and `COMMAND_BYTES` bytes. All items are read before the first is
    handled, so a malformed item ends the stream before its request has any effect.
    """
    taken: list[T] = []
    sizes: list[int] = []
    refused: list[R] = []
    share = PART // batch_size
    for raw in items:
        size, names = len(raw), raw
        try:
            if size > SMALL:
                large = await take_apart(raw, sort.layout, pace)
                names = large.head
                if sort.read_large is None:
                    check(large.problem)
                    taken.append(sort.read(large.light))
                else:
                    taken.append(sort.read_large(large))
            else:
                taken.append(sort.read(raw))
            sizes.append(size)
        except BadItem as problem:
            refused.append(sort.refuse(names_of(names, sort.layout.names), str(problem)))
            size *= _AGAIN
        pace.done += size if size > share else share
        if pace.done >= PART:
            await pace.rest()
    if len(taken) == 1:
        return [taken], refused
    return list(_runs(taken, sizes, batch_size, sort.amounts)), refused


def _runs(
    items: Sequence[T],
    sizes: Sequence[int],
    batch_size: int,
    amounts: Callable[[T], Sized | None],
) -> Iterator[Sequence[T]]:
    """The items in order, split into the items of one command each."""
    begin = room = left = 0
    last: Sized | None = None
    for index, item in enumerate(items):
        found = amounts(item)
        count = 0 if found is None or found is last else len(found)
        room -= sizes[index]
        left -= count
        last = found
        if room < 0 or left < 0 or index - begin == batch_size:
            if index:
                yield items[begin:index]
            begin, room, left = index, COMMAND_BYTES - sizes[index], COMMAND_AMOUNTS - count
    if items:
        yield items[begin:]


def registration(wire: si.RegisterResourceManagerRequest) -> RegisterRm:
    """The registration of an RM without its configuration, which the admission parses.

    It lacks the options that only a session can have.

    Raises:
        CallError: INVALID_ARGUMENT, naming the field.
    """
    problems = {
        "rmID": rm_id_problem(wire.rmID),
        "version": text_problem("version", wire.version),
        "policyGroup": text_problem("policyGroup", wire.policyGroup),
        "buildInfo": tags_problem("buildInfo", wire.buildInfo),
        "extraConfig": extra_problem("extraConfig", wire.extraConfig),
        "config": size_problem("config", bytes_of((wire.config,)), MAX_CONFIG_BYTES),
    }
    for name, problem in problems.items():
        if problem:
            raise invalid_argument(REGISTRATION_FAILED + problem, name)
    return RegisterRm(
        rm_id=RmId(wire.rmID),
        version=wire.version,
        policy_group=wire.policyGroup,
        build_info=dict(wire.buildInfo),
        extra_config=dict(wire.extraConfig),
        container_states=False,
    )


async def node_batch(reader: AskReader, split: Split, batch_size: int, pace: Pace) -> Steps:
    """The steps of a NodeRequest."""
    rm_id = reader.rm_id
    nodes, refused = await gather(split.items[1], batch_size, _nodes_of(rm_id), pace)
    result = Steps([UpdateNodes(rm_id=rm_id, nodes=run) for run in nodes], len(refused))
    result.steps += [NodesAnswered(rm_id=rm_id, rejected=run) for run in runs(refused)]
    return result


async def application_batch(reader: AskReader, split: Split, batch_size: int, pace: Pace) -> Steps:
    """The steps of an ApplicationRequest: additions, then removals."""
    rm_id = reader.rm_id
    adds = -(-batch_size // _COST_OF_ADDITION)
    new, refused = await gather(split.items[1], adds, _APPLICATIONS, pace)
    remove, bad_removals = await gather(split.items[2], batch_size, _REMOVALS, pace)
    result = Steps([UpdateApplications(rm_id=rm_id, new=run) for run in new], len(refused))
    result.steps += [ApplicationsAnswered(rm_id=rm_id, rejected=run) for run in runs(refused + bad_removals)]
    result.steps += [UpdateApplications(rm_id=rm_id, remove=run) for run in remove]
    return result


async def allocation_batch(reader: AskReader, split: Split, batch_size: int, pace: Pace) -> Steps:
    """The steps of an AllocationRequest: asks and allocations, then releases."""
    rm_id = reader.rm_id
    result = Steps()
    refused: list[AllocationRejection] = []
    if split.items[4]:
        sort = Sort(ASK, reader.read, _refused_ask, reader.read_large, _AMOUNTS)
        asks, refused = await gather(split.items[4], batch_size, sort, pace)
        result.refused = len(refused)
        for run in asks:
            result.steps.append(UpdateAllocations(rm_id=rm_id, asks=run))
    releases: list[Sequence[ReleaseRequest]] = []
    if split.items[2]:
        releases, bad_releases = await gather(split.items[2], batch_size, _RELEASES, pace)
        refused = refused + bad_releases
    if refused:
        result.steps += [AllocationsRejected(rm_id=rm_id, rejections=run) for run in runs(refused)]
    for some in releases:
        result.steps.append(UpdateAllocations(rm_id=rm_id, releases=some))
    return result


class Request(NamedTuple):
    """One of the requests with items."""

    layout: RequestLayout
    steps: Callable[[AskReader, Split, int, Pace], Awaitable[Steps]]
    """Reads the items with the caches of their RM, up to a number per command, at the given pace."""


REQUESTS = {
    Kind.NODES: Request(NODE_REQUEST, node_batch),
    Kind.APPLICATIONS: Request(APPLICATION_REQUEST, application_batch),
    Kind.ALLOCATIONS: Request(ALLOCATION_REQUEST, allocation_batch),
}


def _refused_node(names: list[str], reason: str) -> NodeRejection:
    [node_id] = names
    return NodeRejection(node_id=NodeId(node_id), reason=reason)


def _refused_application(names: list[str], reason: str) -> ApplicationRejection:
    [app_id] = names
    return ApplicationRejection(app_id=AppId(app_id), reason=reason)


def _refused_ask(names: list[str], reason: str) -> AllocationRejection:
    key, app_id, node_id = names
    item = "allocation" if node_id else "ask"
    return AllocationRejection(key=AllocationKey(key), app_id=AppId(app_id), reason=reason, item=item)


def _refused_release(names: list[str], reason: str) -> AllocationRejection:
    key, app_id = names
    return AllocationRejection(key=AllocationKey(key), app_id=AppId(app_id), reason=reason, item="release")


def _nodes_of(rm_id: RmId) -> Sort[NodeUpdate, NodeRejection]:
    """The functions that read nodes of an RM."""
    return Sort(
        NODE,
        partial(_node, rm_id),
        _refused_node,
        partial(_large_node, rm_id),
        attrgetter("capacity"),
    )


def _node(rm_id: RmId, raw: bytes) -> NodeUpdate:
    """Read a node, if necessary without the attributes that only describe it.

    A node is accepted without these because its running allocations have to be counted.
    """
    try:
        return _whole_node(raw)
    except BadItem as problem:
        lighter = without_entries(raw, NODE)
        if len(lighter) == len(raw):
            raise
        return _lighter_node(rm_id, lighter, problem)


def _large_node(rm_id: RmId, large: Large) -> NodeUpdate:
    try:
        check(large.problem)
        return _whole_node(large.light, large.texts)
    except BadItem as problem:
        if not large.light:
            raise
        return _lighter_node(rm_id, large.lighter, problem)


def _lighter_node(rm_id: RmId, raw: bytes, problem: BadItem) -> NodeUpdate:
    node = _whole_node(raw)
    about = {"rm_id": rm_id, "node": node.node_id}
    log.warning("node taken without its attributes", **about, reason=str(problem))
    return node


def _whole_node(raw: bytes, attributes: dict[str, str] | None = None) -> NodeUpdate:
    """A node from its bytes, and from `attributes` if these were read separately."""
    wire = parse(si.NodeInfo, raw)
    check(id_problem("nodeID", wire.nodeID))
    action = _ACTIONS.get(wire.action)
    if action is None:
        raise BadItem(f"node {wire.nodeID}: unknown action {wire.action}")
    if attributes is None:
        attributes = read_texts(NODE.texts, wire.attributes)
    partition = attributes.get(NODE_PARTITION, "")
    check(text_problem(NODE_PARTITION, partition))
    capacity = None
    if wire.HasField("schedulableResource"):
        capacity = read_resources("schedulableResource", wire.schedulableResource)
    return NodeUpdate(
        node_id=NodeId(wire.nodeID),
        action=action,
        partition=partition,
        attributes=attributes,
        capacity=capacity,
    )


def _large_application(large: Large) -> NewApplication:
    check(large.problem)
    check(map_problem(APPLICATION.texts, len(large.texts), MAX_APPLICATION_TAGS))
    return new_application(large.light, large.texts)


def new_application(raw: bytes, tags: dict[str, str] | None = None) -> NewApplication:
    """An application from its bytes, and from `tags` if these were read separately.

    Raises:
        BadItem: the application exceeds a cap.
        Malformed: the bytes are no AddApplicationRequest.
    """
    wire = parse(si.AddApplicationRequest, raw)
    check(id_problem("applicationID", wire.applicationID, MAX_ANNOTATION))
    check(text_problem("partitionName", wire.partitionName))
    check(text_problem("queueName", wire.queueName, MAX_QUEUE_PATH))
    check(text_problem("gangSchedulingStyle", wire.gangSchedulingStyle))
    return NewApplication(
        app_id=AppId(wire.applicationID),
        queue_name=wire.queueName,
        partition=wire.partitionName,
        user=_user(wire.ugi),
        tags=read_texts(APPLICATION.texts, wire.tags) if tags is None else tags,
        execution_timeout=wire.executionTimeoutMilliSeconds,
        placeholder_ask=read_resources("placeholderAsk", wire.placeholderAsk),
        gang_scheduling_style=wire.gangSchedulingStyle,
    )


def _user(wire: si.UserGroupInformation) -> UserGroup:
    """The user with the groups that a configuration can name: groups without control characters."""
    check(text_problem("ugi.user", wire.user, MAX_ANNOTATION))
    check(map_problem("ugi.groups", len(wire.groups), MAX_GROUPS))
    check(size_problem("ugi.groups", bytes_of(wire.groups), MAX_ANNOTATION))
    return UserGroup(wire.user, tuple(group for group in wire.groups if group.isprintable()))


def _removal(raw: bytes) -> RemoveApplication:
    wire = parse(si.RemoveApplicationRequest, raw)
    check(id_problem("applicationID", wire.applicationID, MAX_ANNOTATION))
    check(text_problem("partitionName", wire.partitionName))
    return RemoveApplication(app_id=AppId(wire.applicationID), partition=wire.partitionName)


def _release(raw: bytes) -> ReleaseRequest:
    wire = parse(si.AllocationRelease, raw)
    check(text_problem("allocationKey", wire.allocationKey))
    check(text_problem("applicationID", wire.applicationID, MAX_ANNOTATION))
    check(text_problem("partitionName", wire.partitionName))
    termination = _TERMINATIONS.get(wire.terminationType)
    if termination is None:
        raise BadItem(f"release: unknown termination type {wire.terminationType}")
    return ReleaseRequest(
        app_id=AppId(wire.applicationID),
        key=AllocationKey(wire.allocationKey),
        termination=termination,
        partition=wire.partitionName,
        message=wire.message[:1024],
    )


_APPLICATIONS = Sort(
    APPLICATION,
    new_application,
    _refused_application,
    _large_application,
    attrgetter("placeholder_ask"),
)
_REMOVALS = Sort(REMOVAL, _removal, _refused_application)
_RELEASES = Sort(RELEASE, _release, _refused_release)
