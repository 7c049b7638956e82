"""The RM's part of a state dump, requested over its session with a timeout."""

import asyncio
import json

from licorne.v1.session_pb2 import StateDump, StateDumpWanted, UpdateResponse
from licorne_server.rms.outbox import Outbox
from licorne_server.wire.caps import MAX_STATE_DUMP, MAX_STATE_VALUES, size_problem
from licorne_server.wire.framing import delimited
from licorne_server.wire.responses import Kind, Payload

DEADLINE = 5.0
"""Seconds that an RM has for its answer."""


class RmState:
    """The request to one RM in one registration, shared by concurrent callers."""

    def __init__(self) -> None:
        """Start without a question."""
        self._last = 0
        self._open: asyncio.Future[str] | None = None

    async def wanted(self, outbox: Outbox, deadline: float = DEADLINE) -> str:
        """Ask over the outbox; a JSON document, which says so if there is no answer that is one."""
        if self._open is None:
            self._open = asyncio.get_running_loop().create_future()
            self._last += 1
            outbox.put(_question(self._last, deadline))
        answer = self._open
        try:
            async with asyncio.timeout(deadline):
                return await asyncio.shield(answer)
        except TimeoutError:
            if self._open is answer:
                self._open = None
            return problem(f"no answer within {deadline:g} s")

    def answered(self, answer: StateDump) -> None:
        """Accept the RM's answer; one without a waiting caller is dropped."""
        if answer.id == self._last:
            self._settle(_document(answer))

    def void(self) -> None:
        """The RM was registered anew, and will not answer."""
        self._settle(problem("the RM has registered anew"))

    def _settle(self, document: str) -> None:
        if self._open is not None:
            self._open.set_result(document)
            self._open = None


def problem(text: str) -> str:
    """The document that stands for one that there is not."""
    return json.dumps({"error": text})


def _question(number: int, deadline: float) -> Payload:
    wanted = StateDumpWanted(id=number, deadline_milliseconds=round(deadline * 1000))
    field = UpdateResponse.STATE_DUMP_WANTED_FIELD_NUMBER
    return Payload(Kind.SESSION, "dump", delimited(field, wanted.SerializeToString()), 1)


def _document(answer: StateDump) -> str:
    """The RM's document, or the problem with it."""
    if answer.error:
        return problem(answer.error[:MAX_STATE_DUMP])
    wrong = size_problem("json", len(answer.json.encode()), MAX_STATE_DUMP)
    if wrong:
        return problem(wrong)
    count = sum(map(answer.json.count, ",[{"))
    if count > MAX_STATE_VALUES:
        text = f"json has {count} commas and brackets, at most {MAX_STATE_VALUES} are allowed"
        return problem(text)
    try:
        json.loads(answer.json, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        return problem(f"json is no JSON document: {error}")
    return answer.json


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no number")
