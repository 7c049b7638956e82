"""What-if books: victims taken off and put back, live books unchanged (spec § 9.4).

A victim takes something of *allowances*: of a queue's excess over its guarantee (law 2), and of the
loss that its leaf may still have in this hour. An allowance is derived from the live books when it
is first needed in a search, and a victim is taken off the allowances rather than off the books.
Victims are put back in any order.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.ranks import Age, Cost

Allowance = dict[str, int]
"""Amounts that victims may take, by resource name."""

Vector = tuple[int, ...]
"""Amounts in the order of the ask's types."""


Result = TypeVar("Result")


class Victim(NamedTuple):
    """An allocation that has to go."""

    app: Application
    request: Request
    node: Node


class Candidate:
    """An allocation that could go, as one search sees it."""

    __slots__ = ("charges", "gives", "kind", "rank", "victim")

    def __init__(
        self,
        victim: Victim,
        kind: int,
        rank: Age | Cost,
        gives: Vector,
        charges: tuple[tuple[Allowance, str, int], ...],
    ) -> None:
        """Set the fields."""
        self.victim = victim
        # Regular, originator or opted out, as a number (`ranks.kind_of`).
        self.kind = kind
        # The smaller goes first; no two are equal.
        self.rank = rank
        # Its amounts of the ask's types.
        self.gives = gives
        # What it takes of which allowance.
        self.charges = charges


class WhatIf:
    """Counts the victims that are tried, and says when to give up."""

    __slots__ = ("_most", "gave_up", "left", "steps")

    left: int
    """Steps left for the present attempt."""
    steps: int
    """Steps in all."""
    gave_up: bool
    """True if the last attempt was given up."""

    def __init__(self, most: int) -> None:
        """Allow so many steps at most, apart from those of greedy attempts."""
        self._most = most
        self.left = most
        self.steps = 0
        self.gave_up = False

    @property
    def exhausted(self) -> bool:
        """True if all steps are used up."""
        return self.steps >= self._most

    def within(self, share: int, attempt: Callable[[], Result]) -> Result:
        """Return the result of an attempt with so many steps at most."""
        self.left = min(share, self._most - self.steps)
        result = attempt()
        self.gave_up = self.left <= 0
        return result

    def take(self, candidate: Candidate) -> bool:
        """Take a victim off, if the laws allow it on top of those that are taken off already."""
        self.steps += 1
        self.left -= 1
        charges = candidate.charges
        for allowance, name, amount in charges:
            if allowance[name] < amount:
                return False
        for allowance, name, amount in charges:
            allowance[name] -= amount
        return True

    @staticmethod
    def put_back(candidate: Candidate) -> None:
        """The inverse of `take`."""
        for allowance, name, amount in candidate.charges:
            allowance[name] += amount
