"""The victims with the least lost work, for queues that compare costs (spec § 9.4).

Losses are sums of amounts times seconds (`loss_price`), so several small victims may cost less than one.
All sets are tried except those that cannot cost less than the best so far: the missing amounts have a lower
bound of their price, by the best ratio of price to amount among the remaining candidates.
"""

from collections.abc import Sequence

from licorne_core.standard.preemption.victims import (
    NO_PRICE,
    Candidate,
    Price,
    Vector,
    WhatIf,
    covers,
    less,
    price_of,
)

Gain = tuple[Candidate, Vector]
"""A candidate, and how much of each missing amount it frees when it is stopped."""

SLACK = 1 - 1e-9
"""Factor of a bound derived from a ratio: despite rounding, the bound is at most the least price."""


class CheapestSet:
    """Finds the legal set with the lowest price; of equal ones, the smallest, then the first by rank."""

    __slots__ = ("_best", "_chosen", "_gains", "_key", "_left", "_ratios", "_what_if")

    def __init__(self, gains: Sequence[Gain], what_if: WhatIf) -> None:
        """Choose among these candidates, given in rank order."""
        self._gains = gains
        self._what_if = what_if
        self._chosen: list[Candidate] = []
        self._best: list[Candidate] | None = None
        self._key: tuple[Price, int] | None = None
        types = len(gains[0][1]) if gains else 0
        # From each index on: total amounts of the candidates, and the least price of one unit, by type.
        self._left: list[Vector] = [(0,) * types]
        ratios = [float("inf")] * types
        self._ratios = [tuple(ratios)]
        for one, gives in reversed(gains):
            self._left.append(
                tuple([left + amount for left, amount in zip(self._left[-1], gives, strict=True)])
            )
            for place, amount in enumerate(gives):
                if amount > 0:
                    ratios[place] = min(ratios[place], one.price[1] / amount)
            self._ratios.append(tuple(ratios))
        self._left.reverse()
        self._ratios.reverse()

    def of(self, missing: Vector) -> list[Candidate] | None:
        """The cheapest set that covers the missing amounts, or the best found in the allowed steps; None if
        none.
        """
        self._search(0, missing, NO_PRICE, 0)
        return self._best

    def _search(self, start: int, missing: Vector, price: Price, number: int) -> None:
        if not any(missing):
            self._best, self._key = [*self._chosen], (price, number)
            return
        for index in range(start, len(self._gains)):
            if self._what_if.steps_left <= 0 or not self._may_be_best(index, missing, price, number):
                return
            one, gives = self._gains[index]
            rest, raised = less(missing, gives), price_of((price, one.price))
            key = (raised, number + len(one.victims))
            if rest == missing or not (self._key is None or key < self._key) or not self._what_if.take(one):
                continue
            self._chosen.append(one)
            self._search(index + 1, rest, *key)
            self._what_if.put_back(self._chosen.pop())

    def _may_be_best(self, index: int, missing: Vector, price: Price, number: int) -> bool:
        """True if candidates from the index on cover the missing amounts, and may cost less than the best."""
        if not covers(self._left[index], missing):
            return False
        if self._key is None:
            return True
        needs = [need * ratio for need, ratio in zip(missing, self._ratios[index], strict=True) if need]
        highest, loss = price
        return ((highest, loss + int(max(needs) * SLACK)), number + 1) < self._key
