"""Effects of the core (DESIGN § 2). Each names the RM to which it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from licorne_core.messages.commands import Command, TerminationType
from licorne_core.messages.events.records import Fact
from licorne_core.values.asks import Allocation
from licorne_core.values.errors import LicorneError, Problem, Refusal
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRegistered:
    """The command named an RM that is not registered (spec § 1.6.1); nothing was done."""

    rm_id: RmId
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """The command was too large for one slice; always the last effect of a command.

    `rest` is the remainder of the command. It has to be passed to the core before any other command of the RM
    except answers to checks. Until it is complete, nothing is scheduled for the RM.
    """

    rm_id: RmId
    rest: Command


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The registration was accepted. `session` rises with every registration of this RM."""

    rm_id: RmId
    session: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationFailed:
    """The registration was refused; an earlier registration remains valid."""

    rm_id: RmId
    reason: str
    problems: Sequence[Problem] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationUpdated:
    """The configuration is in force. `changed` is False if its checksum was the same."""

    rm_id: RmId
    changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationRefused:
    """The configuration was refused as a whole; the old one remains in force."""

    rm_id: RmId
    reason: str
    problems: Sequence[Problem] = ()


class OperatorRefusal(Enum):
    """Reason for refusing an operator's command."""

    NOT_FOUND = "there is nothing of that name"
    APPLICATION_OVER = "the application is over"
    QUEUE_DRAINING = "the queue is about to go"
    NOT_POSSIBLE = "the application cannot be moved there now"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRefused:
    """The operator's command was refused; nothing was done."""

    rm_id: RmId
    refusal: OperatorRefusal
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionEffect:
    """Base of the effects of extensions."""

    rm_id: RmId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRejection:
    """A refused node and the reason. Refusals are counted by `code`."""

    node_id: NodeId
    reason: str
    code: Refusal = field(default=Refusal.INVALID, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAnswered:
    """The answer to the nodes created by one request."""

    rm_id: RmId
    accepted: Sequence[NodeId] = ()
    rejected: Sequence[NodeRejection] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationRejection:
    """A refused application and the reason."""

    app_id: AppId
    reason: str
    code: Refusal = field(default=Refusal.INVALID, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationsAnswered:
    """The answer to the applications that one request has added."""

    rm_id: RmId
    accepted: Sequence[AppId] = ()
    rejected: Sequence[ApplicationRejection] = ()


RESERVATION_TIMEOUT: Final = "ResourceReservationTimeout"
"""Message of an update of an application whose gang timed out."""


@dataclass(slots=True, init=False)
class ApplicationUpdate:
    """An application entered a state; `time` is in unix seconds (spec § 5.1.2).

    Each application enters several states, so an update is as cheap as an allocation.
    """

    app_id: AppId
    state: str
    time: float
    message: str

    def __init__(self, *, app_id: AppId, state: str, time: float, message: str) -> None:
        """Create an update for the RM."""
        self.app_id = app_id
        self.state = state
        self.time = time
        self.message = message

    @property
    def is_gang_timeout(self) -> bool:
        """True if the application entered the state because its gang timed out."""
        return self.message == RESERVATION_TIMEOUT


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationsUpdated:
    """State changes, in the order in which they happened."""

    rm_id: RmId
    updates: Sequence[ApplicationUpdate]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsMade:
    """Allocations of one partition, in the order in which they were decided."""

    rm_id: RmId
    partition: PartitionName
    allocations: Sequence[Allocation]


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """An allocation that has ended or, for types in `CONFIRMED`, that the RM should end (spec § 1.6.10)."""

    app_id: AppId
    key: AllocationKey
    termination: TerminationType
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsReleased:
    """Releases of one partition."""

    rm_id: RmId
    partition: PartitionName
    releases: Sequence[Release]


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationRejection:
    """A refused ask or existing allocation, and the reason.

    `item` is the kind of item, for counters and messages: ``ask``, ``allocation`` or ``release``.
    """

    key: AllocationKey
    app_id: AppId
    reason: str
    code: Refusal = field(default=Refusal.INVALID, compare=False)
    item: str = field(default="ask", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationsRejected:
    """The refused items of one request."""

    rm_id: RmId
    rejections: Sequence[AllocationRejection]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayEnded:
    """A replay has ended. `missing` describes the missing items, if there are any."""

    rm_id: RmId
    missing: str = ""


class AskedCheck(NamedTuple):
    """A predicate check: may the ask be placed on these nodes?

    `check` is its number, which rises by one with each check of a registration. `allocate` is False for a
    reservation (spec § 1.6.12). The first node is the one on which the ask would be placed now: if the RM
    accepts it, the ask counts as placed there in later checks.
    """

    check: int
    app_id: AppId
    key: AllocationKey
    allocate: bool
    nodes: Sequence[NodeId]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicatesAsked:
    """The RM should answer these checks by `AnswerPredicates`, and decide them in this order.

    The writer reports them by `NotePredicatesSent`; then the RM has `deadline` seconds.
    """

    rm_id: RmId
    partition: PartitionName
    checks: Sequence[AskedCheck]
    deadline: float


class AskedVictim(NamedTuple):
    """A victim that a preemption check proposes."""

    app_id: AppId
    key: AllocationKey


class AskedNode(NamedTuple):
    """A node of a preemption check, with its victims in the order in which they would be stopped.

    The resources of the ask fit once the victims up to position `start` have ended; -1 if they fit at once.
    """

    node_id: NodeId
    victims: Sequence[AskedVictim]
    start: int


class AskedPreemption(NamedTuple):
    """A preemption check: which victims have to be stopped on each of the nodes so that the ask fits there?

    `check` is numbered together with predicate checks.
    """

    check: int
    app_id: AppId
    key: AllocationKey
    nodes: Sequence[AskedNode]


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionsAsked:
    """The RM should answer these checks by `AnswerPreemptions` (spec § 9.4.5).

    The writer reports them by `NotePredicatesSent`; then the RM has `deadline` seconds.
    """

    rm_id: RmId
    partition: PartitionName
    checks: Sequence[AskedPreemption]
    deadline: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """Facts of a command, in order; only while events are tracked.

    `footprint` is the estimated memory, in bytes, of the asks that were added and removed meanwhile, which
    the facts keep in memory.
    """

    rm_id: RmId
    facts: Sequence[Fact]
    footprint: int = 0


Effect = (
    NotRegistered
    | Unfinished
    | Registered
    | RegistrationFailed
    | ConfigurationUpdated
    | ConfigurationRefused
    | OperatorRefused
    | NodesAnswered
    | ApplicationsAnswered
    | ApplicationsUpdated
    | AllocationsMade
    | AllocationsReleased
    | AllocationsRejected
    | ReplayEnded
    | PredicatesAsked
    | PreemptionsAsked
    | Happened
    | ExtensionEffect
)


class TickFailed(LicorneError):
    """A defect of the core in the partition of one RM; the tick's effects for other RMs are retained."""

    def __init__(self, rm_id: RmId, effects: list[Effect]) -> None:
        """`effects` are the effects of the tick so far, for all RMs."""
        super().__init__(f"a tick failed for RM {rm_id}")
        self.rm_id = rm_id
        self.effects = effects
