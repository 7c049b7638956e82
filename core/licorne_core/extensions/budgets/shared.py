"""The budgets of a core, their count of members, and waking across partitions."""

from dataclasses import replace
from typing import Final

from licorne_core.extensions.budgets import NAME
from licorne_core.extensions.budgets.accounts import BudgetBook
from licorne_core.extensions.budgets.counting import Counting
from licorne_core.extensions.budgets.messages import SetBudgets, SetBudgetSlices
from licorne_core.extensions.budgets.recount import check_books
from licorne_core.extensions.budgets.tree import check_budgets, check_slices
from licorne_core.model.core import Core, Shared
from licorne_core.partitions.jobs import Slice
from licorne_core.partitions.registry import Registry
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName

MOST_WOKEN: Final = 64
"""Maximum number of partitions woken after one command; others are woken after the next tick."""


class Budgets(Shared):
    """All budgets, which bound usage in all partitions."""

    def __init__(self, name: str, busy: dict[str, None]) -> None:
        """Start without budgets."""
        super().__init__(name, busy)
        self.book = BudgetBook(busy)
        self.counting: Counting | None = None
        """The running count of members; None if none runs."""

    def set(self, registry: Registry, command: SetBudgets, now: float) -> None:
        """Replace all budgets; members are counted in slices, the first of them at once.

        Raises:
            ConfigError: the budgets are invalid; nothing is changed.
        """
        check_budgets(command.budgets, command.floating)
        self.book.set(command.budgets)
        floating = registry.core.floating
        floating.hidden |= command.floating
        floating.types = command.floating
        self.counting = Counting(registry, now)
        self.book.freed.set_busy()
        self.after_turn(registry, now)

    def set_slices(self, _: Registry, command: SetBudgetSlices, __: float) -> None:
        """Replace the slices of a budget; usage above a slice is an overdraft, and no allocation is stopped.

        Raises:
            NotFound: there is no such budget.
            ConfigError: an amount is out of range; nothing is changed.
        """
        account = self.book.accounts.get(command.budget)
        if account is None:
            raise NotFound(f"budget {shown(command.budget)} not found")
        check_slices(command.slices)
        account.follow(replace(account.budget, slices=dict(command.slices)))

    def after_command(self, registry: Registry) -> None:
        """Wake asks that wait for budgets with more room, in their partitions."""
        for quota, name in self.book.to_wake(MOST_WOKEN):
            partition = registry.partitions.get(name)
            if partition is not None:
                partition.dirty.mark((quota,))
                partition.dirty.open_blockers()
                registry.agenda.note(partition)
        self._be_idle()

    def after_turn(self, registry: Registry, now: float) -> None:
        """Execute one slice of a running count, if there is one."""
        counting = self.counting
        if counting is not None and counting.go_on(now, Slice(registry.options.tuning.slice_size)):
            self.counting = None
            self._be_idle()

    def _be_idle(self) -> None:
        if self.counting is None and not (self.book.freed.quotas or self.book.waking):
            self.busy.pop(self.name, None)

    def forget(self, partition: PartitionName) -> None:
        """Remove the usage of a removed partition."""
        self.book.forget(partition)

    def owes(self, partition: PartitionName) -> bool:
        """True if the partition may still have to be woken."""
        book = self.book
        return bool(book.freed.quotas) or any(name == partition for _, name in book.waking)

    def check(self, registry: Registry) -> None:
        """See `recount.py`."""
        check_books(self.book, registry, is_counting=self.counting is not None)


def budgets_of(core: Core) -> Budgets:
    """The budgets in the shared state of a core."""
    shared = core.shared[NAME]
    assert isinstance(shared, Budgets)
    return shared


SHARED: Final = Budgets
COMMANDS: Final = {SetBudgets: Budgets.set, SetBudgetSlices: Budgets.set_slices}
