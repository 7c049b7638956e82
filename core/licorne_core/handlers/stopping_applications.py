"""An operator ends an application: it fails, as one does whose gang has not come together (§ 6.8).

Its asks are dropped at once. What runs is the RM's: it is told to stop that, and the books keep it
until the RM has confirmed. With the last of it the application has failed.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

from licorne_core.acts import Act
from licorne_core.apps.application import Application
from licorne_core.apps.gang_rules import PairEvent
from licorne_core.apps.requests import MAY_GO, Request, RequestState
from licorne_core.apps.states import AppEvent, AppState
from licorne_core.commands import StopApplication
from licorne_core.effects import (
    AllocationsReleased,
    ApplicationStopped,
    ApplicationsUpdated,
    ApplicationUpdate,
    Effect,
    OperatorRefusal,
    Release,
)
from licorne_core.errors import shown
from licorne_core.handlers.predicates import roll_back_all
from licorne_core.handlers.refusals import Refused, partition_meant
from licorne_core.handlers.stopping import time_out
from licorne_core.ids import AppId
from licorne_core.lifecycle import advance, drop_ask, end_placeholder_time
from licorne_core.partition import Partition
from licorne_core.registry import Registry, Rm

STOPPED_BY_OPERATOR = "stopped by an operator"
"""What the RM reads if the operator gave no reason."""

_RUNS_FIRST = frozenset({AppState.RESUMING, AppState.COMPLETING})
"""From these states an application cannot fail (spec § 5.1), so that it runs before."""


def stop_application(
    registry: Registry, rm: Rm, command: StopApplication, now: float
) -> list[Effect]:
    """Let the application fail. One that is failing already is told again what it has left."""
    act = registry.acts.find(command)
    if act is None:
        partition = partition_meant(rm, command.partition)
        app = partition.applications.get(AppId(command.app_id))
        if app is None:
            raise _not_there(partition, command.app_id)
        act = _Stopping(command, rm, partition, app, now)
    return registry.acts.carry_on(act, now)


def _not_there(partition: Partition, app_id: str) -> Refused:
    """Why there is nothing to stop: the application is over, or was never there."""
    for ended in (partition.completed, partition.rejected):
        for app in reversed(ended.values()):
            if app.app_id == app_id:
                what = f"application {shown(app_id)} is over: it is {app.state.value}"
                return Refused(OperatorRefusal.APPLICATION_OVER, what)
    what = f"application {shown(app_id)} not found in partition {partition.name}"
    return Refused(OperatorRefusal.NOT_FOUND, what)


class _Stopping(Act):
    """The end of one application."""

    def __init__(
        self, command: StopApplication, rm: Rm, partition: Partition, app: Application, now: float
    ) -> None:
        """The application is there."""
        self._rm = rm
        self._partition = partition
        self._app = app
        self._reason = command.reason or STOPPED_BY_OPERATOR
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """It fails; then its asks go, and what runs is told to stop, so many at a time."""
        app, partition = self._app, self._partition
        roll_back_all(partition, app, PairEvent.TOLD, self.now)
        self._tell(updates=self._fail())
        yield 1
        asks = [place.request for place in app.asks_in_order()]
        rest = iter([*asks, *app.booked()])
        while some := list(islice(rest, self._rm.slice_size)):
            releases = (self._end(request) for request in some)
            self._tell(releases=[release for release in releases if release is not None])
            yield len(some)
        end_placeholder_time(partition, app)
        left = app.allocation_count
        if not left:
            self._tell(updates=advance(partition, app, AppEvent.FAIL, self.now))
        rm_id = self._rm.rm_id
        self.effects.append(ApplicationStopped(rm_id=rm_id, allocations=left, asks=len(asks)))

    def _tell(
        self, updates: Sequence[ApplicationUpdate] = (), releases: Sequence[Release] = ()
    ) -> None:
        """The RM hears of these."""
        rm_id = self._rm.rm_id
        if updates:
            self.effects.append(ApplicationsUpdated(rm_id=rm_id, updates=updates))
        if releases:
            name = self._partition.name
            self.effects.append(AllocationsReleased(rm_id=rm_id, partition=name, releases=releases))

    def _fail(self) -> list[ApplicationUpdate]:
        """The application is failing from now on, unless it was before."""
        app, partition, updates = self._app, self._partition, list[ApplicationUpdate]()
        if app.state is AppState.FAILING:
            return updates
        app.failure = self._reason
        app.footprint += len(self._reason)
        app.holdings.memory += len(self._reason)
        if app.state in _RUNS_FIRST:
            updates += advance(partition, app, AppEvent.RUN, self.now, self._reason)
        return updates + advance(partition, app, AppEvent.FAIL, self.now, self._reason)

    def _end(self, request: Request) -> Release | None:
        """Drop an ask, or have an allocation stopped; what the RM is told, if it was not before."""
        app, partition = self._app, self._partition
        if request.is_pending or request.state is RequestState.LINKED:
            drop_ask(partition, app, request, self.now)
        elif request.state in MAY_GO:
            partition.pairs.stop(app, request)
        else:
            return None
        return time_out(app, request, self._reason)
