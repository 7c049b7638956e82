"""Bounds the work for all connections together in one round of the loop.

Requests that are cheap for a client may be expensive for the server: 64 KiB of small frames take 2 ms, and a
call of 50 bytes costs as much as any call. So the work of a round is bounded. Connections with more work wait
for the next round, and all other tasks of the loop run before it. Unauthenticated and authenticated peers
take turns, and so do the hosts within each of these groups.
"""

import asyncio
from typing import Protocol

from licorne_server.process.fair import RoundRobin

ROUND_WORK = 64 * 1024
"""Maximum work of a round, which the last step may exceed. The work of reading one byte is 1. No connection
reads more bytes than the remaining work."""

CALL_WORK = 4 * 1024
"""Work of a call that begins."""

LEAST_BYTES = 1024
"""Number of bytes that a connection may read even if the work of the round is used up."""


Line = tuple[bool, str]
"""Key of connections that share a turn: whether their peers are authenticated, and their host."""


class Worker(Protocol):
    """A connection with work to do."""

    is_waiting: bool
    """True while the connection waits for its turn."""

    def go_on(self) -> int:
        """Do one step; returns the work of the step."""
        ...


class Rounds:
    """The work of the current round."""

    def __init__(self) -> None:
        """Start with an unused round."""
        self._left = ROUND_WORK
        # Waiting connections of unauthenticated peers; then, of authenticated peers.
        self._waiting: tuple[RoundRobin[Line, tuple[Line, Worker]], ...] = (RoundRobin(), RoundRobin())
        # True if authenticated peers have the next turn.
        self._is_theirs = True
        self._loop = asyncio.get_running_loop()
        # True once the next round is scheduled.
        self._is_told = False

    @property
    def room(self) -> int:
        """Number of bytes that may be read next."""
        return max(self._left, LEAST_BYTES)

    def wait(self, line: Line, worker: Worker) -> None:
        """Let a connection execute a step: in this round if there is work left, otherwise in its turn.

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
        """Schedule the beginning of the next round."""
        if not self._is_told:
            self._is_told = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a round, and let waiting connections take their turns."""
        was_idle = self._left == ROUND_WORK
        self._left = ROUND_WORK
        self._is_told = False
        if not was_idle:
            self._work()
