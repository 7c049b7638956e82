"""Converts the caller's items to messages of `si.v1`.

`licorne.fields` has already checked the fields. This module raises Rejected for an item without an id, or an
item that is too large. The server checks everything else.
"""

from collections.abc import Mapping
from operator import index

from google.protobuf.message import Message

from licorne.errors import Rejected
from licorne.fields import check_registration
from licorne.model import DEFAULT_PARTITION, Application, Ask, Node, Termination, placeholder_ask
from licorne.si.v1 import si_pb2 as si
from licorne.tags import all_tags

PARTITION_ATTRIBUTE = "si/node-partition"
CREATION_TIME_TAG = "creationTime"
FORCE_TAG = "application.create.force"
FOREIGN_TAG = "foreign"
MAX_ITEM_BYTES = 6 * 1024 * 1024
"""Maximum bytes of one item. A larger item could break the stream, and every replay too."""

TERMINATIONS: Mapping[Termination, si.TerminationType.ValueType] = {
    Termination.STOPPED: si.STOPPED_BY_RM,
    Termination.TIMEOUT: si.TIMEOUT,
    Termination.PREEMPTED: si.PREEMPTED_BY_SCHEDULER,
    Termination.REPLACED: si.PLACEHOLDER_REPLACED,
}


# Recent messages by their amounts: many asks have the same size.
_sizes: dict[tuple[tuple[str, int], ...], si.Resource] = {}
MAX_SIZES = 1000


def resource(amounts: Mapping[str, int]) -> si.Resource:
    """The message for amounts. It may be shared, so it must not be changed."""
    # Numeric libraries have their own types of whole numbers, and some cannot be hashed.
    items = tuple([(name, index(value)) for name, value in amounts.items()])
    known = _sizes.get(items)
    if known is None:
        known = si.Resource(resources={name: si.Quantity(value=value) for name, value in items})
        if len(_sizes) >= MAX_SIZES:
            _sizes.clear()
        _sizes[items] = known
    return known


def registration(
    *,
    rm_id: str,
    version: str,
    policy_group: str,
    build_info: Mapping[str, str],
    config: str,
    extra_config: Mapping[str, str],
) -> si.RegisterResourceManagerRequest:
    """The registration of an RM, for a hello. Raises ValueError for a field that cannot be sent."""
    check_registration(
        rm_id=rm_id,
        config=config,
        extra_config=extra_config,
        policy_group=policy_group,
        version=version,
        build_info=build_info,
    )
    return si.RegisterResourceManagerRequest(
        rmID=rm_id,
        version=version,
        policyGroup=policy_group,
        buildInfo=build_info,
        config=config,
        extraConfig=extra_config,
    )


def _check_size(key: str, message: Message) -> None:
    size = message.ByteSize()
    if size > MAX_ITEM_BYTES:
        raise Rejected(key[:100], f"it has {size} bytes, at most {MAX_ITEM_BYTES} can be sent")


def _partition(name: str) -> str:
    """The name of a partition in messages: empty for the default partition."""
    return "" if name == DEFAULT_PARTITION else name


def node(item: Node, action: si.NodeInfo.ActionFromRM.ValueType) -> si.NodeInfo:
    """The message for a new node or capacity. Raises Rejected if the node has no id or is too large."""
    if not item.node_id:
        raise Rejected("", "a node must have an id")
    message = node_change(item, action)
    message.attributes.update({**item.attributes, **message.attributes})
    message.schedulableResource.CopyFrom(resource(item.capacity))
    _check_size(item.node_id, message)
    return message


def node_change(item: Node, action: si.NodeInfo.ActionFromRM.ValueType) -> si.NodeInfo:
    """The message for a change other than a change of capacity: only id and partition of the node."""
    message = si.NodeInfo(nodeID=item.node_id, action=action)
    if item.partition != DEFAULT_PARTITION:
        message.attributes[PARTITION_ATTRIBUTE] = item.partition
    return message


def _milliseconds(given: float) -> int:
    """Convert seconds to milliseconds; a positive time is at least 1."""
    return max(1, round(given * 1000)) if given else 0


def application(item: Application, *, force: bool = False) -> si.AddApplicationRequest:
    """The message for an application. With `force`, for running work, the server never rejects it."""
    if not item.application_id:
        raise Rejected("", "an application must have an id")
    tags = all_tags(item)
    if force:
        tags = {**tags, FORCE_TAG: "true"}
    request = si.AddApplicationRequest(
        applicationID=item.application_id,
        queueName=item.queue,
        partitionName=_partition(item.partition),
        ugi=si.UserGroupInformation(user=item.user, groups=item.groups),
        tags=tags,
        executionTimeoutMilliSeconds=_milliseconds(item.placeholder_timeout),
        gangSchedulingStyle=item.gang_style,
    )
    if placeholders := placeholder_ask(item):
        request.placeholderAsk.CopyFrom(resource(placeholders))
    _check_size(item.application_id, request)
    return request


def allocation(ask: Ask, node_id: str = "", asked_at: int | None = None) -> si.Allocation:
    """The message for an ask or, with `node_id`, for a running allocation.

    `asked_at` (unix seconds) is the time of the ask, for a server that no longer knows it.
    """
    if not ask.key:
        raise Rejected("", f"an ask of application {ask.application_id!r} has no key")
    tags = all_tags(ask)
    if asked_at is not None and CREATION_TIME_TAG not in tags:
        tags = {**tags, CREATION_TIME_TAG: str(asked_at)}
    message = si.Allocation(
        allocationKey=ask.key,
        applicationID=ask.application_id,
        partitionName=_partition(ask.partition),
        resourcePerAlloc=resource(ask.resources),
        priority=ask.priority,
        nodeID=node_id,
        allocationTags=tags,
        originator=ask.originator,
        placeholder=ask.placeholder,
        taskGroupName=ask.task_group,
    )
    if ask.allow_preempt_self or ask.allow_preempt_other:
        message.preemptionPolicy.allowPreemptSelf = ask.allow_preempt_self
        message.preemptionPolicy.allowPreemptOther = ask.allow_preempt_other
    _check_size(ask.key, message)
    return message


def release(ask: Ask, termination: Termination) -> si.AllocationRelease:
    """The message that releases an ask or its allocation."""
    return si.AllocationRelease(
        partitionName=_partition(ask.partition),
        applicationID=ask.application_id,
        allocationKey=ask.key,
        terminationType=TERMINATIONS[termination],
    )
