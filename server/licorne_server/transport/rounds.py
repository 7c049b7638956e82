"""How much is done for all connections together in one round of the loop.

What costs a client little may cost the server much: 64 KiB of small frames take 2 ms, and a call of 50 bytes
takes all that a call takes. So the work of a round is bounded. Connections with more to do wait for the next
round, and everything else on the loop has its turn before. Strangers and those who are known take turns,
and among each of both hosts do.
"""

import asyncio
from typing import Protocol

from licorne_server.process.fair import RoundRobin

ROUND_WORK = 64 * 1024
"""Work of a round, at most, and that of one step more. A byte that was read is one. No connection reads
more than what is left."""

CALL_WORK = 4 * 1024
"""Work of a call that begins."""

LEAST_BYTES = 1024
"""Bytes that a connection may read when the work of the round is done."""


Line = tuple[bool, str]
"""Connections that take turns as one: whether their peers are known, and their host."""


class Worker(Protocol):
    """A connection that has something to do."""

    is_waiting: bool
    """True while it has something to do."""

    def go_on(self) -> int:
        """Do a step; returns the work of it."""
        ...


class Rounds:
    """The work of the present round."""

    def __init__(self) -> None:
        """Nothing is done yet."""
        self._left = ROUND_WORK
        # Of strangers, and of those who are known.
        self._waiting: tuple[RoundRobin[Line, tuple[Line, Worker]], ...] = (RoundRobin(), RoundRobin())
        # True if it is the turn of those who are known.
        self._is_theirs = True
        self._loop = asyncio.get_running_loop()
        # True while the next round has yet to be told.
        self._is_told = False

    @property
    def room(self) -> int:
        """Bytes that may be read next."""
        return max(self._left, LEAST_BYTES)

    def wait(self, line: Line, worker: Worker) -> None:
        """Have a connection do what it has to, in this round or when it is its turn.

        Connections of one line are served in the order of arrival; lines take turns.
        """
        if self._left <= 0:
            self._put(line, worker)
            return
        self._step(line, worker)
        self._tell()

    def _put(self, line: Line, worker: Worker) -> None:
        is_known, _ = line
        self._waiting[is_known].put(line, (line, worker))

    def _step(self, line: Line, worker: Worker) -> None:
        self._left -= worker.go_on()
        if worker.is_waiting:
            self._put(line, worker)

    def _work(self) -> None:
        strangers, known = self._waiting
        while (strangers.size or known.size) and self._left > 0:
            turn = known if known.size and (self._is_theirs or not strangers.size) else strangers
            self._is_theirs = turn is strangers
            self._step(*turn.take())
        self._tell()

    def _tell(self) -> None:
        """Have the next round begin when it does."""
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round."""
        was_idle = self._left == ROUND_WORK
        self._left = ROUND_WORK
        self._is_told = False
        if not was_idle:
            self._work()
