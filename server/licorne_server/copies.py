"""Questions about what would happen, answered on copies of the core (DESIGN § 2).

One copy is there at a time, and others wait for it by party. A copy is made between two commands,
when nothing of the core is half changed. Nothing is served from it, and
it ends in every case: when it has answered, when its caller has gone, when it takes too long, and
when the server stops.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from functools import partial
from time import perf_counter

import structlog

from licorne_core.commands import UpdateNodes
from licorne_core.ids import RmId
from licorne_core.scheduler import Scheduler
from licorne_server import grpc_forks
from licorne_server.copied_process import FAILED, Child, Spent, start, whole_answer
from licorne_server.engine import Engine
from licorne_server.errors import (
    Defect,
    Stopped,
    aborted,
    exhausted,
    failed_precondition,
    new_correlation_id,
)
from licorne_server.party_line import PartyLine

log = structlog.get_logger(__name__)

CPU_SECONDS = 10
"""Seconds of the processor for a copy: it plans so that it is done by then."""

DEADLINE = 60.0
"""Seconds until a copy that does not answer is ended: it may have to share the processor."""

MOST_OF_PARTY = 4
"""Questions of one party that may wait."""

MOST = 64
"""Questions that may wait in all."""

_CHUNK = 1 << 18

Question = Callable[[Scheduler, float, Spent], bytes]
"""Gives an answer, in the copy, from the scheduler there and the time in unix seconds."""


class Copies:
    """The one copy that there may be, and those who wait for it."""

    made: int
    """Copies that were made since the start."""

    def __init__(self, engine: Engine, scheduler: Scheduler, shortage: Callable[[], str]) -> None:
        """Of the engine's scheduler; while there is a `shortage` of memory no copy is made."""
        self.made = 0
        self._engine = engine
        self._scheduler = scheduler
        self._shortage = shortage
        self._line = PartyLine("plans", "TOO_MANY_PLANS", of_party=MOST_OF_PARTY, most=MOST)
        self._children: set[Child] = set()
        self._ending: set[asyncio.Task[str]] = set()
        self._stopped = False

    @property
    def waiting(self) -> int:
        """Questions that wait for their turn."""
        return self._line.waiting

    async def ask(
        self, party: str, rm_id: RmId, question: Question, check: Callable[[], object]
    ) -> bytes:
        """The answer to a question about an RM, once all its commands so far were carried out.

        `check` is called in the moment in which the copy is made, and may raise.

        Raises:
            CallError: RESOURCE_EXHAUSTED for want of memory, or because too many wait; ABORTED if
                the copy was ended before it had answered.
            Defect: the question has failed; the log says how.
            Stopped: the server is about to stop.
        """
        self._check_memory()
        async with self._line.turn(party):
            self._check_memory()
            started: list[Child] = []
            try:
                await self._between_commands(rm_id, partial(self._start, question, check, started))
                told = await _told(started[0].answers)
            finally:
                how = "".join([await self._end(child) for child in started])
            return self._answer(told, how)

    async def stop(self) -> None:
        """End the copy. Who waits for an answer gets `Stopped`."""
        self._stopped = True
        self._line.close(Stopped())
        for child in self._children:
            os.kill(child.pid, signal.SIGKILL)
        async with self._line.turn("stop"):
            # Whoever had the copy has reaped it.
            pass
        if self._ending:
            await asyncio.wait(self._ending)

    def _check_memory(self) -> None:
        if self._stopped:
            raise Stopped
        shortage = self._shortage()
        if shortage:
            raise exhausted(f"no copy is made for a plan: {shortage}", "OUT_OF_MEMORY")

    async def _between_commands(self, rm_id: RmId, act: Callable[[], None]) -> None:
        """Have something done once all that the RM has said was carried out, and nothing half.

        It is not done any more if the caller has gone. What it raises is raised here.

        Raises:
            Stopped: the engine handles nothing any more.
        """
        failures: list[Exception] = []
        is_wanted = True

        def act_if_wanted() -> bool:
            try:
                if is_wanted:
                    act()
            except Exception as error:
                failures.append(error)
            return False

        try:
            # It is asked for when its turn has come among the RM's commands, and never handled.
            place = UpdateNodes(rm_id=rm_id, nodes=())
            await self._engine.submit(place, is_current=act_if_wanted)
        finally:
            is_wanted = False
        for error in failures:
            raise error

    def _start(
        self,
        question: Question,
        check: Callable[[], object],
        started: list[Child],
    ) -> None:
        """Make the copy; it has begun to work when this returns."""
        if self._stopped:
            raise Stopped
        if grpc_forks.CAME_TOO_LATE:
            raise failed_precondition(
                "no copy is made for a plan: gRPC was loaded before licorne_server; "
                f"set {grpc_forks.VARIABLE}=0, or import licorne_server first",
                "NO_COPIES",
            )
        check()
        begin = perf_counter()
        try:
            child = start(partial(question, self._scheduler, self._engine.now()), CPU_SECONDS)
        except OSError as error:
            raise exhausted(f"no copy is made for a plan: {error.strerror}", "NO_COPY") from None
        self._children.add(child)
        started.append(child)
        self.made += 1
        log.debug("copied", pid=child.pid, pause_ms=round((perf_counter() - begin) * 1e3, 1))

    async def _end(self, child: Child) -> str:
        """End a copy, also one that has ended by itself; how it ended, empty for by itself.

        It is carried out to its end if the caller is cancelled.
        """
        self._children.discard(child)
        os.kill(child.pid, signal.SIGKILL)
        ending = asyncio.get_running_loop().create_task(self._reap(child))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return await asyncio.shield(ending)

    async def _reap(self, child: Child) -> str:
        os.close(child.answers)
        loop = asyncio.get_running_loop()
        try:
            _, status = await loop.run_in_executor(None, os.waitpid, child.pid, 0)
        except ChildProcessError:
            # Children are forgotten at once where SIGCHLD is ignored.
            status = 0
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""

    def _answer(self, told: bytes | None, how: str) -> bytes:
        """The answer itself.

        Raises:
            CallError: there is none.
        """
        if self._stopped:
            raise Stopped
        if told is None:
            raise aborted(f"the plan took more than {DEADLINE:g} s", "PLAN_TOO_LONG")
        whole = whole_answer(told)
        if whole is None:
            log.warning("copy ended without an answer", how=how)
            why = f" by {how}" if how else ""
            raise aborted(f"the copy that worked the plan out was ended{why}", "PLAN_ENDED")
        kind, answer = whole
        if kind == FAILED:
            correlation_id = new_correlation_id()
            log.error(
                "plan failed",
                correlation_id=correlation_id,
                traceback=answer.decode("utf-8", "replace"),
            )
            raise Defect(correlation_id)
        return answer


async def _told(answers: int) -> bytes | None:
    """All that comes through a pipe until its other end is closed; None if that takes too long."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()
    parts: list[bytes] = []

    def read() -> None:
        try:
            part = os.read(answers, _CHUNK)
        except BlockingIOError:
            return
        parts.append(part)
        if not part and not ended.done():
            ended.set_result(None)
            loop.remove_reader(answers)

    loop.add_reader(answers, read)
    try:
        async with asyncio.timeout(DEADLINE):
            await ended
    except TimeoutError:
        return None
    finally:
        loop.remove_reader(answers)
    return b"".join(parts)
