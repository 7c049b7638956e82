"""Commands of operators to one application: hold, priority, queue.

Nothing is half applied: a command is refused before it has changed anything.
"""

from collections.abc import Iterator
from typing import Final

from licorne_core.handlers.allocations import replace_ask
from licorne_core.handlers.gangs import check_gang
from licorne_core.handlers.lifecycle import enter_leaf, leave_leaf
from licorne_core.handlers.operators import Refused, give_up_waits, not_there, partition_meant
from licorne_core.handlers.outcome import Commands, OutcomeJob
from licorne_core.handlers.victims import ask_again
from licorne_core.messages.effects import ApplicationUpdate, Effect, OperatorRefusal
from licorne_core.messages.events.apps import app_moved, operator_acted
from licorne_core.messages.operators import (
    ApplicationChanged,
    ApplicationHeld,
    ChangeApplication,
    HoldApplication,
    told,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, place_of
from licorne_core.model.limits import group_of
from licorne_core.model.queues.queue import RECOVERY_PATH, Queue, takes_applications, why_closed
from licorne_core.partitions.jobs import CommandJob
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Registry, Rm
from licorne_core.values.app_states import AppState
from licorne_core.values.errors import Rejected, shown
from licorne_core.values.slices import put_in_order

ApplicationCommand = HoldApplication | ChangeApplication


def _act(registry: Registry, rm: Rm, command: ApplicationCommand, now: float) -> list[Effect]:
    """Do it; a refusal changes nothing."""
    job = registry.jobs.find(command)
    if job is None:
        partition = partition_meant(rm, command.partition)
        app = partition.applications.get(command.app_id)
        if app is None:
            return [_resume_awaited(rm, partition, command)]
        job = _begin(rm, partition, app, command, now)
    return registry.jobs.carry_on(job, now)


def _resume_awaited(rm: Rm, partition: Partition, command: ApplicationCommand) -> Effect:
    """End the hold of an application that its RM has not named since its registration.

    Raises:
        Refused: there is no such hold, or the command is another one.
    """
    marks = partition.awaited.get(command.app_id)
    if marks is None or marks.hold is None or not isinstance(command, HoldApplication) or command.held:
        raise not_there(partition, command.app_id)
    partition.awaited[command.app_id] = marks._replace(hold=None)
    return ApplicationHeld(rm_id=rm.rm_id, changed=True, asks=0, allocations=0)


def _begin(
    rm: Rm, partition: Partition, app: Application, command: ApplicationCommand, now: float
) -> CommandJob:
    """The work of a command that is possible.

    Raises:
        Refused: it is not.
    """
    if app.state is AppState.FAILING:
        what = f"application {shown(app.app_id)} is over: it is {app.state.value}"
        raise Refused(OperatorRefusal.APPLICATION_OVER, what)
    if isinstance(command, HoldApplication):
        return _Hold(command, rm, partition, app, now)
    leaf = _target(partition, app, command.queue) if command.queue else partition.leaf_of(app)
    return _Change(command, rm, partition, app, leaf, now)


class _Hold(OutcomeJob):
    """A hold, or its end."""

    def __init__(
        self, command: HoldApplication, rm: Rm, partition: Partition, app: Application, now: float
    ) -> None:
        """Start to hold or resume a present application."""
        self._partition = partition
        self._app = app
        self._held = command.held
        self._mark = command.mark
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Give up what the application waits for. There is no pass before the end."""
        app, partition, held = self._app, self._partition, self._held
        changed = app.held != held
        if changed and held:
            partition.wakeups.waiting.runnable = True
            yield from give_up_waits(partition, app, self.now)
            partition.wakeups.replacing.forget(app)
        app.follow_marks(app.marks._replace(hold=self._mark if held else None))
        if changed:
            partition.dirty.mark_app(app)
            text = f"{'held' if held else 'resumed'}{told(self._mark)}"
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
    """Another priority, another queue, or both."""

    def __init__(
        self,
        command: ChangeApplication,
        rm: Rm,
        partition: Partition,
        app: Application,
        leaf: Queue,
        now: float,
    ) -> None:
        """Start to change an application that the leaf takes, if it is another one."""
        self._partition = partition
        self._app = app
        self._leaf = leaf
        self._mark = command.mark
        given = app.marks.priority if command.priority is None else command.priority
        self._priority = None if command.reset_priority else given
        super().__init__(command, rm.slice_size, now)

    def steps(self) -> Iterator[int]:
        """Change the priority ask by ask, then move the application in one step."""
        app, partition, leaf = self._app, self._partition, self._leaf
        before, was_in = app.marks, app.leaf
        by_operator = leaf.path if leaf is not was_in else before.queue
        marks = before._replace(priority=self._priority, queue=by_operator)
        changed = marks != before
        if changed:
            holds = marks.priority is not None or marks.queue
            app.follow_marks(marks._replace(change=self._mark if holds else None))
        if marks.priority != before.priority:
            yield from _give_priority(partition, app, self.now)
            ask_again(partition, self.now)
            now = "its own again" if marks.priority is None else str(marks.priority)
            self._tell(f"priority of all asks is {now}, set")
        if leaf is not was_in:
            yield from _prepare(partition, app, leaf, self.now)
            _move(partition, app, leaf, self.now)
            self._tell(f"moved from {was_in.path} to {leaf.path}")
        self.tell()
        outcome = ApplicationChanged(
            rm_id=partition.rm_id, changed=changed, queue=app.queue_path, marks=app.marks
        )
        self.effects.append(outcome)

    def _tell(self, text: str) -> None:
        update = _tell(self._partition, self._app, f"{text}{told(self._mark)}", self.now)
        self.outcome.updates.append(update)


def _tell(partition: Partition, app: Application, text: str, now: float) -> ApplicationUpdate:
    """Publish the act, and return it for the RM: the state is the present one, with a message."""
    partition.journal.note_all(operator_acted(now, app.app_id, app.state.value, text))
    return ApplicationUpdate(app_id=app.app_id, state=app.state.value, time=now, message=text)


def _give_priority(partition: Partition, app: Application, now: float) -> Iterator[int]:
    """Let all requests of the application have its priority, or else that of their asks."""
    for request in (yield from put_in_order(list(app.requests.values()), place_of, _is_any)):
        priority = request.ask.priority if app.priority is None else app.priority
        if priority == request.priority:
            continue
        if request.is_pending:
            # One of another place is another request: stale places know the old one.
            replace_ask(partition, app, request, request.ask, now)
        else:
            request.priority = priority
            if request.allocation is not None:
                partition.dirty.mark_victims(partition.nodes.by_id[request.allocation.node_id])
        yield 1
    partition.dirty.mark_app(app)


def _is_any(request: Request) -> bool:
    return True


def _target(partition: Partition, app: Application, path: str) -> Queue:
    """The leaf that the application is to be moved to.

    Raises:
        Refused: there is none, or it would not take the application.
    """
    leaf = partition.tree.get(path)
    if leaf is None:
        what = f"queue {shown(path)} not found in partition {partition.name}"
        raise Refused(OperatorRefusal.NOT_FOUND, what)
    why = "" if leaf is app.leaf else why_not_to(partition, app, leaf)
    if why:
        raise Refused(OperatorRefusal.NOT_POSSIBLE, why)
    return leaf


def why_not_to(partition: Partition, app: Application, leaf: Queue) -> str:
    """The reason that an application cannot be moved to the leaf; empty if it can.

    The rules are those for new applications. A running one goes on running there, so that the
    numbers of applications that may run count as well.
    """
    held = len(app.requests) - app.pending_count
    if held:
        return f"application {app.app_id} has {held} allocations, or asks with a node"
    if leaf.path == RECOVERY_PATH:
        return f"queue {leaf.path} is for recovered applications only"
    if not takes_applications(leaf):
        return f"queue {leaf.path} {why_closed(leaf)}"
    if app.gang.is_wanted:
        try:
            check_gang(app.app_id, leaf, leaf.max, app.gang)
        except Rejected as rejected:
            return str(rejected)
    return _why_not_running(partition, app, leaf) if app.state is AppState.RUNNING else ""


def _why_not_running(partition: Partition, app: Application, leaf: Queue) -> str:
    """The queue, or the limit of the user or group there, that runs as many as it may."""
    group = group_of(leaf, app.user)
    for queue in leaf.lineage:
        if queue in app.leaf.lineage:
            return ""
        if 0 < queue.max_applications <= queue.started_applications:
            return f"queue {queue.path} runs {queue.max_applications} applications already, its maximum"
        for kind, name in (("user", app.user.user), ("group", group)):
            most = partition.limits.most_running(kind, name, queue)
            if most:
                return f"{kind} {name} runs {most} applications in queue {queue.path} already, the maximum"
    return ""


def _prepare(partition: Partition, app: Application, leaf: Queue, now: float) -> Iterator[int]:
    """Nothing of it waits for what is in its present queue, and extensions follow its next one."""
    yield from give_up_waits(partition, app, now)
    for group in list(app.groups.values()):
        # The delay of preemption is the leaf's.
        partition.escalation.start_afresh(group, now)
        yield 1
    for extension in partition.points.follow:
        yield from extension.follow(app, leaf, now)


def _move(partition: Partition, app: Application, leaf: Queue, now: float) -> None:
    """Take it from its leaf to the other one, with its asks, in one step whatever their number."""
    before, group = partition.leaf_of(app), app.group
    leave_leaf(partition, app, now)
    enter_leaf(partition, app, leaf)
    partition.journal.note_all(app_moved(now, app.app_id, (before.path, group), (leaf.path, app.group)))


COMMANDS: Final[Commands] = {HoldApplication: _act, ChangeApplication: _act}
