"""Predicates in one partition."""

from typing import Final

from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates import NAME
from licorne_core.standard.predicates.checks import PredicateChecks
from licorne_core.standard.predicates.results import PredicateResults


class JudgedNodes(Extension):
    """The open checks, which the whole partition has from here, and the results."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without either."""
        super().__init__(name, bit, context)
        self.checks = context.predicates = PredicateChecks(context.index, context.calls)
        self.results = PredicateResults(context.index, context.timers)
        context.wakeups.blockers.add(self.checks, self.checks.owed)


def judged_of(partition: Partition) -> JudgedNodes:
    """Those of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, JudgedNodes)
    return own


KIND: Final = JudgedNodes
