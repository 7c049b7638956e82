"""Authorization of operators' requests: the caller's role, and the RM that the request may name.

Every action of an operator, refused ones included, is logged as one event, with the caller's name
from its certificate or token. The line is written at any level of the log. Each caller has an
allowance of such lines, so that no caller crowds out another's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import structlog
from google.protobuf.message import Message

from licorne_core.values.errors import NotFound, shown
from licorne_core.values.ids import rm_of
from licorne_core.views import Views
from licorne_core.views.partitions import RmReport
from licorne_server.process.lost_lines import note_lost
from licorne_server.security.access import Access
from licorne_server.store.configurations.history import Configurations
from licorne_server.wire.caps import comment_problem, rm_id_problem
from licorne_server.wire.errors import CallError, failed_precondition, invalid_argument

log = structlog.get_logger("core.admin.audit")

EVENT = "asked for"

_OF_THE_LINE = frozenset({"event", "level", "logger", "timestamp"})
"""Fields that every line has: those of a request are logged as ``asked_level`` and so on."""
DONE = "done"

MOST_NAMED = 20
"""RMs that a refusal names, at most."""

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message | None)


def check_message(message: str) -> None:
    """Check the reason that an operator gives.

    Raises:
        CallError: it is too long, or has control characters.
    """
    problem = comment_problem("message", message)
    if problem:
        raise invalid_argument(problem, "message")


class Rights:
    """Admits operators, and finds the RM of a request after checking that the caller may see it."""

    access: Access
    """Identifies callers."""

    def __init__(self, views: Views, access: Access, configurations: Configurations) -> None:
        """Over the reports of the core, and the rights of callers.

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
        """Wrap a method: operators only, with one audit line for each call.

        The line has these fields of the request, its RM, and the plain fields of the answer. With
        `by_rm` an RM may call it about itself; `serve` checks the RM. A method that only `reads` is for
        viewers too.
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
        """The caller's name from its certificate, token or address; empty if unknown."""
        try:
            return self.access.caller(context).peer
        except CallError:
            return ""

    def rm(self, rm_id: str, context: Any) -> RmReport:
        """The RM that a request names.

        Raises:
            CallError: it is not registered, or the caller may not see it.
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
            CallError: there is no such RM, or the caller may not see it.
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
        """The refusal of a request without an RM, listing those that the caller may name."""
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
    """The fields of an answer that are one number, text or flag each."""
    if answer is None:
        return {}
    return {
        _logged_as(field.name): _shown(getattr(answer, field.name))
        for field in answer.DESCRIPTOR.fields
        if not field.is_repeated and field.message_type is None and _is_said(answer, field.name)
    }


def _is_said(message: Message, name: str) -> bool:
    """False for an optional field that is not given."""
    return not message.DESCRIPTOR.fields_by_name[name].has_presence or message.HasField(name)
