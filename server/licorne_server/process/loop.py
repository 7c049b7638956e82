"""The server's event loop, its slow steps, and garbage collection.

The loop is asyncio's own, with a workaround for one fault of grpc.aio. A thread of grpc.aio writes a byte
into a socket for every event, and blocks while the socket is full. The loop's side reads one byte and then
handles any number of events. So under load bytes accumulate until the thread blocks, and no message is read
or written for a hundred rounds of the loop. This loop reads all bytes but one before grpc.aio reads. Other
sockets are not affected.

A full pass of the garbage collector visits all objects and blocks all work: 0.7 s for 900,000 asks. The core
never needs a pass, as reference counts free its objects (`tests/properties`). Libraries do: a cycle that they
leave for each connection would be a leak. So short passes are made in any case, and long ones only while no
RM is connected. The interpreter's own passes are bounded to the latest 10,000 objects, and take a
millisecond.

Times in this module are those of the process, not of the server's clock: they measure real work.
"""

import asyncio
import fcntl
import functools
import gc
import socket
import struct
import sys
import termios
from collections.abc import Callable, Coroutine
from time import perf_counter
from typing import Any, TypeVar, TypeVarTuple

import structlog

_Args = TypeVarTuple("_Args")
_INT = struct.calcsize("i")


class ServerLoop(asyncio.SelectorEventLoop):
    """A selector loop that keeps the wake-up socket of grpc.aio from filling."""

    def add_reader(self, fd: Any, callback: Callable[[*_Args], Any], *args: *_Args) -> None:
        """Watch a file descriptor; that of grpc.aio is drained before each read."""
        if isinstance(fd, socket.socket) and _is_of_grpc(callback):
            super().add_reader(fd, _serve_drained, fd, functools.partial(callback, *args))
        else:
            super().add_reader(fd, callback, *args)


def _is_of_grpc(callback: Callable[..., Any]) -> bool:
    handler = callback.func if isinstance(callback, functools.partial) else callback
    return getattr(handler, "__name__", "") == "_handle_events"


def _serve_drained(wakes: socket.socket, serve: Callable[[], Any]) -> None:
    """Read all bytes except the one that `serve` reads, then call `serve`."""
    waiting: int = struct.unpack("i", fcntl.ioctl(wakes, termios.FIONREAD, bytes(_INT)))[0]
    if waiting > 1:
        wakes.recv(waiting - 1)
    serve()


completion_log = structlog.get_logger("core.undisturbed")
T = TypeVar("T")


async def stop_task(task: "asyncio.Task[Any] | None") -> None:
    """Cancel a task, and wait for its end; None means that the task was never started."""
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


class RunToCompletion:
    """Runs work in separate tasks: a caller, even if cancelled, returns only after the end of its work."""

    def __init__(self, what: str) -> None:
        """Start without work. `what` names the work in the log."""
        self._what = what
        self._begun: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out the work completely; returns its result or raises its error.

        Raises:
            CancelledError: the caller was cancelled during the work.
        """
        task = asyncio.get_running_loop().create_task(work, name=self._what)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return task.result()
        if not task.cancelled() and (failure := task.exception()) is not None:
            completion_log.warning(f"{self._what} failed, its caller has gone", error=str(failure))
        raise cancelled

    async def stop(self) -> None:
        """Wait for the end of all work."""
        if self._begun:
            await asyncio.wait(self._begun)


log = structlog.get_logger("core.slow_steps")

SLOW_SECONDS = 0.05
"""Duration above which a step counts as slow."""

STEPS = ("turn", "command", "slice", "collection")
"""The kinds of steps that are measured."""


class SlowSteps:
    """Number and duration of the slow steps of one server."""

    def __init__(self) -> None:
        """Start without a slow step."""
        self.count = dict.fromkeys(STEPS, 0)
        """Number of slow steps, by kind."""
        self.seconds = dict.fromkeys(STEPS, 0.0)
        """Duration of all slow steps, by kind."""

    def note(self, step: str, seconds: float, **about: object) -> None:
        """Count a step that took more than `SLOW_SECONDS`, and log it with `about`."""
        self.count[step] += 1
        self.seconds[step] += seconds
        log.warning(f"slow {step}", seconds=round(seconds, 3), **about)


YOUNG = 10_000
"""Number of new objects that starts a pass over the new objects."""

NEVER = 2**31 - 1
"""A threshold that is never reached, because only this module collects older objects."""

SWITCH_SECONDS = 0.0001
"""Seconds for which the loop waits for a computing thread, such as the parser of configurations. It waits
after each system call, which is several times per allocation and once per incoming message: the interpreter's
default of 5 ms would add up to a tenth of a second, and half a millisecond would add up to 20 ms.
"""

QUIET_SECONDS = 30.0
WORTH = 10_000
"""Commands and turns since the last pass that make a long pass worthwhile."""

SHORT_SECONDS = 0.02
"""Maximum estimated seconds of a pass that is made regularly, even while RMs wait."""

MOST_PRECISE = 10_000
"""Number of memory blocks below which the duration of a pass does not give the time per block."""


class Collector:
    """Makes full passes of garbage collection: short passes by a timer, long passes only in idle moments."""

    def __init__(
        self,
        connected: Callable[[], bool] = lambda: False,
        slow: SlowSteps | None = None,
        quiet: float = QUIET_SECONDS,
    ) -> None:
        """Make passes at least `quiet` seconds apart. The interpreter is unchanged before `start`.

        `connected` is True if an RM would have to wait for a pass. Slow passes are recorded in `slow`.
        """
        self._connected = connected
        self._slow = slow or SlowSteps()
        self._quiet = quiet
        self._last_pass = 0.0
        self._last_work = 0
        # Blocks of memory allocated at start-up; seconds of a pass per block allocated later.
        self._exempt = 0
        self._block_seconds = 0.0
        self.passes = 0
        """Full passes so far."""
        self.seconds = 0.0
        """Duration of all passes, which block the loop, in seconds."""

    def start(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """Exempt all present objects from passes, and let only `idle` and the loop's timer make full passes.

        Other threads yield the interpreter to the loop after `SWITCH_SECONDS`.
        """
        self._pass()
        gc.freeze()
        self._exempt = sys.getallocatedblocks()
        gc.set_threshold(YOUNG, NEVER, NEVER)
        sys.setswitchinterval(SWITCH_SECONDS)
        self._last_pass = perf_counter()
        if loop is not None:
            self._beat(loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        """Make a short pass if one is due, even if the engine has no work; then set the timer."""
        self.idle(self._last_work)
        loop.call_later(self._quiet, self._beat, loop)

    def reckoned(self) -> float:
        """Estimated seconds of a pass now, from the duration of the last pass.

        The estimate is based on memory blocks in use, as the interpreter does not count objects.
        """
        return max(0, sys.getallocatedblocks() - self._exempt) * self._block_seconds

    def idle(self, work: int) -> None:
        """Make a pass if it is worthwhile: the idle engine has handled `work` commands and turns so far."""
        now = perf_counter()
        if now - self._last_pass < self._quiet:
            return
        if self.reckoned() > SHORT_SECONDS and (self._connected() or work - self._last_work < WORTH):
            return
        self._last_pass, self._last_work = now, work
        spent = self._pass()
        self.passes += 1
        self.seconds += spent
        if spent > SLOW_SECONDS:
            self._slow.note("collection", spent)

    def _pass(self) -> float:
        """Collect all objects that are not exempt; returns the duration in seconds."""
        blocks = sys.getallocatedblocks() - self._exempt
        begin = perf_counter()
        gc.collect()
        spent = perf_counter() - begin
        if blocks >= MOST_PRECISE or not self._block_seconds:
            self._block_seconds = spent / max(blocks, MOST_PRECISE)
        return spent
