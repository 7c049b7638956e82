"""The registered RMs and their partitions (DESIGN § 2: no state is shared).

Disposal of removed partitions, so that their memory comes back (DESIGN § 2).

The things of a partition know one another, so Python frees none of them by itself when the
partition is dropped. Waiting for its garbage collector would mean a pass over everything that all
RMs have. So a removed partition is taken apart, a slice at a time.
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
"""Requests, applications, nodes, allocations and queues that are let go at a time."""


class Disposal:
    """The partitions that are gone and still take memory."""

    def __init__(self) -> None:
        """Start empty."""
        self.gone: deque[Iterator[int]] = deque()
        """Progress of each disposal."""

    def add(self, partition: Partition) -> None:
        """Add a removed partition, which must not be used any more."""
        self.gone.append(_take_apart(partition))

    def take_apart(self) -> None:
        """Release a slice of the oldest partition; there has to be one."""
        if Slice(MOST).spend(self.gone[0]):
            self.gone.popleft()


def _take_apart(partition: Partition) -> Iterator[int]:
    """Release all things, step by step; each step yields the number of things released."""
    wakeups, applications = partition.wakeups, partition.applications
    # It knows the partition.
    partition.job = None
    for reservation in list(wakeups.reserved):
        wakeups.reserved.remove(reservation)
        yield 1
    while applications:
        _, app = applications.popitem()
        if app.interests:
            for extension in partition.points.gone:
                extension.gone(app)
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
    # The last things that know applications, groups of asks and nodes.
    yield from partition.tree.take_apart()
    for extension in partition.points.dispose:
        yield from extension.dispose()
    here = (partition.completed, partition.rejected, partition.claims.held, partition.usage.touched)
    for known in here:
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
    """Release requests and groups of the application, and it with the last of them."""
    waiting = wakeups.waiting
    wakeups.replacing.forget(app)
    requests, groups = app.requests, app.groups
    while requests:
        key, request = requests.popitem()
        if app.backing_off.pop(key, None) is None and request.is_pending and request.group.heap:
            # There is at least one place for each that is pending; which one goes is all the same.
            request.group.heap.pop()
        # Its gang and its RM's checks may still have the request: nothing leads on from there.
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
    # An emptied dictionary keeps its memory; another one has none.
    app.requests, app.groups = {}, {}
    app.reserved.clear()
    app.forget_groups()
    app.leaf, app.quotas, app.further, app.trackers = None, (), (), ()
    yield 1


MAX_DEPARTED = 1024
"""Departed RMs whose session numbers are still known."""

MAX_REMOVED = 1024
"""Partitions of one RM that its configuration dropped and that are still known as such."""

MAX_FAILED_NODES = 1024
"""Nodes of one RM that could not be put anywhere and are still known as such."""


class ReplayCounts:
    """Counts of arrivals since a replay began."""

    __slots__ = ("allocations", "applications", "nodes")

    def __init__(self) -> None:
        """Start empty."""
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
        """Of its partitions."""
        self.rm_id = request.rm_id
        self.version = request.version
        self.policy_group = request.policy_group
        self.build_info = {**request.build_info, "rmId": request.rm_id}
        self.extra_config: Mapping[str, str] = _in_order(request.extra_config)
        self.configuration = configuration
        self.extra = read_extra(request.extra_config)
        self.marks = dict(request.marks)
        """What operators did before the registration, and in partitions that are gone: those that are
        built take their part of it."""
        self.kept = KeptOfPartitions(request.memory)
        """What partitions kept before the registration, and before they were dropped."""
        self.session = 0
        self.registered_time = 0.0
        self.slice_size = slice_size
        self.context = RmContext(
            request.predicates, holdings, core, container_states=request.container_states
        )
        self.holds = self.context.holds
        """Reason that nothing of the RM is scheduled, for all its partitions."""
        self.holdings = holdings
        """Quota use of the RM, over all its partitions."""
        self.journal = self.context.journal
        """Events of its partitions."""
        self.partitions: dict[PartitionName, Partition] = {}
        self.removed: dict[str, None] = {}
        self._by_key: dict[str, Partition] = {}
        self._found: dict[str, Partition] = {}
        self.reached: dict[Partition, None] = {}
        """Partitions that the present command has looked up: each may have changed."""
        self.replay: ReplayCounts | None = None
        # Nodes that came for a partition that is not there, so that nothing on them is counted.
        self.failed_nodes: dict[NodeId, None] = {}
        self.journal.on = self.extra.event_tracking

    def normalized(self, name: str) -> str:
        """The partition's normalized name, or the name as it came if it is another RM's."""
        return normalize_partition(self.rm_id, name) or name

    def find(self, name: str) -> Partition | None:
        """The RM's partition of that wire name; None if it has none, or it is another RM's.

        Case does not matter. Only the usual spellings are remembered, as they are few.
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
        """Find a partition of that name without keeping the name; for readers."""
        normalized = normalize_partition(self.rm_id, name)
        if normalized is None:
            return None
        # The builder of a partition adds it to `partitions`; `forget` takes it out. All keys are
        # not made anew for each that was added: an RM may build very many at once.
        added = len(self.partitions) - len(self._by_key)
        for known in islice(reversed(self.partitions), added):
            self._by_key[partition_key(known)] = self.partitions[known]
        return self._by_key.get(partition_key(normalized))

    def name_of(self, configured: str) -> PartitionName:
        """The normalized name of a configured partition: the one it has, if the RM has it already.

        A partition keeps its name as long as it lives, so that answers to the RM agree; another
        case of letters in a new configuration does not change it.
        """
        partition = self.named(configured)
        return partition_name(self.rm_id, configured) if partition is None else partition.name

    def forget(self, name: PartitionName) -> Partition:
        """Take a partition out that is not configured any more."""
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
        """Keep what operators did in the partition, for one of the same name that is built later."""
        name, key = partition.name, partition_key(partition.name)
        for extension in partition.points.marks:
            before = self.marks.get(extension.name, {}).items()
            others = {place: mark for place, mark in before if partition_key(place[0]) != key}
            those = {(name, thing): mark for thing, mark in extension.marks().items()}
            self.marks[extension.name] = others | those

    def marks_in(self, partition: PartitionName, extension: str) -> dict[str, Any]:
        """What the extension is to know of what operators did in a partition, by the names of things."""
        key = partition_key(partition)
        marks = self.marks.get(extension, {}).items()
        return {thing: mark for (name, thing), mark in marks if partition_key(name) == key}

    def holder_of(self, node_id: NodeId) -> Partition | None:
        """The partition that has the node, for requests that do not say: default if it has."""
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
        """Stop scheduling for one reason, or take that reason back; partitions share the holds."""
        if on:
            self.holds[hold] = None
        else:
            self.holds.pop(hold, None)


def follow(partition: Partition, extra: ExtraConfig) -> None:
    """Have a partition follow its RM's extra configuration (spec § 2.8)."""
    context = partition.check_context
    if extra.flags != context.flags:
        context.flags = extra.flags
        for extension in partition.points.flagged:
            extension.flagged()
        for _ in partition.dirty.change_everything():
            pass


def _in_order(extra_config: Mapping[str, str]) -> dict[str, str]:
    """An extra configuration by its keys, once for all readers: it may have thousands."""
    return dict(sorted(extra_config.items()))


class Registry:
    """All RMs in the order in which they registered first, and all their partitions.

    Session numbers of an RM never fall, because its clients drop those below the highest that they
    have seen (DESIGN § 3). Those of the `MAX_DEPARTED` RMs that left last are known. A forgotten or
    new RM starts above the highest number forgotten.
    """

    def __init__(
        self,
        options: Options,
        extensions: Kinds,
        shared: Iterable[tuple[str, type[Shared]]],
    ) -> None:
        """Start with none. Their partitions will have these extensions, which share these parts."""
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

        It is one more than that of the last registration, and 1 for an RM that is not known, as
        long as no other had to be forgotten.
        """
        rm = self.rms.get(rm_id)
        if rm is not None:
            return rm.session + 1
        return self._departed.get(rm_id, self._highest_forgotten) + 1

    def put(self, rm: Rm) -> None:
        """Add an RM, in place of an earlier one of its id."""
        before = self.rms.get(rm.rm_id)
        if before is not None:
            self._drop_all(before)
        self.rms[rm.rm_id] = rm
        self._departed.pop(rm.rm_id, None)
        for partition in rm.partitions.values():
            self.add(partition)

    def remove(self, rm_id: RmId) -> None:
        """Forget an RM and its partitions, but for the number of its session."""
        rm = self.rms.pop(rm_id)
        self.jobs.forget(rm_id)
        self._drop_all(rm)
        departed = self._departed
        departed[rm_id] = rm.session
        if len(departed) > MAX_DEPARTED:
            session = departed.pop(next(iter(departed)))
            self._highest_forgotten = max(self._highest_forgotten, session)

    def add(self, partition: Partition) -> Partition:
        """Take in a partition of an RM that is here."""
        self.partitions[partition.name] = partition
        self.agenda.join(partition)
        return partition

    def drop(self, partition: Partition) -> None:
        """Forget a partition."""
        del self.partitions[partition.name]
        self.agenda.leave(partition)
        for shared in self.core.shared.values():
            shared.forget(partition.name)
        self.disposal.add(partition)

    def _drop_all(self, rm: Rm) -> None:
        """Forget an RM's partitions."""
        for partition in rm.partitions.values():
            self.drop(partition)

    def partition(self, name: PartitionName) -> Partition:
        """A partition by its normalized name; raises NotFound."""
        partition = self.partitions.get(name)
        if partition is None:
            raise NotFound(f"partition {shown(name)} not found")
        return partition

    def by_name(self, name: str) -> Partition | None:
        """A partition by its normalized name, or the first RM's of that bare name, in any case."""
        if name.startswith("["):
            owner = self.rms.get(rm_of(PartitionName(name)))
            return None if owner is None else owner.named(name)
        found = (rm.named(name) for rm in self.rms.values() if name)
        return next((partition for partition in found if partition is not None), None)
