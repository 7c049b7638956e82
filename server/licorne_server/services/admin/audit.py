"""Authorization of changes, and one audit line in the log for each attempt.

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
from licorne_server.security.access import Access
from licorne_server.telemetry.logs import note_lost
from licorne_server.wire.errors import CallError

log = structlog.get_logger("core.admin.audit")

EVENT = "asked for"

_OF_THE_LINE = frozenset({"event", "level", "logger", "timestamp"})
"""Fields that every line has: those of a request are logged as ``asked_level`` and so on."""
DONE = "done"

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message | None)


class Audit:
    """Admits operators, and logs the caller, the request and the outcome."""

    def __init__(self, access: Access) -> None:
        """`access` identifies the caller."""
        self._access = access

    def of(
        self,
        action: str,
        serve: Callable[[Request, Any], Awaitable[Answer]],
        *told: str,
        by_rm: bool = False,
    ) -> Callable[[Request, Any], Awaitable[Answer]]:
        """Wrap a method: operators only, with one audit line for each call.

        The line has the request fields listed in `told`, its RM, and the plain fields of the
        answer. With `by_rm` an RM may call it about itself; `serve` checks the RM.
        """

        async def audited(request: Request, context: Any) -> Answer:
            outcome = "INTERNAL"
            about = {_told_as(name): _shown(getattr(request, name)) for name in told}
            try:
                if not by_rm:
                    self._access.check_operator(context)
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
        """Write the line. A failure of the line does not undo the action."""
        try:
            known = {"rm_id": shown(getattr(request, "rm_id", "")), **about, "outcome": outcome}
            log.info(EVENT, action=action, by=self._by(context), peer=context.peer(), **known)
        except Exception:
            note_lost(EVENT)

    def _by(self, context: Any) -> str:
        """The caller's name from its certificate, token or address; empty if unknown."""
        try:
            return self._access.caller(context).peer
        except CallError:
            return ""


def _told_as(name: str) -> str:
    return f"asked_{name}" if name in _OF_THE_LINE else name


def _shown(value: object) -> object:
    return shown(value) if isinstance(value, str) else value


def _plain(answer: Message | None) -> dict[str, object]:
    """The fields of an answer that are one number, text or flag each."""
    if answer is None:
        return {}
    return {
        _told_as(field.name): _shown(getattr(answer, field.name))
        for field in answer.DESCRIPTOR.fields
        if not field.is_repeated and field.message_type is None
    }
