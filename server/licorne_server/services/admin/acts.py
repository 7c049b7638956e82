"""What operators do to the core: checks of their calls, the commands, and stored marks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect, NotRegistered, OperatorRefusal, OperatorRefused
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.ids import PartitionName, normalize_partition
from licorne_core.views import Views
from licorne_server.engine.engine import Engine
from licorne_server.rms.registry import Rms
from licorne_server.services.admin.rights import Rights
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.marks import MAX_MARKS, Mark, MarkKind
from licorne_server.wire.caps import MAX_QUEUE_PATH, text_problem
from licorne_server.wire.errors import CallError, exhausted, failed_precondition, invalid_argument, not_found
from licorne_server.wire.responses import nanoseconds

T = TypeVar("T", bound=Effect)


class Acts:
    """What extensions of the server need to carry out their calls of Admin (`extensions/*/admin.py`)."""

    def __init__(
        self, rights: Rights, engine: Engine, rms: Rms, views: Views, configurations: Configurations
    ) -> None:
        """Send commands to the engine; `configurations` stores the marks."""
        self.rights = rights
        self.rms = rms
        self.views = views
        self.configurations = configurations
        self._engine = engine

    def check(self, request: Any, context: Any, *problems: tuple[str, str]) -> None:
        """Refuse invalid requests.

        Raises:
            CallError: INVALID_ARGUMENT with the field; or FAILED_PRECONDITION, the RM is not registered.
        """
        partition = ("partition", text_problem("partition", request.partition, MAX_QUEUE_PATH))
        for field, problem in (partition, *problems):
            if problem:
                raise invalid_argument(problem, field)
        self.rights.rm(request.rm_id, context)

    async def marked(
        self,
        command: Any,
        wanted: type[T],
        of: tuple[MarkKind, str],
        request: Any,
        context: Any,
        *,
        on: bool,
        stays: Callable[[T], Mapping[str, Any] | None],
    ) -> T:
        """Have the core handle the command, and store a mark for later registrations of the RM.

        `stays` gives further fields of the mark from the outcome; None if nothing changed: the former mark
        stays.

        Raises:
            CallError: the core refused the command, or the RM has too many marks.
        """
        kind, name = of
        done_by = self.mark(request, context)
        rm_id = command.rm_id
        async with self.rms.lock(rm_id):
            self.rights.rm(rm_id, context)
            if on and not self.configurations.has_room_for_mark(rm_id):
                text = f"RM {rm_id} has {MAX_MARKS} cordoned nodes and stopped queues already"
                raise exhausted(text, "TOO_MANY_MARKS")
            mark = Mark(
                kind=kind,
                partition=PartitionName(normalize_partition(rm_id, command.partition) or command.partition),
                name=name,
                by=done_by.by,
                time=nanoseconds(done_by.time),
                why=done_by.message,
            )
            done = await self.carry_out(replace(command, mark=done_by), wanted)
            more = stays(done)
            if more is None:
                return done
            self.configurations.mark(rm_id, replace(mark, **more), on=on)
        await self.configurations.stored.written(rm_id)
        return done

    def mark(self, request: Any, context: Any) -> OperatorMark:
        """A mark with the caller, the present time and the reason in the request's message."""
        by = self.rights.access.caller(context).peer
        return OperatorMark(by=by, time=self._engine.now(), message=request.message)

    async def carry_out(self, command: Command, wanted: type[T]) -> T:
        """Have the core handle the command; returns the outcome of the wanted type.

        Raises:
            CallError: the core refused the command.
        """
        return outcome(await self._engine.submit(command), wanted)


def outcome(effects: Sequence[Effect], wanted: type[T]) -> T:
    """The outcome of an operator's command: the effect of the wanted type.

    Raises:
        CallError: the core refused the command.
    """
    for effect in effects:
        if isinstance(effect, wanted):
            return effect
        if isinstance(effect, OperatorRefused):
            raise _refused(effect)
        if isinstance(effect, NotRegistered):
            raise failed_precondition(effect.reason, "RM_NOT_REGISTERED")
    raise AssertionError(f"there is no {wanted.__name__} among {effects}")


def _refused(effect: OperatorRefused) -> CallError:
    """The status for a refusal of the core."""
    match effect.refusal:
        case OperatorRefusal.NOT_FOUND:
            return not_found(effect.reason)
        case OperatorRefusal.APPLICATION_OVER:
            return failed_precondition(effect.reason, "APPLICATION_OVER")
        case OperatorRefusal.QUEUE_DRAINING:
            return failed_precondition(effect.reason, "QUEUE_DRAINING")
        case OperatorRefusal.NOT_POSSIBLE:
            return failed_precondition(effect.reason, "CANNOT_MOVE")


def if_changed(done: Any) -> Mapping[str, Any] | None:
    """The further fields of a mark: none if the outcome has changed something; None if it has not."""
    return {} if done.changed else None
