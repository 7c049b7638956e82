"""The count of members of budgets after a replacement of all budgets, in slices of a job."""

from collections.abc import Iterator

from licorne_core.handlers.assumed import roll_back_unfitting
from licorne_core.handlers.lifecycle import rebook
from licorne_core.model.apps.application import Application
from licorne_core.model.nodes.node import Node
from licorne_core.model.quotas import note_freed
from licorne_core.partitions.jobs import Job
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry
from licorne_core.values.resources import Resources
from licorne_core.values.slices import parts_of


class Counting(Job):
    """The count of members after a change of all budgets.

    In the first round an application enters its new budgets; in the second round it leaves former ones. So a
    budget never counts less than before while its members change.
    """

    def __init__(self, registry: Registry, now: float) -> None:
        """Begin with the nodes, if the set of floating types has changed."""
        self._registry = registry
        self._floating = registry.core.floating
        super().__init__(now)

    def steps(self) -> Iterator[int]:
        """Visit all nodes and applications; see `Job`."""
        floating = self._floating
        if floating.hidden:
            for partition in list(self._registry.partitions.values()):
                yield from self._float(partition)
        floating.hidden = floating.types
        for leaves in (False, True):
            for partition in list(self._registry.partitions.values()):
                for app in list(partition.applications.values()):
                    yield from self._visit(partition, app, leaves=leaves)

    def _float(self, partition: Partition) -> Iterator[int]:
        """Add the floating types to the nodes of a partition, and remove former ones."""
        for nodes in parts_of(list(partition.nodes.by_id.values())):
            resized = 0
            for node in nodes:
                capacity = self._capacity(node)
                here = partition.nodes.by_id.get(node.node_id) is node and self._is_here(partition)
                if here and capacity != node.capacity:
                    partition.cluster.resize(node, capacity, self.now)
                    roll_back_unfitting(partition, node, self.now)
                    resized += 1
            if resized:
                self._note(partition)
            yield 1 + resized

    def _capacity(self, node: Node) -> Resources:
        former = self._floating.hidden - self._floating.types
        own = {name: value for name, value in node.capacity.items() if name not in former}
        return self._floating.added_to(own)

    def _visit(self, partition: Partition, app: Application, *, leaves: bool) -> Iterator[int]:
        """Enter new budgets; in the second round, leave former ones."""
        if not self._is_here(partition) or app.leaf is None:
            return
        leaf, former = partition.leaf_of(app), app.further
        budgets = partition.limits.further(app, leaf)
        if not leaves:
            entered = tuple(quota for quota in budgets if quota not in former)
            budgets = (*entered, *former) if entered else former
        if budgets == former:
            yield 1
            return
        # This is one step: no ask may stay parked at a quota that the application no longer has.
        partition.wakeups.waiting.release(app)
        cost = rebook(partition, app, lambda: partition.limits.set_further(app, leaf, budgets))
        note_freed(quota for quota in former if quota not in budgets)
        partition.dirty.mark(quota for quota in former if quota not in budgets)
        partition.dirty.mark_app(app)
        partition.wakeups.reserved.wake_of(app)
        cost += sum(partition.points.enter_leaf(app, leaf, self.now))
        self._note(partition)
        yield cost + len(app.groups) + len(app.requests)

    def _is_here(self, partition: Partition) -> bool:
        return self._registry.partitions.get(partition.name) is partition

    def _note(self, partition: Partition) -> None:
        if partition.usage.touched:
            partition.settle(self.now)
        partition.dirty.open_blockers()
        self._registry.agenda.note(partition)
