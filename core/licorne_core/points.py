"""The points at which a feature takes part: `Extension`, which those of `standard` and `extensions` extend.

The kernel calls the features of a partition, and names none of them. They are asked in the order of their
tables (`features.py`) at every point but `leaf_for`; nothing that they say is merged or weighted. A point
asks those alone that say something there (`Points`): what has no part in it costs nothing. An
extension that keeps something of an application sets its bit in the application's `interests`, and keeps
the rest by itself: where the bits are 0 the kernel asks nobody. The kernel's neutral words for what they
have to say are named at each point. What the partitions of all RMs share is a `Shared` (`model/core.py`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from licorne_core.config.schema import PartitionConfig, QueueSettings
from licorne_core.messages.commands import NewApplication
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import Gang, GangUnits
from licorne_core.model.apps.groups import AskGroup
from licorne_core.model.apps.requests import Place, Request
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
    """What a queue was before it followed a configuration."""

    max: Resources | None
    settings: QueueSettings
    managed: bool


class Home(NamedTuple):
    """The leaf that a new application goes to."""

    leaf: Queue
    may_size: bool
    """True if a size that the application brings is the leaf's."""


class Extension:
    """A feature of one partition. A point that is left as it is here means nothing to the feature.

    A feature's settings are those of its `keys.py`, which the configuration reads: they are
    `queue.settings.of(NAME)`, and its flags `config.switches`. Its fields in reports are those of its
    `reports.py`.
    """

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Of a new partition, whose parts are there. `bit` is its own in `interests`."""
        self.name = name
        self.bit = bit
        self.context = context
        """Of the partition: its queues, applications, nodes, and what decides about them."""
        self.dirty: Dirty = context.dirty
        """Where it tells what has to be tried, or ranked, anew."""
        self.remedies: Remedies = {}
        """Remedies for asks that found no node, by the kind of their requests."""
        self.stages: Sequence[Stage] = ()
        """What is tried before the queues, or behind them."""
        self.timers: Timers[Timer] = context.timers
        """Of the partition: `Timer(Due.EXTENSION, name=...)` is the one of this extension, and
        `Due.EXTENSION_WORK` for work of which there may be very much. They call `pass_time` and `work`, or
        what `DEADLINES` of its `handlers.py` has by that name."""

    # Configuration: keys and flags are in `keys.py`

    def configure(self, config: PartitionConfig) -> None:
        """The partition, which may be new, begins to follow this configuration; its queues do so next."""

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """A queue has followed the configuration, and its parent before it; `before` is it before that.

        It is empty for a new queue, and None for one that no configuration has changed: placement has made
        it, or it holds applications from now on, as its last child is gone. After a reload all asks are tried
        anew, so that nothing has to be marked for them here.
        """

    def removed(self, queue: Queue) -> None:
        """A queue is gone, and was empty."""

    def flagged(self) -> None:
        """The RM has other flags in its extra configuration (`context.flags`); all asks are tried anew."""

    def reloaded(self, now: float) -> None:
        """All queues of a partition that was there before have followed another configuration."""

    def adapt(self, partition: Any, config: PartitionConfig, now: float) -> Iterator[int]:
        """The same partition follows the configuration: change what waits in it, in steps of the job."""
        return iter(())

    def follow(self, app: Application, leaf: Queue, now: float) -> Iterator[int]:
        """Follow the settings of the leaf that the application comes into, moves to or is in, in steps."""
        return iter(())

    # Admission of applications and asks; all of it may raise `Rejected`

    def leaf_for(self, new: NewApplication, gang: Gang) -> Home | None:
        """The leaf of a new application, whose user has been checked: found, or created for it.

        The last of the tables is asked first, as a standard feature has an answer for all.

        Raises:
            Rejected: it has none, and nothing was created.
        """
        return None

    def units(self, tags: Mapping[str, str]) -> GangUnits | None:
        """The units in which the gang of a new application is placed and stopped, by its tags.

        Raises:
            Rejected: the tags are not understood.
        """
        return None

    def node_terms(self, tags: Mapping[str, str]) -> NodeTerms | None:
        """What the tags of a new application say of the nodes that its gang may be on.

        Raises:
            Rejected: the tags are not understood.
        """
        return None

    def joining(self, app_id: AppId, gang: Gang) -> None:
        """A new application wants to join, and is not forced.

        Raises:
            Rejected: its gang cannot have its terms.
        """

    def arriving(self, app: Application, ask: Ask) -> Ask:
        """A new ask of an application of interest, which may be another one by what the extension knows."""
        return ask

    # Quotas beyond those of queues, users and groups

    def quotas(self, app: Application, leaf: Queue) -> tuple[SharedQuota, ...]:
        """Further quotas of an application that comes into the leaf: its asks have to fit in these, too."""
        return ()

    def counted(self) -> Iterable[SharedQuota]:
        """Those of `quotas` in which applications of this partition count, and no others."""
        return ()

    # Turn: `begin` and `seek` come before the first decision, `idle` behind the last. The attributes `stages`
    # and `remedies` decide in between

    def begin(self, now: float) -> bool:
        """A turn, or a scan of all that waits, begins while somebody follows usage.

        False if there is too much to do for one turn: another one decides. Those behind are not asked then.
        """
        return True

    def seek(self) -> None:
        """A turn begins while rooms are kept for members of gangs: find nodes for those that have none."""

    def visited(self, leaf: Queue, app: Application) -> Sequence[AskGroup]:
        """Groups to be tried although they are parked, as the pass comes to an application that may pause."""
        return ()

    def pauses(self, leaf: Queue, app: Application, found: Place | None, now: float) -> Blocker | None:
        """The blocker of an application that pauses from now on, in a leaf of interest; None if it goes on.

        It is about to be served with `found`, or without any ask that could be.
        """
        return None

    def idle(self, now: float) -> None:
        """A turn has ended that left asks, and nothing is tried before something changes."""

    # Order: see also `Precedence` of a queue; one extension at the most calls `scheduling.order.raise_by`

    def admitted(self, leaf: Queue, app: Application) -> Sequence[tuple[Application, bool]] | None:
        """Applications of a leaf of interest that are ranked anew with this one; None: as all others.

        Each with True if it may be looked at.
        """
        return None

    # Life of requests, and usage: who follows that of all queues says so by `dirty.usage.follow`

    def entered(self, app: Application, request: Request, now: float) -> None:
        """A request of an application of interest is pending, or pending again, and counted as such."""

    def left(self, app: Application, now: float) -> None:
        """A request of an application of interest is not pending any more, as its state says."""

    def served(self, leaf: Queue, app: Application, allocation: Allocation, now: float) -> None:
        """An ask was placed by a decision in a leaf of interest, and is booked."""

    def ended(self, app: Application, request: Request, now: float) -> None:
        """An allocation of an application of interest ends: its RM says so, or the application has failed."""

    def freed(self, app: Application, request: Request, now: float) -> None:
        """An allocation of an application of interest ends for whatever reason, and no ask has its room.

        It is booked until right after that. Not told where an application ends with all that it has.
        """

    def answered(self, app: Application) -> None:
        """The RM has answered about nodes that nothing of the application is on yet, or does not answer."""

    def put_off(self, stop: Any) -> bool:
        """A victim is about to be stopped, a `Stop` of `standard/preemption`: True if it runs on for a while.

        What keeps it running is then in `context.stays` (`Stay`), and no other feature is asked.
        """
        return False

    def grown(self, leaf: Queue, now: float) -> None:
        """Usage was booked in the leaf regardless of its maximum: recovered, resized, placed."""

    def settle(self, touched: Mapping[Application, Queue], queues: Sequence[Queue], now: float) -> None:
        """Usage of applications in these leaves, and of the queues up to root, may have changed at `now`.

        Somebody follows usage, and a command or a turn is at its end: all its changes have one time.
        """

    # Life of applications and nodes; some nodes are closed to new allocations (`Node.closed`)

    def state_entered(self, leaf: Queue, app: Application) -> None:
        """An application of a leaf of interest is in another state."""

    def departed(self, leaf: Queue, app: Application) -> None:
        """An application has left a leaf of interest."""

    def gone(self, app: Application) -> None:
        """An application of interest has ended, or its partition has: keep nothing of it.

        One that has ended is still listed.
        """

    def dispose(self) -> Iterator[int]:
        """The partition is gone: let go of what is kept of queues, in steps of what is let go."""
        return iter(())

    def has(self, node: Node, now: float) -> None:
        """A closed node has come, or an allocation has come to one or is not to be stopped any more."""

    def went(self, node: Node) -> None:
        """A node has gone, with all that was on it. Not told where its partition goes."""

    # Time

    def pass_time(self, now: float, most: int) -> int:
        """Follow the time: its timer is due, or a scan of all that waits begins; return the work done.

        A tick deals with 64 deadlines of an RM at the most, so a turn may come before it. What must be exact
        as a turn begins overrides `begin` as well, and follows usage while it has something to follow.
        """
        return 0

    def work(self, job: Any) -> Iterator[int]:
        """The extension's timer for work is due: do it in steps of the job, a `TimerJob`."""
        return iter(())

    def awaited(self) -> float | None:
        """The last time (unix seconds) that it waits for: 0.0 for no certain one, None without any."""
        return None

    # Outside: also `handlers.py` and `reports.py`

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Derive all that is kept anew, and compare. Without a time: deadlines say how long it holds.

        It may be behind in the middle of a command, which is then not `settled`.

        Raises:
            InvariantBroken: something differs.
        """

    # What outlives the partition: marks of operators, and what was used. The RM says when its replay is over

    def take_marks(self, marks: Mapping[str, Any]) -> None:
        """Of a new partition: what operators did to things before, by their names."""

    def marks(self) -> Mapping[str, Any]:
        """What is to be known to a later partition of this name."""
        return {}

    def kept(self, now: float) -> Iterator[Mapping[Any, Any] | None]:
        """What a later partition of the name is to know, by owners, the oldest first (`Kept`).

        After a None wherever the reader may pause: it is read while the partition goes on, too.
        """
        return iter(())

    def restore(self, kept: Mapping[Any, Any], now: float) -> Iterator[int]:
        """Start from what was kept, before any queue is there; each step yields its cost."""
        return iter(())

    def replayed(self) -> None:
        """The RM has told of all that it has."""


MOST_SETTLED: Final = 500
"""Things that an extension lets follow the time at once where others are about to read them."""

POINTS: Final = {
    "configuration": ("keys", "configure", "settled", "removed", "flagged", "reloaded", "adapt", "follow"),
    "whole core": ("shared",),
    "admission": ("leaf_for", "units", "node_terms", "joining", "arriving"),
    "rules": ("rules",),
    "quotas": ("quotas", "counted"),
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
    "life of things": ("state_entered", "departed", "gone", "dispose", "has", "went"),
    "time": ("pass_time", "work", "awaited"),
    "outside": ("handlers", "reports", "recount"),
    "what outlives": ("take_marks", "marks", "kept", "restore", "replayed"),
}
"""The points: methods of `Extension`, and modules with tables, by what they are about."""

Kinds = Sequence[tuple[str, int, type[Extension]]]
"""Names and bits of extensions, in the order of the table."""


class Points:
    """The extensions of a partition by the points at which they have something to say."""

    def __init__(self, kinds: Kinds) -> None:
        """Of a partition that is being made: nobody is asked before `open`."""
        self._kinds = kinds
        self._ask(())

    def open(self, context: CheckContext) -> None:
        """Make the extensions of a partition whose parts are there, in the order of the table."""
        self._ask(tuple(kind(name, bit, context) for name, bit, kind in self._kinds))
        context.extensions.update(self._by_name)
        context.visited, context.pauses, context.pausing = self.visited, self.pauses, self.pausing
        context.seeking = self.seek
        context.dirty.ranks.admitting = self.admitted

    def close(self, context: CheckContext) -> None:
        """The partition is gone: nothing leads from its parts to the extensions, which lead to them."""
        context.extensions.clear()
        context.pausing = 0
        context.visited = context.pauses = context.seeking = context.dirty.ranks.admitting = ()
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
        """Bits of those that may pause an application."""
        self.configure = self._at("configure")
        self.settled = self._at("settled")
        self.removed = self._at("removed")
        self.flagged = self._at("flagged")
        self.reloaded = self._at("reloaded")
        self.adapt = self._at("adapt")
        self.follow = self._at("follow")
        self.units = self._at("units")
        self.node_terms = self._at("node_terms")
        self.joining = self._at("joining")
        self.arriving = self._at("arriving")
        self.entered = self._at("entered")
        self.left = self._at("left")
        self.gone = self._at("gone")
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
        self.has = self._at("has")
        self.went = self._at("went")
        self.take_marks = self._at("take_marks")
        self.marks = self._at("marks")
        self.quotas = self._at("quotas")
        self.counted = self._at("counted")
        self.seek = self._at("seek")
        self.visited = self._at("visited")
        self.pauses = self._at("pauses")
        self.settle = self._at("settle")
        self.begin = self._at("begin")
        self.kept = self._at("kept")
        self.restore = self._at("restore")
        self.pass_time = self._at("pass_time")
        self.awaited = self._at("awaited")
        self.idle = self._at("idle")
        self.put_off = self._at("put_off")
        self.recount = self._at("recount")

    def named(self, name: str) -> Extension:
        """The extension of that name, which is there."""
        return self._by_name[name]

    def home_of(self, new: NewApplication, gang: Gang) -> Home:
        """The leaf of a new application."""
        found = (feature.leaf_for(new, gang) for feature in reversed(self.leaf_for))
        return next(home for home in found if home is not None)

    def units_by(self, tags: Mapping[str, str]) -> GangUnits | None:
        """The units of the gang of a new application: those of the first extension that says some."""
        found = (extension.units(tags) for extension in self.units)
        return next((units for units in found if units is not None), None)

    def terms_by(self, tags: Mapping[str, str]) -> NodeTerms | None:
        """The terms of the gang of a new application: those of the first extension that says some."""
        found = (extension.node_terms(tags) for extension in self.node_terms)
        return next((terms for terms in found if terms is not None), None)

    def further(self, app: Application, leaf: Queue) -> tuple[SharedQuota, ...]:
        """Further quotas of an application in the leaf, of all extensions."""
        found: tuple[SharedQuota, ...] = ()
        for extension in self.quotas:
            found += extension.quotas(app, leaf)
        return found

    def own_quotas(self) -> list[SharedQuota]:
        """Those in which applications of this partition count, and no others."""
        return [quota for extension in self.counted for quota in extension.counted()]

    def _at(self, point: str) -> tuple[Extension, ...]:
        unused = getattr(Extension, point)
        return tuple(each for each in self.all if getattr(type(each), point) is not unused)
