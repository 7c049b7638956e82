"""The end of an application by an operator."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from licorne_core.extensions.stops.messages import ApplicationStopped, StopApplication
from licorne_core.handlers.assumed import roll_back_all
from licorne_core.handlers.lifecycle import advance, drop_ask, end_placeholder_time
from licorne_core.handlers.operators import not_there, partition_meant
from licorne_core.handlers.outcome import Commands, OutcomeJob, time_out
from licorne_core.messages.effects import ApplicationUpdate, Effect, Release
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.gang import PairEvent
from licorne_core.model.apps.requests import MAY_GO, Request, RequestState, is_ask, place_of
from licorne_core.model.apps.states import AppEvent
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.standard.preemption.stopping import stop_at_once
from licorne_core.values.app_states import AppState
from licorne_core.values.slices import PART, put_in_order

STOPPED_BY_OPERATOR = "stopped by an operator"
"""Message to the RM if the operator gave no reason."""

_RUNS_FIRST = frozenset({AppState.RESUMING, AppState.COMPLETING})
"""States from which an application cannot fail (spec § 5.1): it has to enter Running first."""


def _stop_application(registry: Registry, rm: Rm, command: StopApplication, now: float) -> list[Effect]:
    """Let the application fail. If it is failing already, send its remaining releases again."""
    job = registry.jobs.find(command)
    if job is None:
        partition = partition_meant(rm, command.partition)
        app = partition.applications.get(command.app_id)
        if app is None:
            raise not_there(partition, command.app_id)
        job = _ApplicationStop(command, rm, partition, app, now)
    return registry.jobs.carry_on(job, now)


class _ApplicationStop(OutcomeJob):
    """The end of one application."""

    def __init__(
        self, command: StopApplication, rm: Rm, partition: Partition, app: Application, now: float
    ) -> None:
        """Prepare to stop an existing application."""
        self._partition = partition
        self._app = app
        self._reason = command.reason or STOPPED_BY_OPERATOR
        self._asks = 0
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Let the application fail; then drop its asks, and stop its allocations in slices."""
        app, partition = self._app, self._partition
        yield from roll_back_all(self, partition, app, PairEvent.TOLD)
        self.outcome.updates += self._fail()
        yield 1
        had = list(app.requests.values())
        asks = yield from put_in_order(had, place_of, is_ask)
        for number, request in enumerate(chain(asks, had), 1):
            release = self._end(request)
            if release is not None:
                self.outcome.release(partition, release)
                yield 1
            elif not number % PART:
                yield 1
        end_placeholder_time(partition, app)
        left = app.allocation_count
        if not left:
            self.outcome.last_updates += advance(partition, app, AppEvent.FAIL, self.now)
        self.tell()
        rm_id = self.command.rm_id
        self.effects.append(ApplicationStopped(rm_id=rm_id, allocations=left, asks=self._asks))

    def _fail(self) -> list[ApplicationUpdate]:
        """Let the application fail, unless it is failing already."""
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
        """Drop an ask, or stop an allocation; return its release, or None if it is being stopped already."""
        app, partition = self._app, self._partition
        if request.is_pending or request.state is RequestState.LINKED:
            self._asks += 1
            drop_ask(partition, app, request, self.now)
        elif request.state is RequestState.NOTICED:
            return stop_at_once(partition, app, request, self.now)
        elif request.state in MAY_GO:
            partition.pairs.stop(app, request)
        else:
            return None
        return time_out(app, request, self._reason)


COMMANDS: Final[Commands] = {StopApplication: _stop_application}
