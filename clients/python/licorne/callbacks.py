"""What a resource manager can be asked and told beside the answers to what it says."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from google.protobuf.descriptor import EnumValueDescriptor

from licorne.cache import Cache
from licorne.fields import seconds, shown
from licorne.model import Ask
from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as pb

MIN_DEADLINE = 0.01
MAX_DEADLINE = 60.0
MAX_REASON = 256
"""Characters of a reason: without a bound a hundred of them might make no message any more."""

_STATES = si.UpdateContainerSchedulingStateRequest.SchedulingState.DESCRIPTOR.values_by_number
_TYPES = si.EventRecord.Type.DESCRIPTOR.values_by_number
_CHANGES = si.EventRecord.ChangeType.DESCRIPTOR.values_by_number
_DETAILS = si.EventRecord.ChangeDetail.DESCRIPTOR.values_by_number


class FailMode(Enum):
    """What a question that was not answered in time means for the nodes asked about."""

    CLOSED = "refused"
    OPEN = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Which of these nodes may an ask go to?

    The first of `nodes` is where the ask would go now, those behind it come next. With
    `allocate` it would run there; without, the node would be reserved for it, whatever is on it
    now. The answer counts for all asks of the same resources, required node and tag
    `licorne/predicate-class`; `ask` is None if it was released meanwhile. It is wanted within
    `deadline` seconds.
    """

    id: int
    key: str
    application_id: str
    partition: str
    nodes: tuple[str, ...]
    allocate: bool
    deadline: float
    ask: Ask | None


@dataclass(frozen=True, slots=True)
class ContainerState:
    """An ask that quota would admit and no node can take: what an autoscaler is after.

    `state` is always ``FAILED`` so far.
    """

    key: str
    application_id: str
    state: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """Something that happened in our partitions. Ids rise by one; a gap tells that some are lost.

    `type`, `change` and `detail` are the names of the wire, such as ``APP``, ``ADD`` and
    ``APP_ALLOC``; what the ids mean depends on the type. `time` is in unix seconds.
    """

    id: int
    type: str
    object_id: str
    reference_id: str
    message: str
    time: float
    change: str
    detail: str
    resources: Mapping[str, int]


Refusals = Mapping[str, str]
"""Why not, by node; nodes that are not in it are accepted."""

Predicates = Callable[[Question], Refusals | Awaitable[Refusals]]
OnContainerStates = Callable[[Sequence[ContainerState]], Awaitable[None] | None]
OnEvents = Callable[[Sequence[EventRecord]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """The functions of the caller, and how the server should count what is not answered."""

    predicates: Predicates | None = None
    deadline: float = 2.0
    fail_mode: FailMode = FailMode.CLOSED
    container_states: OnContainerStates | None = None
    events: OnEvents | None = None

    def __post_init__(self) -> None:
        """Raises ValueError for a deadline or a mode that no server takes; names the argument."""
        problem = seconds("predicate_deadline", self.deadline, MIN_DEADLINE, MAX_DEADLINE)
        if problem:
            raise ValueError(problem)
        if not isinstance(self.fail_mode, FailMode):
            raise ValueError(f"fail_mode is {shown(self.fail_mode)}: it must be a FailMode")

    def wire(self) -> pb.Callbacks:
        """As the hello says it."""
        wire = pb.Callbacks(
            container_states=self.container_states is not None, events=self.events is not None
        )
        if self.predicates is not None:
            wire.predicates.deadline_milliseconds = round(self.deadline * 1000)
            wire.predicates.fail_mode = (
                pb.FAIL_OPEN if self.fail_mode is FailMode.OPEN else pb.FAIL_CLOSED
            )
        return wire


def question(wire: pb.PredicatesQuestion, cache: Cache) -> Question:
    """A question as the caller sees it."""
    known = cache.asks.get(wire.allocation_key)
    return Question(
        id=wire.id,
        key=wire.allocation_key,
        application_id=wire.application_id,
        partition=wire.partition_name,
        nodes=tuple(wire.node_ids),
        allocate=wire.allocate,
        deadline=wire.deadline_milliseconds / 1000,
        ask=None if known is None else known.ask,
    )


def answer(asked: Question, refused: Refusals) -> pb.UpdateRequest:
    """The answer to a question; nodes that were not asked about do not matter.

    Of a reason no more is sent than the server keeps. Raises TypeError for one that is no text.
    """
    refusals = [
        pb.NodeRefusal(node_id=node, reason=refused[node][:MAX_REASON])
        for node in asked.nodes
        if node in refused
    ]
    return pb.UpdateRequest(predicates=pb.PredicatesAnswer(id=asked.id, refused=refusals))


def container_states(wire: pb.ContainerStates) -> list[ContainerState]:
    """States as the caller sees them."""
    return [
        ContainerState(
            item.allocationKey, item.applicationID, _name(_STATES, item.state), item.reason
        )
        for item in wire.states
    ]


def event_records(wire: pb.Events) -> list[EventRecord]:
    """Events as the caller sees them."""
    return [
        EventRecord(
            id=number,
            type=_name(_TYPES, record.type),
            object_id=record.objectID,
            reference_id=record.referenceID,
            message=record.message,
            time=record.timestampNano / 1e9,
            change=_name(_CHANGES, record.eventChangeType),
            detail=_name(_DETAILS, record.eventChangeDetail),
            resources={
                name: quantity.value for name, quantity in record.resource.resources.items()
            },
        )
        for number, record in enumerate(wire.records, wire.first_id)
    ]


def _name(names: Mapping[int, EnumValueDescriptor], number: int) -> str:
    """The name of the wire, or the number where a newer server has one that we do not know."""
    known = names.get(number)
    return str(number) if known is None else known.name
