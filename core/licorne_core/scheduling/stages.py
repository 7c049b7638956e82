"""Stages: parts of a pass that precede or follow the queues."""

from abc import ABC, abstractmethod
from collections.abc import Sized
from enum import IntEnum
from typing import Any

from licorne_core.scheduling.gang_placement import GangSearch
from licorne_core.scheduling.rules import CheckContext

Decision = Any
"""A `Candidate`, or a decision of another type in the table of handlers."""


class Position(IntEnum):
    """Position of a stage in a pass. Stages of one position are in the order of the table of features."""

    OVERDUE = 1
    """Items that have waited too long for the end of a pass."""
    CLAIMS = 2
    RESERVED = 3
    REPLACING = 4
    BEHIND = 5
    """After the queues, if nothing else can be decided and nothing waits for the next turn."""


class Stage(ABC):
    """A stage of the pass, before or after the queues. It is called only while `ready` has items."""

    gangs: GangSearch
    """The search for gangs of the pass; set before the first turn."""

    def __init__(self, context: CheckContext, position: Position, ready: Sized) -> None:
        """Operate in the partition of the context. `ready` is empty while there is no work."""
        self.context = context
        self.position = position
        self.ready = ready

    @abstractmethod
    def decide(self, now: float) -> Decision | None:
        """The first decision of a turn that began at unix seconds `now`; None if there is none.

        None also when the work of the turn is used up (`Effort.is_spent`).
        """


class Claimed(Stage):
    """Asks with a claim: they are placed, or their claim is planned again."""

    def __init__(self, context: CheckContext) -> None:
        """Act in the partition of the context."""
        super().__init__(context, Position.CLAIMS, context.claims.held)

    def decide(self, now: float) -> Decision | None:
        """First decision about a claim; None if there is none."""
        effort = self.context.effort
        for claim in list(self.context.claims.held):
            if effort.is_spent():
                return None
            decision: Decision | None = claim.decide(now)
            if decision is not None:
                return decision
        return None
