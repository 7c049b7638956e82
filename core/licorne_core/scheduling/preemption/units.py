"""Units: the members of elastic gangs that are stopped together.

A gang loses its steps of growth one by one, the newest first if that helps, and its minimum only with
all that it has grown by. Of several gangs the one with the most steps loses one first. A unit is a
candidate like an allocation: it may be on many nodes. Two candidates of one gang never have members in
common, as each charges the parts of the gang that it takes.
"""

from collections.abc import Collection, Mapping

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.members import units_of
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.preemption.victims import Allowance, Unit, Victim
from licorne_core.values.ids import AppId, NodeId


class Units:
    """The units of all elastic gangs of a partition, as they are in one search; found as far as needed."""

    __slots__ = ("_applications", "_by_app", "_elastic", "_growing", "_nodes", "looked_at")

    def __init__(
        self,
        nodes: Mapping[NodeId, Node],
        applications: Mapping[AppId, Application],
        elastic: Collection[AppId],
    ) -> None:
        """Find the units of these live objects of a partition; `elastic` are the gangs among them."""
        self._nodes = nodes
        self._applications = applications
        self._elastic = elastic
        self._by_app: dict[Application, dict[Request, Unit]] = {}
        self._growing: dict[Application, dict[Node, int]] | None = None
        self.looked_at = 0
        """Requests that were looked at."""

    def of(self, app: Application) -> dict[Request, Unit]:
        """The units of an elastic gang by member."""
        known = self._by_app.get(app)
        if known is None:
            known = self._by_app[app] = self._found(app)
        return known

    def growing(self) -> dict[Application, dict[Node, int]]:
        """The gangs above their minimum, each with the nodes of its steps, and the highest step there."""
        if self._growing is None:
            self._growing = {}
            for app_id in self._elastic:
                app = self._applications[app_id]
                elastic = app.gang.elastic
                if elastic is not None and elastic.has_minimum:
                    # Ascending, so that the highest stays.
                    units = [unit for unit in dict.fromkeys(self.of(app).values()) if unit.step]
                    steps = {victim.node: unit.step for unit in units for victim in unit.victims}
                    if steps:
                        self._growing[app] = steps
        return self._growing

    def step(self, app: Application, request: Request) -> int:
        """Number of the step that a member has come with; 0 for one of the minimum, and for others."""
        unit = None if app.gang.elastic is None else self.of(app).get(request)
        return 0 if unit is None else unit.step

    def with_others(self, app: Application, request: Request) -> tuple[Victim, ...]:
        """The allocation, and all that are stopped with it; none for a request that is not on a node."""
        if request.allocation is None:
            return ()
        unit = None if app.gang.elastic is None else self.of(app).get(request)
        return (self._victim(app, request),) if unit is None else unit.victims

    def _found(self, app: Application) -> dict[Request, Unit]:
        self.looked_at += len(app.requests)
        parts = [tuple([self._victim(app, request) for request in part]) for part in units_of(app)]
        left: Allowance = {str(number): 1 for number in range(len(parts))}
        units = [Unit(part, number, ((left, str(number), 1),)) for number, part in enumerate(parts)]
        if units:
            everything = tuple([victim for part in parts for victim in part])
            units[0] = Unit(everything, 0, tuple([(left, name, 1) for name in left]))
        return {victim.request: units[number] for number, part in enumerate(parts) for victim in part}

    def _victim(self, app: Application, request: Request) -> Victim:
        assert request.allocation is not None, f"{request!r} runs"
        return Victim(app, request, self._nodes[request.allocation.node_id])
