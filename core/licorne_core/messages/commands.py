"""Commands to the core, which are never changed (DESIGN § 2).

Also in this module:

* Options of a scheduler, set at its creation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from licorne_core.config import SubmittedConfig
from licorne_core.config.schema import Configuration
from licorne_core.messages.kept import KeptByPartition
from licorne_core.messages.operators import Marks
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, NodeId, RmId, UserGroup
from licorne_core.values.resources import Resources
from licorne_core.values.rm_caps import MemoryShortage, RmCaps
from licorne_core.values.slices import Tuning


class FailMode(Enum):
    """Status of the nodes of a predicate check that is not answered in time."""

    CLOSED = "refused"
    OPEN = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicatePolicy:
    """The policy of an RM that decides itself which nodes its asks may use (spec § 8.4).

    `deadline` is in seconds after a check was written to the RM. With `judges_victims` the RM also chooses
    which victims of preemption have to be stopped (spec § 9.4.5).
    """

    deadline: float = 2.0
    fail_mode: FailMode = FailMode.CLOSED
    judges_victims: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRm:
    """Register an RM. All state of an earlier registration is dropped first (spec § 1.6.2-3).

    `config` was parsed by the caller; None means the scheduler's default. Without `predicates` the RM gets no
    checks, and all predicates pass. With `container_states` it is notified of its asks that fit no node (spec
    § 8.12). `marks` and `memory` are what its partitions retain: operators' marks, and usage.
    """

    rm_id: RmId
    version: str = ""
    policy_group: str = ""
    build_info: Mapping[str, str] = field(default_factory=dict)
    config: SubmittedConfig = None
    extra_config: Mapping[str, str] = field(default_factory=dict)
    predicates: PredicatePolicy | None = None
    container_states: bool = True
    marks: Marks = field(default_factory=dict)
    memory: KeptByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateConfiguration:
    """A new configuration for an RM (§§ 2.7, 13.1). An empty `extra` counts only if `replaces_extra`."""

    rm_id: RmId
    policy_group: str = ""
    config: SubmittedConfig = None
    extra_config: Mapping[str, str] = field(default_factory=dict)
    replaces_extra: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveRm:
    """Forget the RM and its partitions permanently."""

    rm_id: RmId


@dataclass(frozen=True, slots=True, kw_only=True)
class RefuseNewWork:
    """Set or clear a shortage of memory of the process, which affects all RMs.

    `reason` is the message of refusals.
    """

    shortage: MemoryShortage
    reason: str = ""


class SharedCommand:
    """Base of an extension's commands that concern all RMs together."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionAnswer:
    """Base of an RM's answers to an extension. The items of the answers name their partitions."""

    rm_id: RmId


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionCommand:
    """Base of an extension's commands for one RM, which may be carried out in slices."""

    rm_id: RmId


class NodeAction(Enum):
    """An RM's action on a node (spec § 7)."""

    CREATE = "create"
    CREATE_DRAIN = "create drained"
    UPDATE = "update"
    DRAIN_NODE = "drain"
    DRAIN_TO_SCHEDULABLE = "make schedulable"
    DECOMISSION = "decommission"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeUpdate:
    """A node of an UpdateNodes. `capacity` is None if the message had no schedulable resource.

    `partition` is the partition that the node names in its attributes (spec § 1.5).
    """

    node_id: NodeId
    action: NodeAction
    partition: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict)
    capacity: Resources | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateNodes:
    """Nodes to add, change or remove, in order."""

    rm_id: RmId
    nodes: Sequence[NodeUpdate]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApplication:
    """An application to add. `execution_timeout` is in milliseconds (spec § 5.4)."""

    app_id: AppId
    queue_name: str = ""
    partition: str = ""
    user: UserGroup = UserGroup("")
    tags: Mapping[str, str] = field(default_factory=dict)
    execution_timeout: int = 0
    placeholder_ask: Resources = field(default_factory=dict)
    gang_scheduling_style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveApplication:
    """An application to remove, with all its requests."""

    app_id: AppId
    partition: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateApplications:
    """Applications to add, then applications to remove (spec § 1.6.6)."""

    rm_id: RmId
    new: Sequence[NewApplication] = ()
    remove: Sequence[RemoveApplication] = ()


class TerminationType(Enum):
    """Reason why an allocation ends (spec § 1.4)."""

    UNKNOWN = 0
    STOPPED_BY_RM = 1
    TIMEOUT = 2
    PREEMPTED_BY_SCHEDULER = 3
    PLACEHOLDER_REPLACED = 4
    SCHEDULING_FAILED_ON_RM = 5


CONFIRMED: Final = frozenset(
    {TerminationType.TIMEOUT, TerminationType.PREEMPTED_BY_SCHEDULER, TerminationType.PLACEHOLDER_REPLACED}
)
"""Terminations by which the core requests the end of an allocation; all others are final (spec § 1.6.10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """One release by the RM; an empty key means all requests of the application (spec § 1.6.11)."""

    app_id: AppId
    key: AllocationKey
    termination: TerminationType = TerminationType.STOPPED_BY_RM
    partition: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateAllocations:
    """Asks and existing allocations in order, then releases (spec § 1.6.6)."""

    rm_id: RmId
    asks: Sequence[Ask] = ()
    releases: Sequence[ReleaseRequest] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRefusal:
    """A node that the RM refuses for an ask, and the reason."""

    node_id: NodeId
    reason: str


class PredicateAnswer(NamedTuple):
    """The RM's answer to one check. Nodes that it does not refuse are accepted."""

    check: int
    refused: Sequence[NodeRefusal] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPredicates:
    """The RM answers checks of `PredicatesAsked`, in the order in which it decided them."""

    rm_id: RmId
    answers: Sequence[PredicateAnswer]


class PreemptionAnswer(NamedTuple):
    """The RM's answer to one preemption check.

    `needed` has the nodes on which the ask can run, each with a position in the order of the check: the ask
    can run once the victims up to it have ended; -1 if none has to end. Missing nodes are refused.
    """

    check: int
    needed: Mapping[NodeId, int] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerPreemptions:
    """The RM answers checks of `PreemptionsAsked`."""

    rm_id: RmId
    answers: Sequence[PreemptionAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class NotePredicatesSent:
    """The checks up to this number have been written to the RM: the time for its answers begins now.

    A check that waits to be written has no deadline yet.
    """

    rm_id: RmId
    check: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginReplay:
    """The RM begins to report its whole state; none of its asks is scheduled until `EndReplay`."""

    rm_id: RmId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndReplay:
    """End a replay; the counts are the numbers of items that the RM has sent since its beginning."""

    rm_id: RmId
    nodes: int
    applications: int
    allocations: int


class Hold(Enum):
    """Reason why the asks of an RM are not being scheduled for the moment."""

    REPLAY = "replay in progress"
    OUTBOX_FULL = "outbox full"
    DRAINING = "server draining"
    DEFECT = "internal error"
    UNFINISHED = "large request in progress"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHold:
    """Set or clear one of the server's reasons to schedule nothing for an RM."""

    rm_id: RmId
    hold: Hold
    on: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Let time pass: fire due timers, then decide for one partition, with at most `decisions` decisions."""

    decisions: int = 256


OfRm = (
    RegisterRm
    | UpdateConfiguration
    | RemoveRm
    | UpdateNodes
    | UpdateApplications
    | UpdateAllocations
    | AnswerPredicates
    | AnswerPreemptions
    | ExtensionAnswer
    | NotePredicatesSent
    | BeginReplay
    | EndReplay
    | SetHold
    | ExtensionCommand
)
"""Commands of one RM."""
LargeCommand = (
    RegisterRm | UpdateConfiguration | ExtensionCommand | UpdateNodes | UpdateApplications | UpdateAllocations
)
"""Commands that may be carried out in slices; `Unfinished` has the remainder of such a command."""
OfNoRm = Tick | RefuseNewWork | SharedCommand
"""Commands that concern no single RM."""
Command = OfRm | OfNoRm


_DOUBLINGS: Final = 64
"""Maximum number of doublings of a back-off; by then any sensible maximum is exceeded."""


class AskBackoff(NamedTuple):
    """Back-off of an ask that its RM could not run, in seconds.

    It is `first` after the first failure, and twice as long after each further one, up to `most`.
    """

    first: float = 1.0
    most: float = 60.0

    def after(self, failures: int) -> float:
        """The back-off after this number of failures in a row, from 1 up."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, _DOUBLINGS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of a scheduler.

    `default_config` is the configuration of RMs that register without one; None for the built-in one.

    Without `reservations` no node is ever reserved for an ask (spec § 2.8).
    """

    default_config: Configuration | None = None
    reservations: bool = True
    ask_backoff: AskBackoff = AskBackoff()
    tuning: Tuning = field(default_factory=Tuning)
    rm_caps: RmCaps = field(default_factory=RmCaps)
