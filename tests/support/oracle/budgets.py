"""Budgets over RMs: usage, which is summed from the records each time, and their members."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from licorne_core.extensions.budgets.messages import Budget, SetBudgets, SetBudgetSlices
from licorne_core.values.ids import RmId
from support.oracle.books import VICTIMS, Amounts, AppRecord, AskRecord, add_to
from support.oracle.queues import lineage

if TYPE_CHECKING:
    from support.oracle.partition import PartitionOracle

ENDLESS = 2**44
"""The amount of a floating type on every node."""


class Bound(NamedTuple):
    """A budget of an application: its limit, and the unavailable part."""

    name: str
    most: Amounts
    claimed: Amounts


class Budgets:
    """The budgets of all RMs."""

    def __init__(self, partitions: Mapping[str, "PartitionOracle"]) -> None:
        """Start without budgets; `partitions` are those of all RMs."""
        self.partitions = partitions
        self.budgets: dict[str, Budget] = {}
        self.floating: frozenset[str] = frozenset()
        self._names: dict[tuple[str, str], list[str]] = {}

    def take(self, command: SetBudgets | SetBudgetSlices) -> None:
        """Replace the budgets, or the slices of one budget."""
        self._names.clear()
        if isinstance(command, SetBudgets):
            self.budgets = {budget.name: budget for budget in command.budgets}
            self.floating = command.floating
        elif command.budget in self.budgets:
            known = self.budgets[command.budget]
            self.budgets[command.budget] = Budget(
                name=known.name, limit=known.limit, members=known.members, slices=command.slices
            )

    def with_floating(self, capacity: Amounts) -> Amounts:
        """A node's capacity with floating types."""
        return {**capacity, **dict.fromkeys(self.floating, ENDLESS)}

    def names(self, partition: str, queue: str) -> list[str]:
        """The budgets to which an application of the queue is charged, with their ancestors."""
        found = self._names.get((partition, queue))
        if found is None:
            found = self._names[partition, queue] = self._names_of(partition, queue)
        return found

    def _names_of(self, partition: str, queue: str) -> list[str]:
        rm, _, bare = partition[1:].partition("]")
        own = [
            budget.name
            for budget in self.budgets.values()
            for member in budget.members
            if _fits(member.rm, rm) and _fits(member.partition, bare)
            if any(_fits(member.queue, path) for path in lineage(queue))
        ]
        return [name for name in self.budgets if any(f"{one}/".startswith(f"{name}/") for one in own)]

    def used_in(self, partition: "PartitionOracle", name: str) -> Amounts:
        """The usage of a budget by the applications of one partition."""
        used: Amounts = {}
        for app in self._members(partition, name):
            for one in app.allocations.values():
                add_to(used, one.ask.size)
        return used

    def bounds(self, here: "PartitionOracle", app: AppRecord, own: AskRecord | None) -> list[Bound]:
        """All budgets of an application; amounts promised to its `own` ask are available."""
        found = []
        for name in self.names(here.name, app.queue):
            most, counted = self._counted(here, name)
            claimed: Amounts = {}
            for partition in counted:
                add_to(claimed, self.used_in(partition, name))
                for keeper in self._members(partition, name):
                    for ask in keeper.asks.values():
                        if ask is not own:
                            add_to(claimed, self._kept_for(partition, name, ask))
            found.append(Bound(name, most, claimed))
        return found

    def left_to(self, here: "PartitionOracle", app: AppRecord) -> dict[tuple[str, str, str], Amounts]:
        """The part of each budget of an application that usage and promises of other partitions leave."""
        found = {}
        for name in self.names(here.name, app.queue):
            most, counted = self._counted(here, name)
            for partition in counted:
                for other in self._members(partition, name) if partition is not here else ():
                    sizes = [one.ask.size for one in other.allocations.values()]
                    sizes += [ask.reservation.promised for ask in other.asks.values() if ask.reservation]
                    for size in sizes:
                        add_to(most, {what: -value for what, value in size.items() if what in most})
            found["budget", name, ""] = most
        return found

    def _counted(self, here: "PartitionOracle", name: str) -> tuple[Amounts, list["PartitionOracle"]]:
        """The bound of a budget, or of the RM's slice of it, and the partitions whose usage counts in it."""
        budget, rm = self.budgets[name], here.name.partition("]")[0]
        if budget.slices is None:
            return dict(budget.limit), list(self.partitions.values())
        mine = budget.slices.get(RmId(here.rm_id), {})
        counted = [one for one in self.partitions.values() if one.name.startswith(f"{rm}]")]
        return {what: mine.get(what, 0) for what in budget.limit}, counted

    def _members(self, partition: "PartitionOracle", name: str) -> Iterator[AppRecord]:
        return (app for app in partition.apps.values() if name in self.names(partition.name, app.queue))

    def _kept_for(self, partition: "PartitionOracle", name: str, ask: AskRecord) -> Amounts:
        """The part of a promise to an ask that its victims do not cover in the budget."""
        if ask.reservation is None or not ask.is_promised:
            return {}
        covered: Amounts = {}
        for app in self._members(partition, name):
            for one in app.allocations.values():
                if one.state in VICTIMS and any(one is victim for victim in ask.reservation.victims):
                    add_to(covered, one.ask.size)
        promised = ask.reservation.promised.items()
        return {what: max(0, value - covered.get(what, 0)) for what, value in promised}


@lru_cache(maxsize=10_000)
def _fits(pattern: str, name: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name) is not None
