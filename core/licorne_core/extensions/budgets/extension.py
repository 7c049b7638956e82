"""The budgets of the applications of one partition."""

from collections.abc import Iterable
from typing import Final

from licorne_core.extensions.budgets.accounts import BudgetAccount, BudgetQuota
from licorne_core.extensions.budgets.messages import SEPARATOR, BudgetPattern
from licorne_core.extensions.budgets.shared import budgets_of
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Queue
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.ids import QueuePath
from licorne_core.values.names import WILDCARD

MOST_PATHS: Final = 10_000
"""Maximum number of leaves whose budgets are cached."""


class PartitionBudgets(Extension):
    """Finds the budgets of new applications; a count over all partitions changes budgets of existing ones."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Find budgets among those of the context's core."""
        super().__init__(name, bit, context)
        self._book = budgets_of(context.core).book
        self._version = -1
        self._known: dict[QueuePath, tuple[BudgetQuota, ...]] = {}
        self._exact: dict[str, list[BudgetAccount]] = {}
        self._wild: list[tuple[BudgetAccount, BudgetPattern]] = []

    def quotas(self, app: Application, leaf: Queue) -> tuple[BudgetQuota, ...]:
        """The application's quotas; quotas of lower budgets are first."""
        if not self._book.accounts:
            return ()
        if self._version != self._book.version:
            self._prepare()
        known = self._known.get(leaf.path)
        if known is None:
            if len(self._known) >= MOST_PATHS:
                self._known.clear()
            known = self._known[leaf.path] = self._find([queue.path for queue in leaf.lineage])
        return known

    def counted(self) -> Iterable[BudgetQuota]:
        """The quotas of all budgets with usage in the partition."""
        name = self.context.partition
        return [account.parts[name] for account in self._book.accounts.values() if name in account.parts]

    def _prepare(self) -> None:
        """Cache the patterns that match the partition."""
        self._version = self._book.version
        self._known.clear()
        self._exact.clear()
        self._wild.clear()
        for account in self._book.accounts.values():
            for member in account.budget.members:
                if not member.fits_partition(self.context.partition):
                    continue
                if WILDCARD in member.queue and member.queue != WILDCARD:
                    self._wild.append((account, member))
                else:
                    self._exact.setdefault(member.queue, []).append(account)

    def _find(self, lineage: list[QueuePath]) -> tuple[BudgetQuota, ...]:
        found: dict[BudgetAccount, None] = {}
        for path in (WILDCARD, *lineage):
            found.update(dict.fromkeys(self._exact.get(path, ())))
        for account, member in self._wild:
            if account not in found and member.fits_queue(lineage):
                found[account] = None
        for account in list(found):
            above = account.above
            while above is not None:
                found[above] = None
                above = above.above
        lower_first = sorted(found, key=lambda account: (-account.name.count(SEPARATOR), account.name))
        return tuple(quota for account in lower_first for quota in account.quotas_in(self.context.partition))


KIND: Final = PartitionBudgets
