"""Predicates in one partition."""

from collections.abc import Mapping
from typing import Final

from licorne_core.handlers.assumed import WAITS_FOR_ANSWER
from licorne_core.model.apps.application import Application
from licorne_core.partitions.partition import Partition
from licorne_core.points import Extension
from licorne_core.scheduling.rules import CheckContext
from licorne_core.standard.predicates import NAME
from licorne_core.standard.predicates.checks import PredicateChecks
from licorne_core.standard.predicates.results import PredicateResults
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AppId


class JudgedNodes(Extension):
    """The open checks, which other parts of the partition use through the context, and the results."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without checks and results."""
        super().__init__(name, bit, context)
        self.checks = context.predicates = PredicateChecks(context.index, context.calls)
        self.results = PredicateResults(context.index, context.timers)
        context.wakeups.blockers.add(self.checks, self.checks.owed)

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Check that each assumed request waits for an answer, and that the answer has a deadline."""
        for app in applications.values():
            for request in app.requests.values():
                if request.state in WAITS_FOR_ANSWER and not self.checks.is_waiting(request):
                    raise InvariantBroken(f"L1: {request!r} waits for no answer that has a deadline")


def judged_of(partition: Partition) -> JudgedNodes:
    """The checks and results of the partition."""
    own = partition.points.named(NAME)
    assert isinstance(own, JudgedNodes)
    return own


KIND: Final = JudgedNodes
