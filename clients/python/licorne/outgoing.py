"""The queue of unsent requests, with a bound for their callers.

Also here:

* The requests of one replay, from all items in the cache.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import TypeVar

from licorne import wire
from licorne.cache import Cache, creation
from licorne.packer import Packer
from licorne.v1.session_pb2 import (
    PredicateAnswer,
    PredicateAnswers,
    PreemptionAnswer,
    PreemptionAnswers,
    ReplayBegin,
    ReplayEnd,
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


class Replay:
    """A snapshot of the cache, turned into requests one by one.

    The snapshot is taken when the replay is made. Later changes are sent after the replay.
    """

    def __init__(self, cache: Cache) -> None:
        """Take the snapshot."""
        self._nodes = [known.node for known in cache.nodes.values()]
        asks = list(cache.asks.values())
        self._allocations = [known for known in asks if known.node_id]
        self._pending = [known for known in asks if not known.node_id]
        busy = {(known.ask.partition, known.ask.application_id) for known in self._allocations}
        self._applications = [(known.application, key in busy) for key, known in cache.applications.items()]

    def requests(self, max_items: int) -> Iterator[UpdateRequest]:
        """The begin; nodes, applications, allocations and asks; the end with their counts.

        No request has more than `max_items` items. Applications that have allocations are forced,
        because the server must not reject what runs.
        """
        yield UpdateRequest(replay_begin=ReplayBegin())
        packer = Packer(max_items)
        for node in self._nodes:
            packer.nodes([wire.node(node, creation(node))])
            yield from _full(packer)
        for application, force in self._applications:
            packer.new_applications([wire.application(application, force=force)])
            yield from _full(packer)
        for known in (*self._allocations, *self._pending):
            packer.allocations([wire.allocation(known.ask, known.node_id, known.asked_at)])
            yield from _full(packer)
        while (request := packer.take()) is not None:
            yield request
        yield UpdateRequest(
            replay_end=ReplayEnd(
                nodes=len(self._nodes),
                applications=len(self._applications),
                allocations=len(self._allocations) + len(self._pending),
            )
        )


def _full(packer: Packer) -> Iterator[UpdateRequest]:
    """All requests but the last, which takes more items."""
    while len(packer) > 1:
        request = packer.take()
        assert request is not None
        yield request
