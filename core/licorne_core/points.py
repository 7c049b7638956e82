"""The points at which a feature is called: `Extension`, the base of standard features and extensions.

The kernel calls the features of a partition, without naming them. They are called in the order of their
tables (`features.py`) at every point except `leaf_for`; their results are never merged or weighted. A point
calls only features that override it (`Points`): others cost nothing. An extension that has a rule or state
for an application or a leaf sets its bit in the `interests` there, and stores the state itself. Then the
application or leaf is *of interest* to it: where the bits are 0 the kernel calls no extension. The results of
points have neutral types of the kernel. State that the partitions of all RMs share is in a `Shared`
(`model/core.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, NamedTuple

from licorne_core.config.schema import PartitionConfig, QueueSettings
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang, GangUnits
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import AskPlace, Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.model.quotas import SharedQuota
from licorne_core.scheduling.gang_sets import NodeTerms
from licorne_core.scheduling.measures import Remedies
from licorne_core.scheduling.rules import CheckContext
from licorne_core.scheduling.stages import Stage
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.dirty import Dirty
from licorne_core.values.asks import Allocation, Ask
from licorne_core.values.ids import AppId
from licorne_core.values.resources import Resources
from licorne_core.values.timers import Timer, Timers


class Former(NamedTuple):
    """Properties of a queue before a configuration was applied to it."""

    max: Resources | None
    settings: QueueSettings
    managed: bool


class Home(NamedTuple):
    """The leaf for a new application."""

    leaf: Queue
    may_size: bool
    """True if a size in the application's tags applies to the leaf."""


class Extension:
    """A feature of one partition. A point that a feature does not override is never called.

    The configuration reads a feature's settings by its `keys.py`; they are in `queue.settings.of(NAME)`, and
    its flags in `config.switches`. Its `reports.py` has its fields in reports.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Create the feature for a new partition, whose parts exist. `bit` is its bit in `interests`."""
        self.name = name
        self.bit = bit
        self.context = context
        """The partition's queues, applications and nodes, and the parts that make decisions."""
        self.dirty: Dirty = context.dirty
        """The dirty set, for marking objects that have to be tried or ranked again."""
        self.remedies: Remedies = {}
        """Remedies for asks that found no node, by the kind of their requests."""
        self.stages: Sequence[Stage] = ()
        """Stages that are tried before or after the queues."""
        self.timers: Timers[Timer] = context.timers
        """The partition's timers: `Timer(Due.EXTENSION, name=...)` is the timer of this extension, and
        `Due.EXTENSION_WORK` its timer for work in steps. They call `pass_time` and `work`, or the entry of
        that name in `DEADLINES` of its `handlers.py`."""

    # Configuration: keys and flags are in `keys.py`

    def configure(self, config: PartitionConfig) -> None:
        """Apply a configuration to the partition, which may be new; its queues follow."""

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Called after a configuration was applied to a queue; `before` has its former properties.

        `before` has the defaults for a new queue, and is None if no configuration has changed it: placement
        has created it, or it has become a leaf with the removal of its last child. After a reload all asks
        are tried again, so that nothing has to be marked for them here.
        """

    def removed(self, queue: Queue) -> None:
        """Called after an empty queue was removed."""

    def flagged(self) -> None:
        """Called after the extra configuration changed flags (`context.flags`); all asks are tried again."""

    def reloaded(self, now: float) -> None:
        """Called after all queues of an existing partition got a new configuration."""

    def adapt(self, partition: Any, config: PartitionConfig, now: float) -> Iterator[int]:
        """Adapt the waiting asks of an existing partition to a new configuration, in steps of the job."""
        return iter(())

    def apply_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Apply the leaf's settings, in steps, once the application has entered it or one has changed."""
        return iter(())

    # Admission of applications and asks; all of it may raise `Rejected`

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home | None:
        """The leaf of a new application, existing or created for it. The user was checked before.

        The last feature in the tables is called first, as a standard feature has an answer for all
        applications.

        Raises:
            Rejected: there is no leaf, and none was created.
        """
        return None

    def units(self, tags: Mapping[str, str]) -> GangUnits | None:
        """The units in which a new application's gang is placed and stopped, by its tags; None for no units.

        Raises:
            Rejected: the tags are invalid.
        """
        return None

    def node_terms(self, tags: Mapping[str, str]) -> NodeTerms | None:
        """The terms that a new application's tags set for the nodes of its gang; None if they set none.

        Raises:
            Rejected: the tags are invalid.
        """
        return None

    def joining(self, app_id: AppId, gang: Gang) -> None:
        """Check a new application that is not forced.

        Raises:
            Rejected: its gang cannot have its terms.
        """

    def arriving(self, app: Application, ask: Ask) -> Ask:
        """Return the new ask of an application of interest, or a changed ask to use in its place."""
        return ask

    # Times and quotas beyond those of queues, users and groups

    def opens(self, leaf: Queue, time: float) -> tuple[bool, float]:
        """Whether asks of the leaf may start at a time from now on, and until when.

        Only obstacles that end by themselves at a known time count; their blockers are `Timed`.
        """
        return True, inf

    def quotas(self, app: Application, leaf: Queue) -> tuple[SharedQuota, ...]:
        """Additional quotas of an application that enters the leaf, in which its asks have to fit too."""
        return ()

    def counted(self) -> Iterable[SharedQuota]:
        """All quotas returned by `quotas` in which applications of this partition count."""
        return ()

    # Turn: `begin` and `seek` precede the first decision, `idle` follows the last. The attributes `stages`
    # and `remedies` decide in between

    def begin(self, now: float) -> bool:
        """Called before a turn, or a scan of all waiting asks, if any extension tracks usage.

        False if the work is too much for one turn: a later turn decides, and later extensions are not called.
        """
        return True

    def seek(self) -> None:
        """Find nodes for rooms without one; called as a turn begins while members have reserved rooms."""

    def visited(self, leaf: Queue, app: Application) -> Sequence[AskGroup]:
        """Parked groups to try nevertheless; called when the pass tries an application that may pause."""
        return ()

    def pauses(self, leaf: Queue, app: Application, found: AskPlace | None, now: float) -> Blocker | None:
        """The blocker of an application that is to be paused, in a leaf of interest; None if it is not.

        The pass is about to serve `found`, or has found no ask to serve.
        """
        return None

    def idle(self, now: float) -> None:
        """Called after a turn with pending asks, if no ask is tried before something changes."""

    # Order: see also `Precedence` of a queue; at most one extension calls `scheduling.order.raise_by`

    def admitted(self, leaf: Queue, app: Application) -> Sequence[tuple[Application, bool]] | None:
        """Applications of a leaf of interest to rank again with this one; None for the usual rank.

        Each is returned with True if it may be tried.
        """
        return None

    # Life of requests, and usage; an extension tracks the usage of all queues after `dirty.usage.track`

    def entered(self, app: Application, request: Request, now: float) -> None:
        """Called after a request of an application of interest became pending, perhaps again."""

    def left(self, app: Application, now: float) -> None:
        """Called when the state of a request of an application of interest is no longer pending."""

    def served(self, leaf: Queue, app: Application, allocation: Allocation, now: float) -> None:
        """Called after a decision has placed an ask in a leaf of interest, and the ask is booked."""

    def ended(self, app: Application, request: Request, now: float) -> None:
        """Called when an allocation of an application of interest ends: by its RM, or after a failure."""

    def freed(self, app: Application, request: Request, now: float) -> None:
        """Called when an allocation of an application of interest ends, and no ask gets its room.

        It is booked until right after this call. Not called if an application ends with all its allocations.
        """

    def answered(self, app: Application) -> None:
        """Called after the RM has answered an application's first question about nodes, or has failed to."""

    def put_off(self, stop: Any) -> bool:
        """Return True to delay the stop of a victim, a `Stop` of `standard/preemption`.

        Only stops of victims in a leaf of interest may be delayed, as their room is planned for only
        one ask. Then the `Stay` of the victim is in `context.stays`, and no other feature is called.
        """
        return False

    def grown(self, leaf: Queue, now: float) -> None:
        """Called after usage was booked regardless of the maximum: recovered, resized or placed by the RM."""

    def settle(self, touched: Mapping[Application, Queue], queues: Sequence[Queue], now: float) -> None:
        """Note that usage of these applications and of their queues up to root may have changed at `now`.

        Called at the end of a command or a turn while an extension tracks usage: all changes of that command
        or turn have one time.
        """

    # Life of applications and nodes; a node may be closed to new allocations (`Node.closed`)

    def state_entered(self, leaf: Queue, app: Application) -> None:
        """Called after an application of a leaf of interest has entered another state."""

    def departed(self, leaf: Queue, app: Application) -> None:
        """Called after an application has left a leaf of interest."""

    def app_gone(self, app: Application) -> None:
        """An application of interest has ended, or its partition was removed: drop all state for it.

        An application that has ended is still listed.
        """

    def dispose(self) -> Iterator[int]:
        """The partition was removed: drop references to queues; yield the cost of each step."""
        return iter(())

    def closed_node_changed(self, node: Node, now: float) -> None:
        """Called after a closed node was added, or an allocation was added or spared on a closed node."""

    def node_lost(self, node: Node) -> None:
        """Called after a node was removed with all its allocations, but not if the partition is removed."""

    # Time

    def pass_time(self, now: float, most: int) -> int:
        """Follow the time: the timer is due, or a scan of all waiting asks begins; return the work done.

        A tick handles at most 64 deadlines of an RM, so a turn may come before this. State that must be exact
        when a turn begins needs `begin` as well; the extension has to track usage meanwhile.
        """
        return 0

    def work(self, job: Any) -> Iterator[int]:
        """Execute the work for which the extension's timer is due, in steps of the job, a `TimerJob`."""
        return iter(())

    def awaited(self) -> float | None:
        """The last time for which the extension waits, in unix seconds; 0.0 if unknown, None if none."""
        return None

    # Outside: see also `handlers.py` and `reports.py`

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Recompute all state, and compare it. No time is needed, as deadlines limit the validity of state.

        In the middle of a command the state may be out of date; then `settled` is False.

        Raises:
            InvariantBroken: the state differs.
        """

    # State that outlives the partition: marks of operators, and usage. The RM ends its replay by a command

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Restore the marks of operators in a new partition, by the names of their objects."""

    def marks(self) -> Mapping[str, Any]:
        """The marks for a later partition with the same name."""
        return {}

    def retained(self, now: float) -> Iterator[Mapping[Any, Any] | None]:
        """State to retain for a later partition of this name, by owner, the oldest first (`Kept`).

        None marks a possible pause of the reader: the partition may be in use meanwhile.
        """
        return iter(())

    def restore(self, kept: Mapping[Any, Any], now: float) -> Iterator[int]:
        """Restore retained state before any queue exists; each step yields its cost."""
        return iter(())

    def replayed(self) -> None:
        """Called after the RM has reported its whole state."""


MOST_SETTLED: Final = 500
"""Maximum number of objects that an extension updates at once before their order is read."""

POINTS: Final = {
    "configuration": (
        "keys",
        "configure",
        "settled",
        "removed",
        "flagged",
        "reloaded",
        "adapt",
        "apply_leaf",
    ),
    "whole core": ("shared",),
    "admission": ("leaf_for", "units", "node_terms", "joining", "arriving"),
    "rules": ("rules",),
    "times and quotas": ("opens", "quotas", "counted"),
    "turn": ("begin", "seek", "visited", "pauses", "idle"),
    "order": ("admitted",),
    "life of requests": (
        "entered",
        "left",
        "served",
        "ended",
        "freed",
        "answered",
        "put_off",
        "grown",
        "settle",
    ),
    "life of things": (
        "state_entered",
        "departed",
        "app_gone",
        "dispose",
        "closed_node_changed",
        "node_lost",
    ),
    "time": ("pass_time", "work", "awaited"),
    "outside": ("handlers", "reports", "recount"),
    "what outlives": ("take_marks", "marks", "retained", "restore", "replayed"),
}
"""The points by subject: methods of `Extension`, and modules with tables."""

Kinds = Sequence[tuple[str, int, type[Extension]]]
"""Names and bits of extensions, in the order of the table."""


class Points:
    """The extensions of a partition by the points that they override."""

    def __init__(self, kinds: Kinds) -> None:
        """Start for a partition under construction: no extension is called before `open`."""
        self._kinds = kinds
        self._ask(())

    def open(self, context: CheckContext) -> None:
        """Create the extensions of a partition once its parts exist, in the order of the table."""
        self._ask(tuple(kind(name, bit, context) for name, bit, kind in self._kinds))
        context.extensions.update(self._by_name)
        context.visited, context.pauses, context.pausing = self.visited, self.pauses, self.pausing
        context.seeking, context.opens = self.seek, self.opens
        context.delaying = sum(each.bit for each in self.put_off)
        context.dirty.ranks.admitting = self.admitted

    def close(self, context: CheckContext) -> None:
        """Remove references from the parts of a removed partition to the extensions, and so the cycles."""
        context.extensions.clear()
        context.pausing = context.delaying = 0
        context.visited = context.pauses = context.seeking = context.opens = ()
        context.dirty.ranks.admitting = ()
        self._ask(())

    @property
    def remedies(self) -> Remedies:
        """The remedies of all extensions."""
        return {kind: remedy for each in self.all for kind, remedy in each.remedies.items()}

    @property
    def stages(self) -> Sequence[Stage]:
        """The stages of all extensions."""
        return [stage for each in self.all for stage in each.stages]

    def _ask(self, extensions: tuple[Extension, ...]) -> None:
        self.all = extensions
        self._by_name = {each.name: each for each in extensions}
        self.pausing = sum(each.bit for each in self._at("pauses"))
        """Bits of the extensions that may pause an application."""
        self.configure = self._at("configure")
        self.settled = self._at("settled")
        self.removed = self._at("removed")
        self.flagged = self._at("flagged")
        self.reloaded = self._at("reloaded")
        self.adapt = self._at("adapt")
        self.apply_leaf = self._at("apply_leaf")
        self.units = self._at("units")
        self.node_terms = self._at("node_terms")
        self.joining = self._at("joining")
        self.arriving = self._at("arriving")
        self.entered = self._at("entered")
        self.left = self._at("left")
        self.app_gone = self._at("app_gone")
        self.dispose = self._at("dispose")
        self.ended = self._at("ended")
        self.freed = self._at("freed")
        self.answered = self._at("answered")
        self.state_entered = self._at("state_entered")
        self.served = self._at("served")
        self.departed = self._at("departed")
        self.admitted = self._at("admitted")
        self.grown = self._at("grown")
        self.leaf_for = self._at("leaf_for")
        self.replayed = self._at("replayed")
        self.closed_node_changed = self._at("closed_node_changed")
        self.node_lost = self._at("node_lost")
        self.take_marks = self._at("take_marks")
        self.marks = self._at("marks")
        self.opens = self._at("opens")
        self.quotas = self._at("quotas")
        self.counted = self._at("counted")
        self.seek = self._at("seek")
        self.visited = self._at("visited")
        self.pauses = self._at("pauses")
        self.settle = self._at("settle")
        self.begin = self._at("begin")
        self.retained = self._at("retained")
        self.restore = self._at("restore")
        self.pass_time = self._at("pass_time")
        self.awaited = self._at("awaited")
        self.idle = self._at("idle")
        self.put_off = self._at("put_off")
        self.recount = self._at("recount")

    def enter_leaf(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Apply the leaf's settings, and the present quotas of the application, in steps."""
        for extension in self.apply_leaf:
            yield from extension.apply_leaf(app, leaf, now)

    def named(self, name: str) -> Extension:
        """The extension with the name, which must exist."""
        return self._by_name[name]

    def home_of(self, new: NewApplication, gang: Gang) -> Home:
        """The leaf of a new application."""
        found = (feature.leaf_for(new, gang) for feature in reversed(self.leaf_for))
        return next(home for home in found if home is not None)

    def units_by(self, tags: Mapping[str, str]) -> GangUnits | None:
        """The units of a new application's gang, from the first extension that defines some; or None."""
        found = (extension.units(tags) for extension in self.units)
        return next((units for units in found if units is not None), None)

    def terms_by(self, tags: Mapping[str, str]) -> NodeTerms | None:
        """The terms of a new application's gang, from the first extension that defines some; or None."""
        found = (extension.node_terms(tags) for extension in self.node_terms)
        return next((terms for terms in found if terms is not None), None)

    def further(self, app: Application, leaf: Queue) -> tuple[SharedQuota, ...]:
        """Additional quotas of an application in the leaf, of all extensions."""
        found: tuple[SharedQuota, ...] = ()
        for extension in self.quotas:
            found += extension.quotas(app, leaf)
        return found

    def own_quotas(self) -> list[SharedQuota]:
        """All quotas of extensions in which applications of this partition count."""
        return [quota for extension in self.counted for quota in extension.counted()]

    def _at(self, point: str) -> tuple[Extension, ...]:
        unused = getattr(Extension, point)
        return tuple(each for each in self.all if getattr(type(each), point) is not unused)
