"""Units: members of gangs that are stopped together, for gangs in units (`GangUnits`).

A gang loses its steps of growth one by one, the newest first if that helps, and its minimum only together
with all its steps. Of several gangs, the one with the most steps loses one first. A unit is a
candidate like an allocation, but may be on many nodes. Two candidates of one gang never have members in
common, as each charges the parts of the gang that it takes.
"""

from collections.abc import Collection, Mapping, Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.members import unit_of, units_of
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.victims import Allowance, Unit, Victim
from licorne_core.values.ids import AppId, NodeId

_PARTS = "parts"
"""Name of the allowance from which a step takes 1, and the whole gang takes all."""


class Units:
    """The units of all gangs of a partition in one search; they are found lazily."""

    __slots__ = ("_applications", "_by_app", "_by_leaf", "_growing", "_in_units", "_nodes", "looked_at")

    def __init__(
        self,
        nodes: Mapping[NodeId, Node],
        applications: Mapping[AppId, Application],
        in_units: Collection[AppId],
    ) -> None:
        """Find the units of these live objects of a partition; `in_units` are the gangs among them."""
        self._nodes = nodes
        self._applications = applications
        self._in_units = in_units
        self._by_app: dict[Application, dict[Request, Unit]] = {}
        self._by_leaf: dict[Queue, list[Application]] | None = None
        self._growing: dict[Application, dict[Node, int]] | None = None
        self.looked_at = 0
        """Number of requests examined."""

    def of(self, app: Application) -> dict[Request, Unit]:
        """The units of a gang by member."""
        known = self._by_app.get(app)
        if known is None:
            known = self._by_app[app] = self._found(app)
        return known

    def growing(self) -> dict[Application, dict[Node, int]]:
        """The gangs that have grown, each with the nodes of its steps and the highest step on each node."""
        if self._growing is None:
            self._growing = {}
            for app_id in self._in_units:
                app = self._applications[app_id]
                in_units = app.gang.units
                if in_units is not None and in_units.behind:
                    # In ascending order: later entries overwrite earlier ones, so the highest step is kept.
                    units = [unit for unit in dict.fromkeys(self.of(app).values()) if unit.step]
                    steps = {victim.node: unit.step for unit in units for victim in unit.victims}
                    if steps:
                        self._growing[app] = steps
        return self._growing

    def in_leaf(self, leaf: Queue) -> Sequence[Application]:
        """The gangs in units in a leaf."""
        if self._by_leaf is None:
            self._by_leaf = {}
            for app_id in self._in_units:
                app = self._applications[app_id]
                self._by_leaf.setdefault(app.leaf, []).append(app)
        return self._by_leaf.get(leaf, ())

    def unit(self, app: Application, request: Request) -> Unit | None:
        """The unit of a member of a gang in units; None for other requests."""
        return None if app.gang.units is None else self.of(app).get(request)

    def with_others(self, app: Application, request: Request) -> tuple[Victim, ...]:
        """The allocation, and all requests stopped with it; empty for a request without a node."""
        if request.allocation is None:
            return ()
        return tuple([self._victim(app, one) for one in unit_of(app, request) or (request,)])

    def _found(self, app: Application) -> dict[Request, Unit]:
        self.looked_at += len(app.requests)
        parts = [tuple([self._victim(app, request) for request in part]) for part in units_of(app)]
        if not parts:
            return {}
        left: Allowance = {_PARTS: len(parts)}
        everything = tuple([victim for part in parts for victim in part])
        whole = Unit(everything, ((left, _PARTS, len(parts)),))
        steps = [Unit(part, ((left, _PARTS, 1),), step, whole) for step, part in enumerate(parts[1:], 1)]
        units = [whole, *steps]
        return {victim.request: units[number] for number, part in enumerate(parts) for victim in part}

    def _victim(self, app: Application, request: Request) -> Victim:
        assert request.allocation is not None, f"{request!r} runs"
        return Victim(app, request, self._nodes[request.allocation.node_id])
