"""Messages of `si.v1` into commands (spec §§ 1.2, 1.6), item by item, caps first.

An item that breaks a cap or cannot be read becomes a rejection with its reason, and the others go
on. What the core checks itself, such as unknown applications and negative amounts, is not checked
here. The core never sees protobuf.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog
from google.protobuf.message import DecodeError, Message

from licorne.si.v1 import si_pb2 as si
from licorne_core.commands import (
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
from licorne_core.effects import (
    AllocationRejection,
    AllocationsRejected,
    ApplicationRejection,
    ApplicationsAnswered,
    Effect,
    NodeRejection,
    NodesAnswered,
)
from licorne_core.identity import UserGroup
from licorne_core.ids import AllocationKey, AppId, NodeId, RmId
from licorne_server.caps import (
    MAX_ANNOTATION,
    MAX_CONFIG_BYTES,
    MAX_ID,
    MAX_QUEUE_PATH,
    bytes_of,
    extra_problem,
    id_problem,
    rm_id_problem,
    size_problem,
    tags_problem,
    text_problem,
)
from licorne_server.convert_asks import AskReader, read_resources, read_texts
from licorne_server.errors import Malformed, invalid_argument
from licorne_server.items import BadItem, check, check_item, texts_of, without_entries
from licorne_server.wire import Split

log = structlog.get_logger(__name__)

NODE_PARTITION = "si/node-partition"
_ATTRIBUTES = si.NodeInfo.ATTRIBUTES_FIELD_NUMBER
_CAPACITY = (si.NodeInfo.SCHEDULABLERESOURCE_FIELD_NUMBER,)
_OF_APPLICATIONS = (
    si.AddApplicationRequest.UGI_FIELD_NUMBER,
    si.AddApplicationRequest.PLACEHOLDERASK_FIELD_NUMBER,
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
READ_BYTES = 256 * 1024
"""Bytes of items that are read before everything else gets a turn of the loop."""

M = TypeVar("M", bound=Message)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class Steps:
    """What is to be done for one request."""

    steps: list[Command | Effect] = field(default_factory=list)
    """Commands for the core, and answers that need no command, in order."""
    refused: int = 0
    """Nodes, applications and asks that were refused, so that the core will not see them."""


def parse(message: type[M], raw: bytes) -> M:
    """A message from its bytes.

    Raises:
        Malformed: the bytes are no such message.
    """
    try:
        return message.FromString(raw)
    except DecodeError as error:
        raise Malformed(f"{message.DESCRIPTOR.name}: {error}") from None


def slices(items: Sequence[T], portion: int) -> Iterator[Sequence[T]]:
    """The items in order, `portion` of them at a time."""
    for begin in range(0, len(items), portion):
        yield items[begin : begin + portion]


def registration(wire: si.RegisterResourceManagerRequest) -> RegisterRm:
    """An RM that introduces itself, without its configuration, which is parsed elsewhere.

    It has none of the wishes that only a session can carry.

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


async def node_batch(rm_id: RmId, split: Split, portion: int) -> Steps:
    """The steps of a NodeRequest."""
    nodes, refused = await _gather(split.items[1], portion, _node, _refused_node)
    result = Steps(
        [UpdateNodes(rm_id=rm_id, nodes=run) for run in slices(nodes, portion)], len(refused)
    )
    if refused:
        result.steps.append(NodesAnswered(rm_id=rm_id, rejected=refused))
    return result


async def application_batch(rm_id: RmId, split: Split, portion: int) -> Steps:
    """The steps of an ApplicationRequest: adds, then removals."""
    new, refused = await _gather(split.items[1], portion, _new_application, _refused_application)
    remove, bad_removals = await _gather(split.items[2], portion, _removal, _refused_application)
    result = Steps(
        [UpdateApplications(rm_id=rm_id, new=run) for run in slices(new, portion)], len(refused)
    )
    if refused or bad_removals:
        result.steps.append(ApplicationsAnswered(rm_id=rm_id, rejected=refused + bad_removals))
    result.steps += [UpdateApplications(rm_id=rm_id, remove=run) for run in slices(remove, portion)]
    return result


async def allocation_batch(rm_id: RmId, split: Split, portion: int, reader: AskReader) -> Steps:
    """The steps of an AllocationRequest: asks and allocations, then releases."""
    asks, refused = await _gather(split.items[4], portion, reader.read, _refused_ask)
    releases, bad_releases = await _gather(split.items[2], portion, _release, _refused_release)
    result = Steps(
        [UpdateAllocations(rm_id=rm_id, asks=run) for run in slices(asks, portion)], len(refused)
    )
    if refused or bad_releases:
        result.steps.append(AllocationsRejected(rm_id=rm_id, rejections=refused + bad_releases))
    result.steps += [
        UpdateAllocations(rm_id=rm_id, releases=run) for run in slices(releases, portion)
    ]
    return result


async def _gather(
    items: Sequence[bytes],
    portion: int,
    read: Callable[[bytes], T],
    refuse: Callable[[bytes, str], R],
) -> tuple[list[T], list[R]]:
    """Read items: those that can be taken, and the refusals of the others.

    All are read before the first is handled. So a malformed item ends the stream before anything
    of its request is done.
    """
    taken: list[T] = []
    refused: list[R] = []
    for run in slices(items, portion):
        size = 0
        for raw in run:
            try:
                taken.append(read(raw))
            except BadItem as problem:
                refused.append(refuse(raw, str(problem)))
            size += len(raw)
            if size > READ_BYTES:
                size = 0
                await asyncio.sleep(0)
        if len(items) > portion:
            await asyncio.sleep(0)
    return taken, refused


def _refused_node(raw: bytes, reason: str) -> NodeRejection:
    [node_id] = texts_of(raw, {1: MAX_ID})
    return NodeRejection(node_id=NodeId(node_id), reason=reason)


def _refused_application(raw: bytes, reason: str) -> ApplicationRejection:
    [app_id] = texts_of(raw, {1: MAX_ANNOTATION})
    return ApplicationRejection(app_id=AppId(app_id), reason=reason)


def _refused_ask(raw: bytes, reason: str) -> AllocationRejection:
    key, app_id = texts_of(raw, {1: MAX_ID, 9: MAX_ANNOTATION})
    return AllocationRejection(key=AllocationKey(key), app_id=AppId(app_id), reason=reason)


def _refused_release(raw: bytes, reason: str) -> AllocationRejection:
    key, app_id = texts_of(raw, {6: MAX_ID, 2: MAX_ANNOTATION})
    return AllocationRejection(key=AllocationKey(key), app_id=AppId(app_id), reason=reason)


def _node(raw: bytes) -> NodeUpdate:
    """A node; if it cannot be taken as it is, without the attributes that only describe it.

    Nothing that runs there could be counted without the node.
    """
    try:
        return _whole_node(raw)
    except BadItem as problem:
        lighter = without_entries(raw, _ATTRIBUTES, {NODE_PARTITION})
        if len(lighter) == len(raw):
            raise
        node = _whole_node(lighter)
        log.warning("node taken without its attributes", node=node.node_id, reason=str(problem))
        return node


def _whole_node(raw: bytes) -> NodeUpdate:
    check_item("node", raw, _CAPACITY)
    wire = parse(si.NodeInfo, raw)
    check(id_problem("nodeID", wire.nodeID))
    action = _ACTIONS.get(wire.action)
    if action is None:
        raise BadItem(f"node {wire.nodeID}: unknown action {wire.action}")
    attributes = read_texts("attributes", wire.attributes)
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


def _new_application(raw: bytes) -> NewApplication:
    check_item("application", raw, _OF_APPLICATIONS)
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
        tags=read_texts("tags", wire.tags),
        execution_timeout=wire.executionTimeoutMilliSeconds,
        placeholder_ask=read_resources("placeholderAsk", wire.placeholderAsk),
        gang_scheduling_style=wire.gangSchedulingStyle,
    )


def _user(wire: si.UserGroupInformation) -> UserGroup:
    """The user with the groups that a configuration can name: those without control characters."""
    check(text_problem("ugi.user", wire.user, MAX_ANNOTATION))
    check(size_problem("ugi.groups", bytes_of(wire.groups), MAX_ANNOTATION))
    return UserGroup(wire.user, tuple(group for group in wire.groups if group.isprintable()))


def _removal(raw: bytes) -> RemoveApplication:
    check_item("removal", raw)
    wire = parse(si.RemoveApplicationRequest, raw)
    check(id_problem("applicationID", wire.applicationID, MAX_ANNOTATION))
    check(text_problem("partitionName", wire.partitionName))
    return RemoveApplication(app_id=AppId(wire.applicationID), partition=wire.partitionName)


def _release(raw: bytes) -> ReleaseRequest:
    check_item("release", raw)
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
