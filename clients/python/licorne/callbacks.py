"""The callbacks: the server's questions to a resource manager, and its unsolicited messages.

The server asks about nodes for an ask, and about victims of preemption. Answers to the resource manager's own
requests are events (`licorne.events`).
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from google.protobuf.descriptor import EnumValueDescriptor

from licorne.cache import Cache
from licorne.model import Ask
from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as pb
from licorne.values import Range, seconds, shown, whole


@dataclass(frozen=True, slots=True)
class Victim:
    """An allocation that would be preempted."""

    key: str
    application_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeVictims:
    """A node, and the allocations on it that would be preempted."""

    node_id: str
    victims: tuple[Victim, ...]
    """The victims in the order of preemption. The ask's resources may not need all of them."""
    start_index: int
    """The ask's resources fit once the victims up to this position have ended; -1 if they fit now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCheck:
    """A question: on which of these nodes can an ask run, and after the end of which victims?

    No victim has been stopped yet.
    """

    id: int
    key: str
    application_id: str
    partition: str
    nodes: tuple[NodeVictims, ...]
    deadline: float
    """Seconds within which the answer must arrive."""
    ask: Ask | None
    """The ask; None if it was released meanwhile."""


Needs = Mapping[str, int]
"""By id of a node on which the ask can run: position of the last victim to be stopped, at least
`start_index`; -1 if none has to be stopped. Missing nodes are refused.
"""

JudgeVictims = Callable[[PreemptionCheck], Needs | Awaitable[Needs]]


def preemption_check(wire: pb.PreemptionCheck, cache: Cache) -> PreemptionCheck:
    """Convert a preemption check to the caller's form."""
    known = cache.asks.get(wire.allocation_key)
    return PreemptionCheck(
        id=wire.id,
        key=wire.allocation_key,
        application_id=wire.application_id,
        partition=wire.partition_name,
        nodes=tuple(
            NodeVictims(
                node_id=node.node_id,
                victims=tuple(Victim(v.allocation_key, v.application_id) for v in node.victims),
                start_index=node.start_index,
            )
            for node in wire.nodes
        ),
        deadline=wire.deadline_milliseconds / 1000,
        ask=None if known is None else known.ask,
    )


def preemption_answer(check: PreemptionCheck, needs: Needs) -> pb.PreemptionAnswer:
    """The answer to a preemption check, without nodes that are not in the check.

    Raises ValueError for a position outside the node's range.
    """
    answer = pb.PreemptionAnswer(id=check.id)
    for node in check.nodes:
        if node.node_id not in needs:
            continue
        index, last = needs[node.node_id], len(node.victims) - 1
        limits = Range(node.start_index, last, f"{node.start_index} and {last}", "a position")
        if problem := whole(limits, f"the position for node {node.node_id}", index):
            raise ValueError(problem)
        answer.nodes.add(node_id=node.node_id, index=index)
    return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionNotice:
    """An allocation that will be preempted at the `deadline`, or the withdrawal of such a notice.

    An RM that has saved its work answers with `Client.preemption.ready`. After a withdrawal the
    allocation continues to run.
    """

    key: str
    application_id: str
    partition: str
    withdrawn: bool = False
    deadline: float = 0.0
    """Time at which the allocation will be preempted, in unix seconds."""
    beneficiary_key: str = ""
    """Key of the ask that will use the resources; empty if a queue's maximum was lowered."""
    beneficiary_application_id: str = ""
    queue: str = ""
    """The queue of the beneficiary, or the queue whose maximum was lowered."""
    lost_seconds: float = 0.0
    """Seconds of work since the last checkpoint, which would be lost if the allocation ended now."""


def preemption_notices(wire: pb.PreemptionNotices) -> list[PreemptionNotice]:
    """Convert notices to the caller's form."""
    partition = wire.partition_name
    given = [
        PreemptionNotice(
            key=notice.allocation_key,
            application_id=notice.application_id,
            partition=partition,
            deadline=notice.deadline / 1e9,
            beneficiary_key=notice.beneficiary_allocation_key,
            beneficiary_application_id=notice.beneficiary_application_id,
            queue=notice.queue,
            lost_seconds=notice.lost_seconds,
        )
        for notice in wire.notices
    ]
    withdrawn = [
        PreemptionNotice(
            key=gone.allocation_key, application_id=gone.application_id, partition=partition, withdrawn=True
        )
        for gone in wire.withdrawn
    ]
    return given + withdrawn


MIN_DEADLINE = 0.01
"""Minimum seconds; the server refuses a shorter deadline."""
MAX_DEADLINE = 60.0
"""Maximum seconds; the server refuses a longer deadline."""
MAX_REASON = 256
"""Maximum characters of a reason, so that the reasons for many nodes fit into a message."""

_STATES = si.UpdateContainerSchedulingStateRequest.SchedulingState.DESCRIPTOR.values_by_number
_TYPES = si.EventRecord.Type.DESCRIPTOR.values_by_number
_CHANGES = si.EventRecord.ChangeType.DESCRIPTOR.values_by_number
_DETAILS = si.EventRecord.ChangeDetail.DESCRIPTOR.values_by_number


class ClassBy(Enum):
    """Property by which asks share the results of predicates.

    Asks share refusals if their resources, required nodes and this property are equal. If the choice is
    wrong, asks are placed on nodes that the predicates would refuse.
    """

    ASK = "ask"
    """Asks with an equal tag `licorne/predicate-class`; each ask without the tag is a class of its own."""
    TAG = "tag"
    """As with `ASK`, except that all asks without the tag are one class."""
    ALL_TAGS = "all tags"
    """Asks whose tags are all equal, except `creationTime`, `kubernetes.io/meta/podName`,
    `licorne/traceparent` and `licorne/tracestate`."""


_CLASSES = {
    ClassBy.ASK: pb.BY_ASK,
    ClassBy.TAG: pb.BY_TAG,
    ClassBy.ALL_TAGS: pb.BY_ALL_TAGS,
}


class FailMode(Enum):
    """Result of a check without an answer in time: all its nodes are refused (closed) or accepted (open)."""

    CLOSED = "refused"
    OPEN = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateCheck:
    """A question: on which nodes may the ask be placed?

    If the first node is accepted, later checks must assume that the ask is placed there.
    """

    id: int
    key: str
    application_id: str
    partition: str
    nodes: tuple[str, ...]
    """Ids of nodes: first the candidate for the ask, then further nodes if other asks of its class wait, or
    if nodes were refused before."""
    allocate: bool
    """True if the ask would run on the node now. False if the node would only be reserved for the ask; ignore
    the node's current allocations then.
    """
    deadline: float
    """Seconds within which the answer must arrive."""
    ask: Ask | None
    """The ask; None if it was released meanwhile."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """An ask that quotas admit but that fits on no node; for an autoscaler.

    `state` is always ``FAILED``; the wire format has other values too.
    """

    key: str
    application_id: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """An event of the partitions of this resource manager.

    The meaning of `object_id` and `reference_id` depends on the type.
    """

    id: int
    """Number that rises by one with each record. A gap means that records were lost."""
    type: str
    """Name on the wire, such as ``APP``."""
    object_id: str
    reference_id: str
    message: str
    time: float
    """Time of the change, in unix seconds."""
    change: str
    """Name on the wire, such as ``ADD``."""
    detail: str
    """Name on the wire, such as ``APP_ALLOC``."""
    resources: Mapping[str, int]


Refusals = Mapping[str, str]
"""Reason of the refusal, by id of a refused node. Missing nodes are accepted."""

Predicates = Callable[[PredicateCheck], Refusals | Awaitable[Refusals]]
OnContainerStates = Callable[[Sequence[ContainerState]], Awaitable[None] | None]
OnPreemptionNotices = Callable[[Sequence[PreemptionNotice]], Awaitable[None] | None]
OnEvents = Callable[[Sequence[EventRecord]], Awaitable[None] | None]
OnStateDump = Callable[[], Any]
"""Returns the state, or an awaitable of it: a value that JSON can represent, or a text that is JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The caller's functions, with the deadline, fail mode and classes of predicate checks."""

    predicates: Predicates | None = None
    judge_victims: JudgeVictims | None = None
    deadline: float = 2.0
    """Maximum seconds for one check, by `predicates` or `judge_victims`."""
    fail_mode: FailMode = FailMode.CLOSED
    class_by: ClassBy = ClassBy.ASK
    container_states: OnContainerStates | None = None
    preemption_notices: OnPreemptionNotices | None = None
    events: OnEvents | None = None
    state_dump: OnStateDump | None = None

    def __post_init__(self) -> None:
        """Raise ValueError, which names the argument, for an argument that no server accepts."""
        if self.judge_victims is not None and self.predicates is None:
            raise ValueError("judge_victims needs predicates: only asks with them are judged")
        problem = seconds("predicate_deadline", self.deadline, MIN_DEADLINE, MAX_DEADLINE)
        if problem:
            raise ValueError(problem)
        if not isinstance(self.fail_mode, FailMode):
            raise ValueError(f"fail_mode is {shown(self.fail_mode)}: it must be a FailMode")
        if not isinstance(self.class_by, ClassBy):
            raise ValueError(f"class_by is {shown(self.class_by)}: it must be a ClassBy")

    def wire(self) -> pb.Callbacks:
        """Convert the callbacks to the form of the hello."""
        wire = pb.Callbacks(
            container_states=self.container_states is not None,
            preemption_notices=self.preemption_notices is not None,
            events=self.events is not None,
            state_dump=self.state_dump is not None,
        )
        if self.predicates is not None:
            wire.predicates.deadline_milliseconds = round(self.deadline * 1000)
            wire.predicates.fail_mode = pb.FAIL_OPEN if self.fail_mode is FailMode.OPEN else pb.FAIL_CLOSED
            wire.predicates.class_by = _CLASSES[self.class_by]
            wire.predicates.judges_victims = self.judge_victims is not None
        return wire


def predicate_check(wire: pb.PredicateCheck, cache: Cache) -> PredicateCheck:
    """Convert a predicate check to the caller's form."""
    known = cache.asks.get(wire.allocation_key)
    return PredicateCheck(
        id=wire.id,
        key=wire.allocation_key,
        application_id=wire.application_id,
        partition=wire.partition_name,
        nodes=tuple(wire.node_ids),
        allocate=wire.allocate,
        deadline=wire.deadline_milliseconds / 1000,
        ask=None if known is None else known.ask,
    )


def answer(check: PredicateCheck, refused: Refusals) -> pb.PredicateAnswer:
    """The answer to a predicate check, without refusals of nodes that are not in the check.

    A reason is cut to `MAX_REASON` characters. Raises TypeError for a reason that is no text.
    """
    refusals = [
        pb.NodeRefusal(node_id=node, reason=refused[node][:MAX_REASON])
        for node in check.nodes
        if node in refused
    ]
    return pb.PredicateAnswer(id=check.id, refused=refusals)


def container_states(wire: pb.ContainerStates) -> list[ContainerState]:
    """Convert states to the caller's form."""
    return [
        ContainerState(item.allocationKey, item.applicationID, _name(_STATES, item.state), item.reason)
        for item in wire.states
    ]


def event_records(wire: pb.Events) -> list[EventRecord]:
    """Convert events to the caller's form."""
    return [event_record(number, record) for number, record in enumerate(wire.records, wire.first_id)]


def event_record(number: int, record: si.EventRecord) -> EventRecord:
    """Convert an event with its id to the caller's form."""
    return EventRecord(
        id=number,
        type=_name(_TYPES, record.type),
        object_id=record.objectID,
        reference_id=record.referenceID,
        message=record.message,
        time=record.timestampNano / 1e9,
        change=_name(_CHANGES, record.eventChangeType),
        detail=_name(_DETAILS, record.eventChangeDetail),
        resources={name: quantity.value for name, quantity in record.resource.resources.items()},
    )


def _name(names: Mapping[int, EnumValueDescriptor], number: int) -> str:
    """The name on the wire, or the number as a text if a newer server has sent an unknown name."""
    known = names.get(number)
    return str(number) if known is None else known.name
