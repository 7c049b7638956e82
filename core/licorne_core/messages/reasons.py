"""Reasons that can block an ask, as values with their operands (DESIGN § 2).

The rules of `scheduling/checks.py` make the comparisons. They create these values, which have the texts, only
for explanations and metrics, not for decisions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from licorne_core.features import table
from licorne_core.messages.checks import ExtensionCheck, RuleCheck
from licorne_core.messages.commands import Hold
from licorne_core.messages.operators import HeldCheck, OperatorMark, StoppedQueueCheck, mark_text
from licorne_core.messages.together import TogetherCheck
from licorne_core.values.asks import QueueReservations, ReservationBound
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath
from licorne_core.values.resources import Resources, in_units

# In compiled code a dataclass has no class attributes for defaults, so codes to which rules refer are
# constants.
NEVER_FITS: Final = "NEVER_FITS"
PARTITION_NOT_SCHEDULING: Final = "PARTITION_NOT_SCHEDULING"
APPLICATION_NOT_RUNNABLE: Final = "APPLICATION_NOT_RUNNABLE"
ASK_BACKS_OFF: Final = "ASK_BACKS_OFF"
WAITS_FOR_PLACEHOLDER: Final = "WAITS_FOR_PLACEHOLDER"
TOO_MANY_ANSWERS_OWED: Final = "TOO_MANY_ANSWERS_OWED"
NO_NODE_FITS: Final = "NO_NODE_FITS"
QUOTA_CODES: Final = {
    "queue": "QUEUE_MAX_EXCEEDED",
    "user": "USER_QUOTA_EXCEEDED",
    "group": "GROUP_QUOTA_EXCEEDED",
}
"""Codes of `QueueCheck` and `LimitCheck`, by kind of quota; the codes of extensions are added below."""
RUNNING_CODES: Final = {kind: f"{kind.upper()}_MAX_APPLICATIONS" for kind in QUOTA_CODES}
"""Codes of `RunningCheck`, by kind of quota. Quotas of extensions limit no number of applications."""
QUOTA_CODES.update(table("messages", "QUOTA_CODES"))
KINDS: Final = tuple(QUOTA_CODES)
"""The kinds of quotas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeBound:
    """Amounts of an ask that a place is too small for, and its largest amounts, or the closest capacity."""

    where: str
    wanted: Resources
    most: Resources

    def text(self) -> str:
        """Both amounts, and the place of the largest."""
        return f"{in_units(self.wanted)} of at most {in_units(self.most)} {self.where}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeCheck:
    """The ask exceeds a maximum above it, or each node, even if nothing else runs."""

    bounds: tuple[SizeBound, ...]

    code = NEVER_FITS
    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        return f"can never start: wants {', and '.join(bound.text() for bound in self.bounds)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCheck:
    """Scheduling in the partition is on hold, or the partition has no nodes."""

    partition: str
    holds: tuple[Hold, ...]
    nodes: int
    passed: bool

    code = PARTITION_NOT_SCHEDULING

    def message(self) -> str:
        """The reason in one sentence."""
        if self.holds:
            return f"scheduling is on hold: {', '.join(hold.value for hold in self.holds)}"
        return f"partition {self.partition} has {self.nodes} nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCheck:
    """The application's state is one in which its asks are not considered."""

    app_id: AppId
    state: str
    passed: bool

    code = APPLICATION_NOT_RUNNABLE

    def message(self) -> str:
        """The reason in one sentence."""
        return f"application {self.app_id} is {self.state}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskBackOffCheck:
    """The ask backs off because its RM failed to run it, `failures` times in a row (§ 1.4).

    `until` is the end of the back-off, in unix seconds.
    """

    key: AllocationKey
    failures: int
    until: float

    code = ASK_BACKS_OFF
    passed = False

    def message(self) -> str:
        """The reason in one sentence."""
        times = "once" if self.failures == 1 else f"{self.failures} times in a row"
        return f"ask {self.key} backs off: it failed at the RM {times}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCheck:
    """An application that does not run yet must be admitted by every queue and limit (§§ 4.12, 10.5).

    The check passes if one more application may start.
    """

    kind: str
    name: str
    queue: QueuePath
    running: int
    max_applications: int
    passed: bool

    @property
    def code(self) -> str:
        """``QUEUE_MAX_APPLICATIONS``, ``USER_MAX_APPLICATIONS`` or ``GROUP_MAX_APPLICATIONS``."""
        return RUNNING_CODES[self.kind]

    @property
    def subject(self) -> str:
        """The queue, or the user or group and the queue."""
        queue = f"queue {self.queue}"
        return queue if self.kind == "queue" else f"{self.kind} {self.name} in {queue}"

    def message(self) -> str:
        """The reason in one sentence."""
        return f"{self.running} of {self.max_applications} applications run for {self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitCheck:
    """Usage of a user or a group in a queue, with the ask, must stay within the limit (§ 10.4).

    `short` is the excess of each type; empty if the ask fits.
    """

    kind: str
    name: str
    queue: QueuePath
    requested: Resources
    allocated: Resources
    max: Resources
    short: Resources

    @property
    def code(self) -> str:
        """``USER_QUOTA_EXCEEDED`` or ``GROUP_QUOTA_EXCEEDED``."""
        return QUOTA_CODES[self.kind]

    @property
    def passed(self) -> bool:
        """True if the ask fits within the limit."""
        return not self.short

    def message(self) -> str:
        """The reason in one sentence."""
        whom = f"{self.kind} {self.name} in queue {self.queue}"
        if self.passed:
            return f"fits in the limit of {whom}"
        return f"exceeds the limit of {whom} by {in_units(self.short)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueCheck:
    """Usage of a queue, with the ask, must stay within the queue's maximum.

    `short` is the excess of each type; empty if the ask fits.
    """

    queue: QueuePath
    requested: Resources
    allocated: Resources
    max: Resources | None
    short: Resources
    is_root: bool = False

    code = QUOTA_CODES["queue"]

    @property
    def passed(self) -> bool:
        """True if the ask fits within the maximum."""
        return not self.short

    def message(self) -> str:
        """The reason in one sentence."""
        if self.passed:
            return f"fits in queue {self.queue}"
        what = "the cluster" if self.is_root else f"the maximum of queue {self.queue}"
        return f"exceeds {what} by {in_units(self.short)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GangCheck:
    """A real ask waits as long as a placeholder of its task group is open (spec § 6.4).

    `keeping` is the number of placeholders that hold room for asks of its shape. `cancelled` is the number of
    placeholders too small for such an ask: the RM was asked to stop them, and has not confirmed it. The
    others are pending, or are being replaced. `until` is the time at which the placeholders time out, in unix
    seconds; 0 while none holds room.
    """

    app_id: AppId
    task_group: str
    count: int
    replaced: int
    timed_out: int
    keeping: int
    cancelled: int
    until: float
    passed: bool

    code = WAITS_FOR_PLACEHOLDER

    def message(self) -> str:
        """The reason in one sentence."""
        open_ones = self.count - self.replaced - self.timed_out
        if self.passed:
            return f"no placeholder of task group {self.task_group} is open"
        if self.cancelled:
            return (
                f"waits until no placeholder of task group {self.task_group} is open: "
                f"{self.cancelled} of {open_ones} are being stopped, as too small for an ask of "
                "the group"
            )
        return (
            f"takes the place of one of {open_ones} open placeholders of task group "
            f"{self.task_group}, of which {self.keeping} keep room and the others wait themselves "
            "or are being replaced"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersCheck:
    """The RM has to accept a node before a placement, but too many checks are open already (§ 8.4)."""

    waiting: int
    most: int
    passed: bool

    code = TOO_MANY_ANSWERS_OWED

    def message(self) -> str:
        """The reason in one sentence."""
        return f"{self.waiting} of {self.most} asks wait for answers of the RM about their nodes"


UNDER_WAY: Final = "PREEMPTION_UNDER_WAY"
"""Code of the check of an ask for which victims were stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionCheck:
    """Whether preemption can help an ask that a queue's maximum or the nodes block (spec § 9).

    `code` names the obstacle or the progress, and `text` adds the numbers. `queue` is the queue whose
    guarantee counts; `settled` is its usage once all decisions are carried out, and `guaranteed` its
    guarantee. `causes` has numbers of leaves and allocations that must not be victims, by reason. `until` is
    the time at which that changes without any other event, in unix seconds; 0 if it never does.
    """

    code: str
    text: str
    passed: bool
    queue: str = ""
    requested: Resources = field(default_factory=dict)
    settled: Resources = field(default_factory=dict)
    guaranteed: Resources = field(default_factory=dict)
    causes: Mapping[str, int] = field(default_factory=dict)
    until: float = 0.0

    def message(self) -> str:
        """The reason in one sentence."""
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesCheck:
    """Some schedulable node must have the ask's resources available.

    `causes` has numbers of nodes that cannot take the ask: ``unschedulable`` by their RM, ``cordoned`` by an
    operator, ``reserved`` for another ask, ``too small: T and U`` if even the empty node lacks these types,
    ``full: T`` if its available part lacks types, of which T is the first, ``refused: R`` if the RM gave the
    reason R. `reserved_node` is reserved for the ask. `reserved_for` has the queues with most of the
    ``reserved`` nodes, and `more_queues` is the number of other queues. `bound` prevents a reservation for
    the ask. `closed` has the first of the ``cordoned`` nodes.
    """

    total: int
    fitting: int
    required_node: NodeId | None = None
    reserved_node: NodeId | None = None
    causes: Mapping[str, int] = field(default_factory=dict)
    reserved_for: tuple[QueueReservations, ...] = ()
    more_queues: int = 0
    bound: ReservationBound | None = None
    closed: tuple[tuple[NodeId, OperatorMark], ...] = ()

    code = NO_NODE_FITS

    @property
    def passed(self) -> bool:
        """True if some node has room for the ask now."""
        return self.fitting > 0

    def message(self) -> str:
        """The reason in one sentence."""
        if self.passed:
            return f"fits on {self.fitting} of {self.total} nodes"
        if self.required_node is not None and not self.total:
            return f"required node {self.required_node} is not registered"
        details = {"reserved": self._holders(), "cordoned": self._operators()}
        counts = ", ".join(
            f"{count} {cause}{details.get(cause, '')}" for cause, count in sorted(self.causes.items())
        )
        kept = f"; node {self.reserved_node} is reserved for it" if self.reserved_node else ""
        bound = "" if self.bound is None else f"; {self.bound.message()}"
        return f"fits on none of {self.total} nodes" + (f": {counts}" if counts else "") + kept + bound

    def _operators(self) -> str:
        """The first closed nodes in brackets, each with its operator and the reason."""
        parts = [f"{node_id}{mark_text(mark)}" for node_id, mark in self.closed]
        more = self.causes.get("cordoned", 0) - len(parts)
        return f" ({'; '.join(parts)}{f'; and {more} more' if more else ''})" if parts else ""

    def _holders(self) -> str:
        """Queues with reserved nodes, in brackets; empty if there are none."""
        parts = [f"{of.nodes} for {of.queue}: {of.reason.text}" for of in self.reserved_for]
        if self.more_queues:
            parts.append(f"others for {self.more_queues} more queues")
        return f" ({'; '.join(parts)})" if parts else ""


Check = (
    SizeCheck
    | PartitionCheck
    | StateCheck
    | HeldCheck
    | StoppedQueueCheck
    | RunningCheck
    | AskBackOffCheck
    | LimitCheck
    | QueueCheck
    | ExtensionCheck
    | RuleCheck
    | GangCheck
    | TogetherCheck
    | AnswersCheck
    | NodesCheck
    | PreemptionCheck
)
