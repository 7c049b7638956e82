"""Obstacles to the asks of an RM: the first check that each waiting ask fails."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from licorne_core.messages.reasons import UNDER_WAY, Check, NodesCheck, QueueCheck
from licorne_core.model.apps.application import Application, Asking
from licorne_core.model.apps.requests import Request
from licorne_core.partitions.partition import Partition
from licorne_core.standard.preemption.reports import preemption_check
from licorne_core.values.asks import AskClass
from licorne_core.views.explain import first_failing, subject_of
from licorne_core.views.explain_checks import nodes_check

LOOKS = 100
"""Number of asks of an application between two checks of the budget."""


class WaitingAsk(NamedTuple):
    """A waiting ask, and the check that it fails; None if it fails none."""

    partition: Partition
    app: Application
    request: Request
    check: Check | None

    @property
    def code(self) -> str:
        """Code of the check; empty if the ask fails none."""
        return "" if self.check is None else self.check.code

    def message(self) -> str:
        """The obstacle in a sentence, with the state of preemption; empty if there is none."""
        if self.check is None:
            return ""
        text = self.check.message()
        if not isinstance(self.check, QueueCheck | NodesCheck):
            return text
        preemption = preemption_check(self.partition, self.app, self.request)
        return preemption.text if preemption.code == UNDER_WAY else f"{text}; {preemption.text}"


def waiting_asks(partitions: Iterable[Partition], may_go_on: Callable[[], bool]) -> Iterator[WaitingAsk]:
    """Waiting asks by application in the order of submission, while `may_go_on` is true.

    Asks of one group fail the same check, so the checks are made once for each group. An ask with a
    reservation, a promise or no group is checked by itself.
    """
    for partition in partitions:
        obstacles = ObstacleFinder(partition)
        for app in partition.applications.values():
            if not app.pending_count:
                continue
            if not may_go_on():
                return
            for number, request in enumerate(app.pending(), 1):
                if number % LOOKS == 0 and not may_go_on():
                    return
                yield WaitingAsk(partition, app, request, obstacles.first_failing(app, request))


class ObstacleFinder:
    """Finds the obstacles to asks of one partition, which must not change meanwhile."""

    def __init__(self, partition: Partition) -> None:
        """Start with an empty cache."""
        self._partition = partition
        self._by_group: dict[object, Check | None] = {}
        self._by_class: dict[AskClass, NodesCheck] = {}

    def first_failing(self, app: Application, request: Request) -> Check | None:
        """First check that the ask fails; None if it fails none."""
        asking, group = subject_of(app, request), request.group
        if asking.is_reserved or asking.promise is not None or group is None:
            return self._first_failing(asking, request, {})
        if group not in self._by_group:
            self._by_group[group] = self._first_failing(asking, request, self._by_class)
        return self._by_group[group]

    def _first_failing(
        self, asking: Asking, request: Request, kept: dict[AskClass, NodesCheck]
    ) -> Check | None:
        """First check that the ask fails, or None. `kept` caches the check of nodes, which is expensive."""
        found = first_failing(self._partition.check_context, asking)
        if found is not None:
            return found
        ask_class = request.ask.ask_class
        nodes = kept.get(ask_class)
        if nodes is None:
            nodes = kept[ask_class] = nodes_check(self._partition, request)
        return None if nodes.passed else nodes
