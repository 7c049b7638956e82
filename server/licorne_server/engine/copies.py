"""What-if plans, computed on forked copies of the core (DESIGN § 2).

There is one copy at a time, and peers take turns. A copy is made between two rounds of the engine, when no
change of the RM is half done. The process pauses meanwhile. The pause is charged like a reader's slice:
afterwards no reader gets a slice for three times as long. Nothing is served from a copy, and it always ends:
when it has answered, when its caller disconnects, when it takes too long, and when the server stops.

A pause grows with the memory of the process. So its length is estimated before the copy is made, from the
seconds per byte of earlier copies. A copy with a pause above a bound is refused. All others are charged:
together they may take one hundredth of the time, after a small burst. A copy with a longer pause than the
burst is made once all earlier pauses are compensated, and is compensated afterwards. So the 99th percentile
of other RMs does not suffer, however many plans are requested.
"""

import asyncio
import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from statistics import median_low
from time import monotonic, perf_counter

import structlog

from licorne_core.messages.commands import Hold, UpdateNodes
from licorne_core.scheduler import Scheduler
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import RmId
from licorne_server import FORK_VARIABLE, GRPC_HANDLES_FORKS
from licorne_server.engine.copied_process import FAILED, Child, Spent, kill, reap, start, whole_answer
from licorne_server.engine.engine import Engine
from licorne_server.process.fair import FairLock, TimeSlices
from licorne_server.wire.errors import (
    Defect,
    Stopped,
    aborted,
    exhausted,
    failed_precondition,
    new_correlation_id,
)

USUAL_RATE = 0.040 / 1024**3
"""Seconds for each byte of resident memory before the first measurement, as on a quiet machine."""

REMEMBERED = 5
REMEMBERED_SECONDS = 600.0
"""Maximum number of copies from which a pause is estimated, and their maximum age in seconds."""

PART = 0.01
"""Share of the time that all copies together may take."""

AT_ONCE = 0.05
"""Seconds of pause that may be used in a burst, before they are compensated."""


class Pauses:
    """Estimates, measures and charges the pauses of copies."""

    def __init__(
        self,
        most: float,
        resident: Callable[[], int],
        now: Callable[[], float] = monotonic,
        stopwatch: Callable[[], float] = perf_counter,
    ) -> None:
        """Bound a pause by `most` seconds; with 0 pauses are neither bounded nor charged.

        `resident` gives the memory of the process in bytes, `now` and `stopwatch` seconds.
        """
        self._most = most
        self._resident = resident
        self._now = now
        self._stopwatch = stopwatch
        # For the last copies: the time, and the seconds of pause per byte.
        self._taken: deque[tuple[float, float]] = deque(maxlen=REMEMBERED)
        # Seconds of pause still to be compensated; the time of that figure.
        self._debt = 0.0
        self._since = now()

    def reckoned(self) -> float:
        """Estimated seconds of pause of a copy that is made now."""
        since = self._now() - REMEMBERED_SECONDS
        rates = [rate for time, rate in self._taken if time > since]
        # The lower of two medians, because another process may have had the processor while a copy was made.
        return self._resident() * median_low([USUAL_RATE, *rates])

    def problem(self) -> str:
        """The reason why no copy may be made; empty if one may be made."""
        reckoned = self.reckoned()
        if not self._most or reckoned <= self._most:
            return ""
        # Rounded up, because the process may grow before the operator has set the new bound.
        needed = (int(reckoned * 100) + 1) / 100
        return (
            f"everybody would wait for {reckoned * 1e3:.0f} ms meanwhile, as the process has "
            f"{self._resident()} bytes, and bounds.max_plan_pause is {self._most:g} s; "
            f"{needed:g} would allow the plan, at the cost of that wait"
        )

    def wait(self) -> float:
        """The seconds until the next copy may be made."""
        if not self._most:
            return 0.0
        self._pay()
        at_once = min(AT_ONCE, self._most)
        return max(0.0, self._debt + min(self.reckoned(), at_once) - at_once) / PART

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block, which makes a copy, and charge its pause."""
        begin = self._stopwatch()
        try:
            yield
        finally:
            seconds = self._stopwatch() - begin
            self._pay()
            self._debt += seconds
            self._taken.append((self._since, seconds / max(1, self._resident())))

    def _pay(self) -> None:
        now = self._now()
        self._debt = max(0.0, self._debt - PART * (now - self._since))
        self._since = now


log = structlog.get_logger("core.copies")

CPU_SECONDS = 10
"""Maximum CPU seconds of a copy; the copy stops planning earlier."""

DEADLINE = 60.0
"""Seconds until a copy without an answer is ended; more than its CPU time, as it may share the processor."""

MOST_OF_PEER = 4
"""Maximum number of questions of one peer that may wait."""

MOST = 64
"""Maximum number of questions that may wait in total."""

MOST_TRIES = 20
"""Maximum number of attempts to make a copy between two large commands of an RM."""

RETRY_AFTER = 5.0
"""Seconds after which a caller should retry when the queue of questions was full."""

_CHUNK = 1 << 18

Question = Callable[[Scheduler, float, Spent], bytes]
"""Computes an answer, in the copy, from its scheduler and the time in unix seconds."""


class Copies:
    """Makes copies of the process, one at a time; questions queue for their turn."""

    made: int
    """Copies made since the start."""
    scheduler: Scheduler
    """The scheduler that is copied."""

    def __init__(
        self,
        engine: Engine,
        scheduler: Scheduler,
        time_slices: TimeSlices,
        shortage: Callable[[int], str],
        pauses: Pauses,
    ) -> None:
        """Copy the engine's scheduler; each copy uses one of `time_slices`.

        `shortage` is called with the estimated bytes of the RM; it returns the reason why there is no memory
        for a copy, or an empty text. `pauses` delays copies until earlier pauses are compensated.
        """
        self._pauses = pauses
        self.made = 0
        self._time_slices = time_slices
        self._engine = engine
        self.scheduler = scheduler
        self._shortage = shortage
        self._lock = FairLock("plans", "TOO_MANY_PLANS", MOST, MOST_OF_PEER, RETRY_AFTER)
        self._children: set[Child] = set()
        self._ending: set[asyncio.Task[str]] = set()
        self._stopped = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Number of questions that wait for their turn."""
        return self._lock.waiting

    async def ask(self, peer: str, rm_id: RmId, question: Question, check: Callable[[], object]) -> bytes:
        """Answer a question about an RM, after all its queued commands.

        `check` is called at the moment of the copy, and may raise.

        Raises:
            CallError: RESOURCE_EXHAUSTED for lack of memory, because the pause would last
                too long, or because too many questions wait; ABORTED if the copy was ended before it had
                answered.
            Defect: the question has failed; the log has its traceback.
            Stopped: the server is about to stop.
        """
        self._check_room(rm_id)
        async with self._lock.turn(peer):
            await self._paid_for()
            started: list[Child] = []
            try:
                begin = partial(self._start, rm_id, question, check, started)
                await self._copy(peer, rm_id, begin)
                received = await _received(started[0].answers)
            finally:
                how = "".join([await self._end(child) for child in started])
            return self._answer(received, how)

    async def stop(self) -> None:
        """End the copy. Waiting callers get `Stopped`."""
        self._stopped.set()
        self._lock.close(Stopped())
        for child in self._children:
            kill(child)
        # By then the caller has reaped its copy. Waiting callers still have their places in the queue.
        await self._lock.turns.wait("stop")
        self._lock.turns.pass_on()
        if self._ending:
            await asyncio.wait(self._ending)

    async def _paid_for(self) -> None:
        """Wait until the pauses of earlier copies are compensated."""
        while (seconds := self._pauses.wait()) and not self._stopped.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stopped.wait()

    def _check_room(self, rm_id: RmId) -> None:
        """Refuse a copy if the server stops, or has no time or memory for it.

        Raises:
            CallError: RESOURCE_EXHAUSTED.
            Stopped: the server is about to stop.
        """
        if self._stopped.is_set():
            raise Stopped
        problem = self._pauses.problem()
        if problem:
            raise exhausted(f"no copy is made for a plan: {problem}", "PLAN_PAUSE")
        shortage = self._shortage(self._reckoned(rm_id))
        if shortage:
            text = f"no copy is made for a plan: {shortage}"
            raise exhausted(text, "OUT_OF_MEMORY", RETRY_AFTER)

    def _reckoned(self, rm_id: RmId) -> int:
        """The core's estimate of an RM's memory in bytes."""
        try:
            return self.scheduler.views.rm(rm_id).counts.memory
        except NotFound:
            return 0

    async def _copy(self, peer: str, rm_id: RmId, begin: Callable[[], None]) -> None:
        """Make the copy in a time slice: nothing else runs meanwhile.

        It includes all messages that the RM has sent so far, and no large command of the RM is half done.

        Raises:
            CallError: ABORTED, large commands of the RM follow one another without a gap.
        """
        for _ in range(MOST_TRIES):
            # This command is never handled: it marks a position among the RM's commands.
            place = UpdateNodes(rm_id=rm_id, nodes=())
            await self._engine.submit(place, is_current=lambda: False)
            async with self._time_slices.slice(peer, whole=True):
                if not self._is_in_the_middle(rm_id):
                    begin()
                    return
        raise aborted(f"RM {rm_id} is busy with large requests, one after the other", "RM_BUSY")

    def _is_in_the_middle(self, rm_id: RmId) -> bool:
        """True if another large command of the RM has begun since, and has not ended."""
        views = self.scheduler.views
        return any(Hold.UNFINISHED in views.holds(name) for name in views.partition_names(rm_id))

    def _start(
        self,
        rm_id: RmId,
        question: Question,
        check: Callable[[], object],
        started: list[Child],
    ) -> None:
        """Make the copy, and append it to `started`; it is running when this returns."""
        if GRPC_HANDLES_FORKS:
            raise failed_precondition(
                "no copy is made for a plan: gRPC was loaded before licorne_server; "
                f"set {FORK_VARIABLE}=0, or import licorne_server first",
                "NO_COPIES",
            )
        self._check_room(rm_id)
        check()
        begin = perf_counter()
        try:
            with self._pauses.measured():
                child = start(partial(question, self.scheduler, self._engine.now()), CPU_SECONDS)
        except OSError as error:
            text = f"no copy is made for a plan: {error.strerror}"
            raise exhausted(text, "NO_COPY", RETRY_AFTER) from None
        self._children.add(child)
        started.append(child)
        self.made += 1
        log.debug("copied", pid=child.pid, pause_ms=round((perf_counter() - begin) * 1e3, 1))

    async def _end(self, child: Child) -> str:
        """End a copy, and reap it; returns a text about how it ended, empty if it exited by itself.

        This is completed even if the caller is cancelled.
        """
        self._children.discard(child)
        kill(child)
        ending = asyncio.get_running_loop().create_task(self._reap(child))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)
        return await asyncio.shield(ending)

    async def _reap(self, child: Child) -> str:
        os.close(child.answers)
        loop = asyncio.get_running_loop()
        status = await loop.run_in_executor(None, reap, child)
        return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else ""

    def _answer(self, received: bytes | None, how: str) -> bytes:
        """The answer without its prefix.

        Raises:
        CallError: the copy has sent no answer.
        Defect: the question has failed.
        Stopped: the server is about to stop.
        """
        if self._stopped.is_set():
            raise Stopped
        if received is None:
            raise aborted(f"the plan took more than {DEADLINE:g} s", "PLAN_TOO_LONG")
        whole = whole_answer(received)
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


async def _received(answers: int) -> bytes | None:
    """All bytes of a pipe until its other end is closed; None on a timeout."""
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
