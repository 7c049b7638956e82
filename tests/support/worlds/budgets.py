"""Draws budgets over the RMs of a world, and the slices that RMs have of them."""

from collections.abc import Sequence
from random import Random

from licorne_core.extensions.budgets.messages import Budget, BudgetPattern, SetBudgets, SetBudgetSlices
from licorne_core.messages.commands import Command
from licorne_core.values.ids import RmId
from licorne_core.values.resources import Resources
from support.worlds.configs import some

NAMES = ("company", "company/a", "company/b", "company/a/c", "guests")

BUDGETS = 0.4
"""The default share of worlds with budgets."""

QUEUES = ("*", "root", "root.q0", "root.q1", "root.q*", "*q0", "root.*.q1")

FLOATING: tuple[frozenset[str], ...] = (frozenset(), frozenset({"gpu"}), frozenset({"gpu", "licence"}))


class BudgetMaker:
    """Draws budgets, and later changes, from its own random source."""

    def __init__(self, seed: int, rms: Sequence[str], share: float) -> None:
        """Draw whether the world is of the `share` with budgets."""
        self._rng = Random(seed ^ 0xB0D6E7)
        self._rms = rms
        self._budgets: list[Budget] = []
        self.has_some = self._rng.random() < share

    def first(self) -> list[Command]:
        """The initial budgets; none in most worlds."""
        return [self._all()] if self.has_some else []

    def maybe_others(self) -> list[Command]:
        """Occasionally other budgets or slices."""
        rng = self._rng
        if not self.has_some or rng.random() > 0.06:
            return []
        sliced = [budget for budget in self._budgets if budget.slices is not None]
        if sliced and rng.random() < 0.7:
            return [SetBudgetSlices(budget=rng.choice(sliced).name, slices=self._slices())]
        return [self._all()]

    def _all(self) -> SetBudgets:
        rng = self._rng
        chosen = [name for name in NAMES if rng.random() < 0.6]
        known = [name for name in chosen if name.rpartition("/")[0] in ("", *chosen)]
        if "company/a" not in known:
            known = [name for name in known if name != "company/a/c"]
        self._budgets = [self._budget(name) for name in known]
        return SetBudgets(budgets=self._budgets, floating=rng.choice(FLOATING))

    def _budget(self, name: str) -> Budget:
        rng = self._rng
        return Budget(
            name=name,
            limit=some(rng, 2, 16),
            members=tuple(self._pattern() for _ in range(rng.choice([0, 1, 1, 2]))),
            slices=self._slices() if rng.random() < 0.3 else None,
        )

    def _pattern(self) -> BudgetPattern:
        rng = self._rng
        rm = rng.choice(["*", "*", "rm*", *self._rms])
        return BudgetPattern(rm=rm, partition=rng.choice(["*", "*", "default"]), queue=rng.choice(QUEUES))

    def _slices(self) -> dict[RmId, Resources]:
        return {RmId(rm): some(self._rng, 0, 8) for rm in self._rms if self._rng.random() < 0.8}
