"""Budgets over RMs: other budgets and slices, and waking across partitions."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from licorne_core.config.budgets import check_budgets, check_slices
from licorne_core.handlers.lifecycle import rebook
from licorne_core.handlers.predicates import roll_back_unfitting
from licorne_core.messages.budgets import SetBudgets, SetBudgetSlices
from licorne_core.model.apps.application import Application
from licorne_core.model.budgets import note_freed
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.jobs import Job, Slice
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.resources import Resources
from licorne_core.values.slices import parts_of

MOST_WOKEN: Final = 64
"""Partitions that are told of more room after one command; others are told after the next tick."""


def set_budgets(registry: Registry, command: SetBudgets, slice_size: int, now: float) -> None:
    """Replace all budgets; members are counted in slices, the first of them at once.

    Raises:
        ConfigError: the budgets are invalid; nothing is changed.
    """
    check_budgets(command.budgets, command.floating)
    registry.budgets.set(command)
    registry.counting = _Counting(registry, now)
    go_on_counting(registry, slice_size, now)


def set_slices(registry: Registry, command: SetBudgetSlices) -> None:
    """Replace the slices of one budget; usage above a slice is an overdraft, and stays.

    Raises:
        NotFound: there is no such budget.
        ConfigError: an amount is out of range; nothing is changed.
    """
    account = registry.budgets.accounts.get(command.budget)
    if account is None:
        raise NotFound(f"budget {shown(command.budget)} not found")
    check_slices(command.slices)
    account.follow(replace(account.budget, slices=dict(command.slices)))


def go_on_counting(registry: Registry, slice_size: int, now: float) -> None:
    """Do one slice of the present count, if there is one."""
    counting = registry.counting
    if counting is not None and counting.go_on(now, Slice(slice_size)):
        registry.counting = None


def wake(registry: Registry) -> None:
    """Open blockers of budgets with more room, in the partitions that wait for them."""
    for quota, name in registry.budgets.to_wake(MOST_WOKEN):
        partition = registry.partitions.get(name)
        if partition is not None:
            partition.dirty.mark((quota,))
            partition.dirty.open_blockers()
            registry.agenda.note(partition)


class _Counting(Job):
    """The count of members after a change of all budgets.

    In the first round an application enters its new budgets, in the second one it leaves former
    ones. So a budget never counts less than before while its members change.
    """

    def __init__(self, registry: Registry, now: float) -> None:
        """Begin with the nodes, if other types float."""
        self._registry = registry
        super().__init__(now)

    def steps(self) -> Iterator[int]:
        """Visit all nodes and applications; see `Job`."""
        book = self._registry.budgets
        if book.hidden:
            for partition in list(self._registry.partitions.values()):
                yield from self._float(partition)
        book.hidden = book.floating
        for leaves in (False, True):
            for partition in list(self._registry.partitions.values()):
                for app in list(partition.applications.values()):
                    yield from self._visit(partition, app, leaves=leaves)

    def _float(self, partition: Partition) -> Iterator[int]:
        """Give the nodes of a partition the floating types, and take former ones from them."""
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
        book = self._registry.budgets
        former = book.hidden - book.floating
        own = {name: value for name, value in node.capacity.items() if name not in former}
        return book.with_floating(own)

    def _visit(self, partition: Partition, app: Application, *, leaves: bool) -> Iterator[int]:
        """Enter new budgets, and leave former ones in the second round."""
        if not self._is_here(partition) or app.leaf is None:
            return
        leaf, former = partition.leaf_of(app), app.budgets
        budgets = partition.limits.budgets.of(leaf.lineage)
        if not leaves:
            entered = tuple(quota for quota in budgets if quota not in former)
            budgets = (*entered, *former) if entered else former
        if budgets == former:
            yield 1
            return
        # In one step: no ask may be parked with a quota that the application leaves.
        partition.wakeups.waiting.release(app)
        cost = rebook(partition, app, lambda: partition.limits.rebudget(app, leaf, budgets))
        note_freed(quota for quota in former if quota not in budgets)
        partition.dirty.mark(quota for quota in former if quota not in budgets)
        partition.dirty.mark_app(app)
        partition.wakeups.reserved.wake_of(app)
        self._note(partition)
        yield cost + len(app.groups) + len(app.requests)

    def _is_here(self, partition: Partition) -> bool:
        return self._registry.partitions.get(partition.name) is partition

    def _note(self, partition: Partition) -> None:
        if partition.shares.touched:
            partition.shares.settle(self.now)
        partition.dirty.open_blockers()
        self._registry.agenda.note(partition)
