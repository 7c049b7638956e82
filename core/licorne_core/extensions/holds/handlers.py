"""Commands of operators to one application: hold, priority, queue.

No command is applied in part: it is refused before it has changed anything.
"""

from collections.abc import Iterator
from typing import Final

from licorne_core.extensions.holds import NAME
from licorne_core.extensions.holds.extension import Holds
from licorne_core.extensions.holds.messages import (
    ApplicationChanged,
    ApplicationHeld,
    ChangeApplication,
    HoldApplication,
)
from licorne_core.extensions.holds.moving import move, prepare, target
from licorne_core.handlers.allocations import replace_ask
from licorne_core.handlers.operators import CommandRefused, give_up_waits, not_there, partition_meant
from licorne_core.handlers.outcome import Commands, OutcomeJob
from licorne_core.messages.effects import ApplicationUpdate, Effect, OperatorRefusal
from licorne_core.messages.events.apps import operator_acted
from licorne_core.messages.operators import mark_text
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, place_of
from licorne_core.model.queues.queue import Queue
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.scheduling.stays import ask_again
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import shown
from licorne_core.values.slices import put_in_order

ApplicationCommand = HoldApplication | ChangeApplication


def _act(registry: Registry, rm: Rm, command: ApplicationCommand, now: float) -> list[Effect]:
    """Execute the command; a refusal changes nothing."""
    job = registry.jobs.find(command)
    if job is None:
        partition = partition_meant(rm, command.partition)
        app = partition.applications.get(command.app_id)
        if app is None:
            return [_resume_expected(rm, partition, command)]
        job = _begin(rm, partition, app, command, now)
    return registry.jobs.carry_on(job, now)


def _resume_expected(rm: Rm, partition: Partition, command: ApplicationCommand) -> Effect:
    """End the hold of an application that its RM has not sent since its registration.

    Raises:
        CommandRefused: there is no such hold, or the command is another one.
    """
    expected = holds_of(partition).expected
    marks = expected.get(command.app_id)
    if marks is None or marks.hold is None or not isinstance(command, HoldApplication) or command.held:
        raise not_there(partition, command.app_id)
    expected[command.app_id] = marks._replace(hold=None)
    return ApplicationHeld(rm_id=rm.rm_id, changed=True, asks=0, allocations=0)


def _begin(
    rm: Rm, partition: Partition, app: Application, command: ApplicationCommand, now: float
) -> CommandJob:
    """The job of a command. Raises CommandRefused if the command is not possible."""
    if app.state is AppState.FAILING:
        what = f"application {shown(app.app_id)} is over: it is {app.state.value}"
        raise CommandRefused(OperatorRefusal.APPLICATION_OVER, what)
    if isinstance(command, HoldApplication):
        return _Hold(command, rm, partition, app, now)
    leaf = target(partition, app, command.queue) if command.queue else partition.leaf_of(app)
    return _Change(command, rm, partition, app, leaf, now)


class _Hold(OutcomeJob):
    """The job of a command that holds or resumes an application."""

    def __init__(
        self, command: HoldApplication, rm: Rm, partition: Partition, app: Application, now: float
    ) -> None:
        """Prepare to hold or resume an existing application."""
        self._partition = partition
        self._app = app
        self._held = command.held
        self._mark = command.mark
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Remove the application's asks from all queues of waiting work. No pass runs before the job ends."""
        app, partition, held = self._app, self._partition, self._held
        changed = (app.held is not None) != held
        if changed and held:
            partition.wakeups.waiting.runnable = True
            yield from give_up_waits(partition, app, self.now)
            partition.wakeups.replacing.forget(app)
        holds = holds_of(partition)
        holds.note(app, holds.of(app)._replace(hold=self._mark if held else None))
        if changed:
            partition.dirty.mark_app(app)
            text = f"{'held' if held else 'resumed'}{mark_text(self._mark)}"
            self.outcome.updates.append(_tell(partition, app, text, self.now))
        self.tell()
        outcome = ApplicationHeld(
            rm_id=partition.rm_id,
            changed=changed,
            asks=len(app.requests) - app.allocation_count + app.assumed_count,
            allocations=app.allocation_count - app.assumed_count,
        )
        self.effects.append(outcome)


class _Change(OutcomeJob):
    """Sets another priority, another queue, or both."""

    def __init__(
        self,
        command: ChangeApplication,
        rm: Rm,
        partition: Partition,
        app: Application,
        leaf: Queue,
        now: float,
    ) -> None:
        """Prepare to change an application; if `leaf` is another leaf, it has to accept the application."""
        self._partition = partition
        self._app = app
        self._leaf = leaf
        self._mark = command.mark
        given = app.priority if command.priority is None else command.priority
        self._priority = None if command.reset_priority else given
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Change the priority ask by ask, then move the application in one step."""
        app, partition, leaf = self._app, self._partition, self._leaf
        marking, was_in = holds_of(partition), app.leaf
        before = marking.of(app)
        by_operator = leaf.path if leaf is not was_in else before.queue
        marks = before._replace(priority=self._priority, queue=by_operator)
        changed = marks != before
        if changed:
            holds = marks.priority is not None or marks.queue
            marking.note(app, marks._replace(change=self._mark if holds else None))
        if marks.priority != before.priority:
            yield from _give_priority(partition, app, self.now)
            ask_again(partition.stays, self.now)
            now = "its own again" if marks.priority is None else str(marks.priority)
            self._tell(f"priority of all asks is {now}, set")
        if leaf is not was_in:
            yield from prepare(partition, app, leaf, self.now)
            move(partition, app, leaf, self.now)
            self._tell(f"moved from {was_in.path} to {leaf.path}")
        self.tell()
        outcome = ApplicationChanged(
            rm_id=partition.rm_id, changed=changed, queue=app.queue_path, marks=marking.of(app)
        )
        self.effects.append(outcome)

    def _tell(self, text: str) -> None:
        update = _tell(self._partition, self._app, f"{text}{mark_text(self._mark)}", self.now)
        self.outcome.updates.append(update)


def _tell(partition: Partition, app: Application, text: str, now: float) -> ApplicationUpdate:
    """Publish the act; return it for the RM, as an update with a message and the current state."""
    partition.journal.note_all(operator_acted(now, app.app_id, app.state.value, text))
    return ApplicationUpdate(app_id=app.app_id, state=app.state.value, time=now, message=text)


def _give_priority(partition: Partition, app: Application, now: float) -> Iterator[int]:
    """Give all requests the priority set for the application, or otherwise the priorities of their asks."""
    for request in (yield from put_in_order(list(app.requests.values()), place_of, _is_any)):
        priority = request.ask.priority if app.priority is None else app.priority
        if priority == request.priority:
            continue
        if request.is_pending:
            # Heaps still have the old object of an ask, so each new position needs a new object.
            replace_ask(partition, app, request, request.ask, now)
        else:
            request.priority = priority
            if request.allocation is not None:
                partition.dirty.mark_victims(partition.nodes.by_id[request.allocation.node_id])
        yield 1
    partition.dirty.mark_app(app)


def _is_any(request: Request) -> bool:
    return True


def holds_of(partition: Partition) -> Holds:
    """The holds of a partition."""
    found = partition.points.named(NAME)
    assert isinstance(found, Holds)
    return found


COMMANDS: Final[Commands] = {HoldApplication: _act, ChangeApplication: _act}
