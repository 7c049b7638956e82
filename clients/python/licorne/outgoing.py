"""The queue of unsent requests, with a bound for their callers."""

import asyncio
from collections import deque
from typing import TypeVar

from licorne.packer import Packer
from licorne.v1.session_pb2 import (
    PredicateAnswer,
    PredicateAnswers,
    PreemptionAnswer,
    PreemptionAnswers,
    StateDump,
    UpdateRequest,
)

A = TypeVar("A")

MAX_ANSWERS = 1000
"""Answers in one request."""


class Outgoing:
    """The requests of the session that are not sent yet.

    It is closed while there is no session: the replay of the next one sends everything then. It is
    open without a stream while the session can be resumed.
    """

    def __init__(self, limit: int) -> None:
        """Let about `limit` items wait."""
        self.packer = Packer()
        """The requests made of the caller's items."""
        self._answers: deque[PredicateAnswer] = deque()
        """The answers to predicate checks, which are sent first."""
        self._victims: deque[PreemptionAnswer] = deque()
        """The answers to preemption checks, which are sent next."""
        self._dump: StateDump | None = None
        """The answer to a question for the state: only the newest counts."""
        self._limit = limit
        self.is_open = False
        """True if there is a session to queue requests for."""
        self.streaming = False
        """True if that session has a stream now."""
        self._room = asyncio.Event()
        """Set unless a caller waits for room."""
        self._room.set()

    def open(self, max_items: int) -> None:
        """The session has a stream, which takes `max_items` items in a request."""
        self.packer.max_items = max_items
        self.is_open = self.streaming = True

    def pause(self, *, resumable: bool) -> None:
        """The stream is gone; the session too, unless it is resumable."""
        self.streaming = False
        self._room.set()
        if not resumable:
            self.close()

    def close(self) -> None:
        """The session is gone, and with it what waited."""
        self.clear()
        self.is_open = self.streaming = False
        self._room.set()

    def clear(self) -> None:
        """Drop the queue."""
        self.packer.clear()
        self._answers.clear()
        self._victims.clear()
        self._dump = None

    def answer(self, answer: PredicateAnswer | PreemptionAnswer) -> None:
        """Queue an answer behind others of its kind and before all items: the server waits."""
        if isinstance(answer, PredicateAnswer):
            self._answers.append(answer)
        else:
            self._victims.append(answer)

    def dump(self, dump: StateDump) -> None:
        """Queue the answer to a question for the state behind answers and before all items."""
        self._dump = dump

    def next(self) -> UpdateRequest | None:
        """Take off the request to send next; None if there is none."""
        if self._answers:
            answers = PredicateAnswers(answers=_first(self._answers))
            return UpdateRequest(predicate_answers=answers)
        if self._victims:
            victims = PreemptionAnswers(answers=_first(self._victims))
            return UpdateRequest(preemption_answers=victims)
        if self._dump is not None:
            dump, self._dump = self._dump, None
            return UpdateRequest(state_dump=dump)
        request = self.packer.take()
        if self.packer.items < self._limit:
            self._room.set()
        return request

    async def room(self) -> bool:
        """Wait until there is room. Returns False at once if no stream is there to make any."""
        if self.packer.items < self._limit:
            return True
        if not self.streaming:
            return False
        self._room.clear()
        await self._room.wait()
        return True


def _first(waiting: deque[A]) -> list[A]:
    """Take off as many answers as fit a request."""
    return [waiting.popleft() for _ in range(min(len(waiting), MAX_ANSWERS))]
