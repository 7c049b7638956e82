"""Acts of operators on the core: their rights, checks of their requests, the commands, and stored marks.

Every action of an operator, refused ones included, is logged as one event, with the caller's name from its
certificate or token. The line is written at any log level. Each caller has an allowance of such lines, so
that no caller displaces the lines of another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from google.protobuf.message import Message

from licorne_core.messages.commands import Command
from licorne_core.messages.effects import Effect, NotRegistered, OperatorRefusal, OperatorRefused
from licorne_core.messages.operators import OperatorMark
from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import PartitionName, normalize_partition, rm_of
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.engine.engine import Engine
from licorne_server.process.lost_lines import note_lost
from licorne_server.rms.registry import Rms
from licorne_server.security.access import Access
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.revisions import MAX_MARKS, Mark, MarkKind
from licorne_server.wire.caps import MAX_QUEUE_PATH, comment_problem, rm_id_problem, text_problem
from licorne_server.wire.errors import CallError, exhausted, failed_precondition, invalid_argument, not_found
from licorne_server.wire.responses import nanoseconds

T = TypeVar("T")

log = structlog.get_logger("core.admin.audit")

EVENT = "asked for"

_OF_THE_LINE = frozenset({"event", "level", "logger", "timestamp"})
"""Fields that every line has; a field of a request with such a name becomes ``asked_level`` and so on."""
DONE = "done"

MOST_NAMED = 20
"""Maximum number of RMs that a refusal names."""

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message | None)


def check_message(message: str) -> None:
    """Check the reason given by an operator.

    Raises:
        CallError: the message is too long, or has control characters.
    """
    problem = comment_problem("message", message)
    if problem:
        raise invalid_argument(problem, "message")


class Rights:
    """Admits operators, and finds the RM of a request that the caller may see."""

    access: Access
    """Identifies callers."""

    def __init__(self, views: Views, access: Access, configurations: Configurations) -> None:
        """Find RMs in the reports of the core; `access` has the rights of callers.

        `configurations` include RMs that are not registered now.
        """
        self.access = access
        self._views = views
        self._configurations = configurations

    def audited(
        self,
        action: str,
        serve: Callable[[Request, Any], Awaitable[Answer]],
        *fields: str,
        by_rm: bool = False,
        reads: bool = False,
    ) -> Callable[[Request, Any], Awaitable[Answer]]:
        """Wrap a method so that only operators may call it, with one audit line for each call.

        The line has these fields of the request, its RM, and the plain fields of the answer. With `by_rm` an
        RM may call the method for itself; `serve` checks the RM. Viewers may call a method that only `reads`.
        """

        async def audited(request: Request, context: Any) -> Answer:
            outcome = "INTERNAL"
            about = {
                _logged_as(name): _shown(getattr(request, name)) for name in fields if _is_said(request, name)
            }
            try:
                if by_rm:
                    self.access.check_change(context, getattr(request, "rm_id", ""))
                elif reads:
                    self.access.check_viewer(context)
                else:
                    self.access.check_operator(context)
                check_message(getattr(request, "message", ""))
                answer = await serve(request, context)
                about |= _plain(answer)
                outcome = DONE
            except CallError as error:
                outcome = error.reason
                raise
            except NotFound:
                outcome = "NOT_FOUND"
                raise
            except asyncio.CancelledError:
                outcome = "CANCELLED"
                raise
            else:
                return answer
            finally:
                self._note(action, outcome, request, context, about)

        return audited

    def _note(
        self, action: str, outcome: str, request: Message, context: Any, about: dict[str, object]
    ) -> None:
        """Write the audit line. A failure to write it does not undo the action."""
        try:
            known = {"rm_id": shown(getattr(request, "rm_id", "")), **about, "outcome": outcome}
            log.info(EVENT, action=action, by=self._by(context), peer=context.peer(), **known)
        except Exception:
            note_lost(EVENT)

    def _by(self, context: Any) -> str:
        """The caller's name from its certificate or token, or its address; empty if unknown."""
        try:
            return self.access.caller(context).peer
        except CallError:
            return ""

    def rm(self, rm_id: str, context: Any) -> RmReport:
        """The RM that a request names.

        Raises:
            CallError: the RM is not registered, or the caller may not see it.
        """
        self._check(rm_id, context)
        found = self._find(rm_id)
        if found is None:
            raise failed_precondition(
                f"RM {rm_id} has no active partitions, make sure it is registered",
                "RM_NOT_REGISTERED",
            )
        return found

    def known_rm(self, rm_id: str, context: Any) -> RmReport | None:
        """The RM that a request names; None for an RM of which only configurations are stored.

        Such an RM is not registered now: it was removed, or the server was restarted.

        Raises:
            CallError: the RM does not exist, or the caller may not see it.
        """
        self._check(rm_id, context)
        if self._configurations.find(rm_id) is None:
            return self.rm(rm_id, context)
        return self._find(rm_id)

    def _check(self, rm_id: str, context: Any) -> None:
        """Refuse malformed names of RMs, and callers that may not see the RM."""
        if not rm_id:
            raise self._unnamed(context)
        problem = rm_id_problem(rm_id)
        if problem:
            raise invalid_argument(problem, "rm_id")
        self.access.check_read(context, rm_id)

    def _unnamed(self, context: Any) -> CallError:
        """The refusal of a request without an RM, with a list of the RMs that the caller may name."""
        caller = self.access.caller(context)
        known = dict.fromkeys(map(rm_of, self._views.partition_names()))
        rm_ids = [rm_id for rm_id in known if self.access.may_read(caller, rm_id)]
        named = ", ".join(rm_ids[:MOST_NAMED])
        more = f" and {len(rm_ids) - MOST_NAMED} more" if len(rm_ids) > MOST_NAMED else ""
        which = f", name one of them: {named}{more}" if rm_ids else ""
        return invalid_argument(f"rmID is empty{which}", "rm_id", "RM_NOT_NAMED", rms=named)

    def _find(self, rm_id: str) -> RmReport | None:
        try:
            return self._views.rm(rm_id)
        except NotFound:
            return None


def _logged_as(name: str) -> str:
    return f"asked_{name}" if name in _OF_THE_LINE else name


def _shown(value: object) -> object:
    return shown(value) if isinstance(value, str) else value


def _plain(answer: Message | None) -> dict[str, object]:
    """Those fields of an answer that are a single number, text or flag."""
    if answer is None:
        return {}
    return {
        _logged_as(field.name): _shown(getattr(answer, field.name))
        for field in answer.DESCRIPTOR.fields
        if not field.is_repeated and field.message_type is None and _is_said(answer, field.name)
    }


def _is_said(message: Message, name: str) -> bool:
    """False for an optional field that is not set."""
    return not message.DESCRIPTOR.fields_by_name[name].has_presence or message.HasField(name)


class Acts:
    """The services that extensions of the server use for calls of Admin (`extensions/*/admin.py`)."""

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
        """Let the core handle the command, and store a mark for later registrations of the RM.

        `stays` returns further fields of the mark from the outcome, or None if nothing has changed: then the
        former mark is retained.

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
        """A mark with the caller, the current time, and the message of the request as its reason."""
        by = self.rights.access.caller(context).peer
        return OperatorMark(by=by, time=self._engine.now(), message=request.message)

    async def carry_out(self, command: Command, wanted: type[T]) -> T:
        """Submit the command to the core; return the outcome of the wanted type.

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
    """No further fields, for a mark to be recorded, if the outcome has changed something; otherwise None."""
    return {} if done.changed else None
