"""The rule for asks: outside of the hours of their leaf they wait for the next opening."""

from typing import Final

from licorne_core.extensions.opening_hours import NAME
from licorne_core.extensions.opening_hours.terms import clock_time
from licorne_core.features import BITS
from licorne_core.messages.checks import RuleCheck
from licorne_core.model.apps.application import Asking
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.rules import CheckContext, Checks, Rule, RulePlace
from licorne_core.scheduling.waiting.blockers import Blocker, Timed

QUEUE_CLOSED: Final = "QUEUE_CLOSED"
BIT: Final = BITS[NAME]
"""Bit of leaves that are closed now."""


class ClosedLeaf(Timed):
    """Asks wait until their leaf opens."""

    __slots__ = ()

    def lets_through(self) -> bool:
        """True if the leaf is open."""
        leaf: Queue = self.thing
        return not leaf.interests & BIT


class _LeafIsOpen(Rule):
    """The leaf is in its opening hours, or has no opening hours."""

    def obstacle(self, context: CheckContext, asking: Asking) -> Queue | None:
        leaf: Queue = asking.app.leaf
        return leaf if leaf.interests & BIT else None

    def blocker(self, context: CheckContext, asking: Asking, obstacle: Queue) -> Blocker:
        return context.wakeups.blockers.get(ClosedLeaf, obstacle)

    def named(self, obstacle: Queue) -> tuple[str, str]:
        return QUEUE_CLOSED, obstacle.path

    def reports(self, context: CheckContext, asking: Asking, obstacle: Queue | None) -> Checks:
        leaf: Queue = asking.app.leaf
        until: float | None = context.extensions[NAME].changes_at(leaf)
        if until is not None:
            word = "open" if obstacle is None else "closed"
            yield RuleCheck(
                code=QUEUE_CLOSED,
                kind="closed",
                subject=leaf.path,
                text=f"queue {leaf.path} is {word} until {clock_time(until)} UTC",
                until=0.0 if obstacle is None else until,
                passed=obstacle is None,
            )


RULES: Final[tuple[Rule, ...]] = (_LeafIsOpen(RulePlace.TIME, (QUEUE_CLOSED,), ClosedLeaf, interest=BIT),)
