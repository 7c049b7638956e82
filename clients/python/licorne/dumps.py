"""The client's part of the server's state dumps."""

import asyncio
import inspect
import json
import logging
from collections.abc import Callable
from typing import Any

from licorne.callbacks import OnStateDump
from licorne.session import Stamp
from licorne.v1.session_pb2 import StateDump, StateDumpWanted

LOG = logging.getLogger("licorne")

MAX_BYTES = 1024 * 1024
"""Bytes of the JSON that the server takes."""

MAX_ERROR = 1000
"""Characters of an error's text."""


class StateDumper:
    """Answers the server's questions with the caller's function, one after the other."""

    def __init__(self, function: OnStateDump, send: Callable[[Stamp, StateDump], None]) -> None:
        """Give the answers to `send`, each with the stamp of the session that asked."""
        self._function = function
        self._send = send
        self._task: asyncio.Task[None] | None = None

    def start(self, stamp: Stamp, wanted: StateDumpWanted) -> None:
        """Begin to answer; an unfinished answer to an earlier question is dropped."""
        self.stop()
        self._task = asyncio.create_task(self._answer(stamp, wanted))

    def stop(self) -> None:
        """Answer nothing more."""
        if self._task is not None:
            self._task.cancel()

    async def _answer(self, stamp: Stamp, wanted: StateDumpWanted) -> None:
        answer = StateDump(id=wanted.id)
        seconds = wanted.deadline_milliseconds / 1000
        try:
            async with asyncio.timeout(seconds):
                state = self._function()
                if inspect.isawaitable(state):
                    state = await state
            answer.json = _document(state)
        except TimeoutError:
            LOG.warning("no state for a dump within %.3f s", seconds)
            return
        except Exception as error:
            LOG.exception("%r failed", self._function)
            answer.error = f"{type(error).__name__}: {error}"[:MAX_ERROR]
        self._send(stamp, answer)


def _document(state: Any) -> str:
    """The state as JSON; a text is taken for JSON already."""
    text = state if isinstance(state, str) else json.dumps(state, allow_nan=False)
    size = len(text.encode())
    if size > MAX_BYTES:
        raise ValueError(f"the state has {size} bytes, at most {MAX_BYTES} are taken")
    return text
