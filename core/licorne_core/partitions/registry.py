"""The registered RMs and their partitions (DESIGN § 2: no state is shared).

It also disposes of removed partitions, so that their memory is freed (DESIGN § 2).

The objects of a partition refer to one another, so Python frees none of them when the partition is dropped,
except by the garbage collector, which would visit the objects of all RMs. So a removed partition is taken
apart, a slice at a time.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from licorne_core.config.extra import ExtraConfig, read_extra
from licorne_core.config.schema import Configuration
from licorne_core.messages.commands import Hold, Options, RegisterRm
from licorne_core.model.apps.application import Application
from licorne_core.model.core import Core, Shared
from licorne_core.model.rm_context import RmContext
from licorne_core.partitions.agenda import Agenda
from licorne_core.partitions.jobs import Jobs, Slice
from licorne_core.partitions.kept import KeptOfPartitions
from licorne_core.partitions.partition import Partition, forget_all_ended
from licorne_core.points import Kinds
from licorne_core.scheduling.waiting.wakeups import Wakeups
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import (
    NodeId,
    PartitionName,
    RmId,
    bare_partition,
    normalize_partition,
    partition_key,
    partition_name,
    rm_of,
)
from licorne_core.values.rm_caps import Holdings, MemoryPressure

MOST = 1_000
"""Number of requests, applications, nodes, allocations and queues that are released at a time."""


class Disposal:
    """The removed partitions that still use memory."""

    def __init__(self) -> None:
        """Start without partitions."""
        self.gone: deque[Iterator[int]] = deque()
        """Progress of each disposal."""

    def add(self, partition: Partition) -> None:
        """Add a removed partition, which must not be used any more."""
        self.gone.append(_take_apart(partition))

    def take_apart(self) -> None:
        """Release a slice of the oldest removed partition; there must be one."""
        if Slice(MOST).spend(self.gone[0]):
            self.gone.popleft()


def _take_apart(partition: Partition) -> Iterator[int]:
    """Release all objects, step by step; each step yields the number of objects released."""
    wakeups, applications = partition.wakeups, partition.applications
    # The job refers to the partition.
    partition.job = None
    for reservation in list(wakeups.reserved):
        wakeups.reserved.remove(reservation)
        yield 1
    while applications:
        _, app = applications.popitem()
        if app.interests:
            for extension in partition.points.app_gone:
                extension.app_gone(app)
        yield from _let_go(app, wakeups)
    yield from partition.index.clear()
    nodes = partition.nodes.by_id
    while nodes:
        _, node = nodes.popitem()
        partition.nodes.changed.forget(node)
        for things in (node.allocations, node.foreign, node.reservations, node.claims):
            yield from _empty(things)
        yield 1
    yield from _empty(partition.foreign)
    # Only the queues still refer to applications, groups of asks and nodes.
    yield from partition.tree.take_apart()
    for extension in partition.points.dispose:
        yield from extension.dispose()
    here = (partition.completed, partition.rejected, partition.claims.held, partition.usage.touched)
    for known in (*here, partition.dirty.things):
        yield from _empty(known)
    partition.wakeups.clear()
    partition.nodes.changed.clear()
    partition.effort.forget()
    partition.points.close(partition.check_context)


def _empty(things: dict[Any, Any]) -> Iterator[int]:
    while things:
        things.popitem()
        yield 1


def _let_go(app: Application, wakeups: Wakeups) -> Iterator[int]:
    """Release the requests and groups of the application, and the application with the last of them."""
    waiting = wakeups.waiting
    wakeups.replacing.forget(app)
    requests, groups = app.requests, app.groups
    while requests:
        key, request = requests.popitem()
        if app.backing_off.pop(key, None) is None and request.is_pending and request.group.heap:
            # The heap has at least one entry for each pending request; any entry may be removed here.
            request.group.heap.pop()
        # Its gang and the RM's checks may still refer to the request, but through it to nothing else.
        request.group = request.partner = request.promise = request.reservation = request.claim = None
        yield 1
    while groups:
        _, group = groups.popitem()
        for wants in group.remedy_requests.values():
            waiting.withdraw(wants)
        waiting.withdraw(group)
        wakeups.backlog.forget(group)
        group.app = None
        group.remedy_requests.clear()
        group.let_go()
        yield 1
    waiting.unpark(app)
    # An emptied dictionary keeps its memory; a new one has none.
    app.requests, app.groups = {}, {}
    app.reserved.clear()
    app.forget_groups()
    app.leaf, app.quotas, app.further, app.trackers = None, (), (), ()
    yield 1


MAX_DEPARTED = 1024
"""Maximum number of departed RMs whose session numbers are recorded."""

MAX_REMOVED = 1024
"""Maximum number of partitions of one RM that are recorded as dropped by its configuration."""

MAX_FAILED_NODES = 1024
"""Maximum number of nodes of one RM that are recorded as rejected for an unknown partition."""


class ReplayCounts:
    """Counts of items that arrive during a replay."""

    __slots__ = ("allocations", "applications", "nodes")

    def __init__(self) -> None:
        """Start with zeros."""
        self.nodes = 0
        self.applications = 0
        self.allocations = 0


class Rm:
    """A registered RM with its configuration and its partitions."""

    def __init__(
        self,
        request: RegisterRm,
        configuration: Configuration,
        slice_size: int,
        holdings: Holdings,
        core: Core,
        extensions: Kinds = (),
    ) -> None:
        """Create a registration; the caller adds partitions, session and time."""
        self.extensions = extensions
        """Kinds of extensions of its partitions."""
        self.rm_id = request.rm_id
        self.version = request.version
        self.policy_group = request.policy_group
        self.build_info = {**request.build_info, "rmId": request.rm_id}
        self.extra_config: Mapping[str, str] = _in_order(request.extra_config)
        self.configuration = configuration
        self.extra = read_extra(request.extra_config)
        self.marks = dict(request.marks)
        """Marks of operators from before the registration, and of removed partitions: a new partition takes
        its part of them."""
        self.retained = KeptOfPartitions(request.memory)
        """State that partitions retained before the registration, or before they were dropped."""
        self.session = 0
        self.registered_time = 0.0
        self.slice_size = slice_size
        self.context = RmContext(
            request.predicates, holdings, core, container_states=request.container_states
        )
        self.holds = self.context.holds
        """Reasons to schedule nothing of the RM, for all its partitions."""
        self.holdings = holdings
        """The RM's use of its caps, over all its partitions."""
        self.journal = self.context.journal
        """Events of its partitions."""
        self.partitions: dict[PartitionName, Partition] = {}
        self.removed: dict[str, None] = {}
        self._by_key: dict[str, Partition] = {}
        self._found: dict[str, Partition] = {}
        self.reached: dict[Partition, None] = {}
        """Partitions that the current command has looked up and may have changed."""
        self.replay: ReplayCounts | None = None
        # Nodes rejected for an unknown partition, so that allocations on them are not counted.
        self.failed_nodes: dict[NodeId, None] = {}
        self.journal.on = self.extra.event_tracking

    def normalized(self, name: str) -> str:
        """The normalized name of the partition; for another RM's partition, the name as given."""
        return normalize_partition(self.rm_id, name) or name

    def find(self, name: str) -> Partition | None:
        """The RM's partition of that wire name; None if it is unknown, or belongs to another RM.

        Case does not matter. Only the usual spellings are cached, as they are few.
        """
        partition = self._found.get(name)
        if partition is None:
            partition = self.named(name)
            if partition is None:
                return None
            if name in ("", partition.name, bare_partition(partition.name)):
                self._found[name] = partition
        self.reached[partition] = None
        return partition

    def named(self, name: str) -> Partition | None:
        """The partition with this name, or None; the name is not cached, as a reader may pass any."""
        normalized = normalize_partition(self.rm_id, name)
        if normalized is None:
            return None
        # The builder of a partition adds it to `partitions`; `forget` removes it. The keys are updated
        # for added partitions only: an RM may build very many at once.
        added = len(self.partitions) - len(self._by_key)
        for known in islice(reversed(self.partitions), added):
            self._by_key[partition_key(known)] = self.partitions[known]
        return self._by_key.get(partition_key(normalized))

    def name_of(self, configured: str) -> PartitionName:
        """The normalized name of a configured partition; for an existing partition its current name.

        A partition keeps its name as long as it exists, so that answers to the RM agree; a different case
        in a new configuration does not change it.
        """
        partition = self.named(configured)
        return partition_name(self.rm_id, configured) if partition is None else partition.name

    def forget(self, name: PartitionName) -> Partition:
        """Remove a partition that is not configured any more."""
        self._found.clear()
        self._by_key.clear()
        self.removed[partition_key(name)] = None
        if len(self.removed) > MAX_REMOVED:
            del self.removed[next(iter(self.removed))]
        self.context.forget(name)
        partition = self.partitions.pop(name)
        self._keep_marks(partition)
        self.holdings.queues_changed(-len(partition.tree))
        forget_all_ended(partition)
        return partition

    def _keep_marks(self, partition: Partition) -> None:
        """Retain the marks of operators in the partition, for a later partition of the same name."""
        name, key = partition.name, partition_key(partition.name)
        for extension in partition.points.marks:
            before = self.marks.get(extension.name, {}).items()
            others = {place: mark for place, mark in before if partition_key(place[0]) != key}
            those = {(name, thing): mark for thing, mark in extension.marks().items()}
            self.marks[extension.name] = others | those

    def marks_in(self, partition: PartitionName, extension: str) -> dict[str, Any]:
        """The marks of operators in a partition for the extension, by the names of objects."""
        key = partition_key(partition)
        marks = self.marks.get(extension, {}).items()
        return {thing: mark for (name, thing), mark in marks if partition_key(name) == key}

    def holder_of(self, node_id: NodeId) -> Partition | None:
        """The partition with the node, preferably the default one, for requests that name none; or None."""
        partitions = [self.find(""), *self.partitions.values()]
        held = (p for p in partitions if p is not None and node_id in p.nodes.by_id)
        partition = next(held, None)
        if partition is not None:
            self.reached[partition] = None
        return partition

    def was_removed(self, name: str) -> bool:
        """True if the RM had a partition of that name until its configuration dropped it."""
        normalized = normalize_partition(self.rm_id, name)
        return normalized is not None and partition_key(normalized) in self.removed

    def set_extra(self, extra_config: Mapping[str, str]) -> None:
        """Set another extra configuration (spec § 2.8)."""
        self.extra_config = _in_order(extra_config)
        self.extra = read_extra(extra_config)
        self.journal.on = self.extra.event_tracking
        for partition in self.partitions.values():
            follow(partition, self.extra)

    def set_hold(self, hold: Hold, *, on: bool) -> None:
        """Set or clear one reason to schedule nothing; partitions share the holds."""
        if on:
            self.holds[hold] = None
        else:
            self.holds.pop(hold, None)


def follow(partition: Partition, extra: ExtraConfig) -> None:
    """Apply the RM's extra configuration to a partition (spec § 2.8)."""
    context = partition.check_context
    if extra.flags != context.flags:
        context.flags = extra.flags
        for extension in partition.points.flagged:
            extension.flagged()
        for _ in partition.dirty.change_everything():
            pass


def _in_order(extra_config: Mapping[str, str]) -> dict[str, str]:
    """The extra configuration sorted by key, only once for all readers: it may have thousands of keys."""
    return dict(sorted(extra_config.items()))


class Registry:
    """All RMs in the order of their first registration, and all their partitions.

    Session numbers of an RM never decrease, because its clients drop messages with numbers below the
    highest that they have seen (DESIGN § 3). The numbers of the last `MAX_DEPARTED` RMs that left are
    recorded. A new RM, or one that is not recorded any more, starts above the highest number dropped.
    """

    def __init__(
        self, options: Options, extensions: Kinds, shared: Iterable[tuple[str, type[Shared]]]
    ) -> None:
        """Start without RMs. All partitions get these extensions, and share these states."""
        self.options = options
        self.extensions = extensions
        self.rms: dict[RmId, Rm] = {}
        self.partitions: dict[PartitionName, Partition] = {}
        self.agenda = Agenda()
        self.disposal = Disposal()
        self.pressure = MemoryPressure()
        self.jobs = Jobs()
        self.core = Core(shared)
        self._departed: dict[RmId, int] = {}
        self._highest_forgotten = 0

    def next_session(self, rm_id: RmId) -> int:
        """The number of the RM's next registration.

        It is one more than that of the last registration. For an unknown RM it is 1, unless records of
        departed RMs were dropped.
        """
        rm = self.rms.get(rm_id)
        if rm is not None:
            return rm.session + 1
        return self._departed.get(rm_id, self._highest_forgotten) + 1

    def put(self, rm: Rm) -> None:
        """Add an RM; it replaces an earlier one with the same id."""
        before = self.rms.get(rm.rm_id)
        if before is not None:
            self._drop_all(before)
        self.rms[rm.rm_id] = rm
        self._departed.pop(rm.rm_id, None)
        for partition in rm.partitions.values():
            self.add(partition)

    def remove(self, rm_id: RmId) -> None:
        """Remove an RM and its partitions; its session number is kept."""
        rm = self.rms.pop(rm_id)
        self.jobs.forget(rm_id)
        self._drop_all(rm)
        departed = self._departed
        departed[rm_id] = rm.session
        if len(departed) > MAX_DEPARTED:
            session = departed.pop(next(iter(departed)))
            self._highest_forgotten = max(self._highest_forgotten, session)

    def add(self, partition: Partition) -> Partition:
        """Add a partition of a registered RM."""
        self.partitions[partition.name] = partition
        self.agenda.join(partition)
        return partition

    def drop(self, partition: Partition) -> None:
        """Remove a partition."""
        del self.partitions[partition.name]
        self.agenda.leave(partition)
        for shared in self.core.shared.values():
            shared.forget(partition.name)
        self.disposal.add(partition)

    def _drop_all(self, rm: Rm) -> None:
        """Remove an RM's partitions."""
        for partition in rm.partitions.values():
            self.drop(partition)

    def partition(self, name: PartitionName) -> Partition:
        """A partition by its normalized name; raises NotFound."""
        partition = self.partitions.get(name)
        if partition is None:
            raise NotFound(f"partition {shown(name)} not found")
        return partition

    def by_name(self, name: str) -> Partition | None:
        """The partition with this normalized name, or the first RM's with this bare name; None if unknown."""
        if name.startswith("["):
            owner = self.rms.get(rm_of(PartitionName(name)))
            return None if owner is None else owner.named(name)
        found = (rm.named(name) for rm in self.rms.values() if name)
        return next((partition for partition in found if partition is not None), None)
