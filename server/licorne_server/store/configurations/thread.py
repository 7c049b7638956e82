"""The thread that parses and prints configurations.

The largest allowed configuration takes some seconds to parse, which would block the event loop.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from sys import getsizeof
from time import perf_counter
from typing import Any, NamedTuple, TypeVar

import structlog

from licorne_core.config import InvalidConfiguration, SubmittedConfig, submitted
from licorne_server.process.fair import RoundRobin
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import CONFIGURATIONS
from licorne_server.wire.errors import exhausted

_log = structlog.get_logger(CONFIGURATIONS)
_threshold = levels().threshold(CONFIGURATIONS)

MAX_WAITING = 1_024
"""Maximum number of waiting jobs of one peer, separately for commands and questions: the bound on RMs."""

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Maximum bytes of memory of the waiting texts of one peer, separately for commands and questions: 32 of the
largest texts."""

VALIDATION = "validation"
"""Purpose of a configuration that is only validated, over gRPC and over HTTP."""

T = TypeVar("T")


class Origin(NamedTuple):
    """Origin of a job: a peer, and a purpose, which is an RM or a kind of request.

    One job may wait for each `purpose` of a peer; for an empty purpose any number may wait.
    """

    peer: str
    purpose: str = ""


class _Job(NamedTuple):
    purpose: str
    work: Callable[[], Any]
    done: asyncio.Future[Any]
    size: int
    is_command: bool


class ConfigThread:
    """The only thread for configurations, over gRPC and HTTP.

    With a single thread, many callers delay the loop no more than one caller. Peers take turns, and jobs of
    one peer run in order of arrival. A job whose caller was cancelled is not begun, and a running job is
    completed before the next job.

    Commands and questions have separate bounds, so that questions cannot prevent an RM from registering.
    """

    def __init__(self) -> None:
        """Create no thread yet; the first job starts it."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="config")
        self._waiting: RoundRobin[str, _Job] = RoundRobin()
        self._busy = False
        self._stopped = False

    async def run(self, origin: Origin, work: Callable[[], T], size: int = 0) -> T:
        """Do the work of a question in the thread; returns its result or raises its error.

        `size` is the memory of the text, in bytes.

        Raises:
            CallError: RESOURCE_EXHAUSTED, too many jobs of the same origin wait already.
        """
        return await self._do(origin, work, size, is_command=False)

    async def parse(self, origin: Origin, text: str) -> SubmittedConfig:
        """Parse a configuration for a command; an empty text returns immediately.

        Raises:
            CallError: as `run` does.
        """
        if not text:
            return None
        begin = perf_counter()
        work = partial(submitted, text)
        parsed: SubmittedConfig = await self._do(origin, work, getsizeof(text), is_command=True)
        if _threshold.debugs:
            _log.debug(
                "configuration read",
                by=origin.peer,
                purpose=origin.purpose,
                characters=len(text),
                valid=not isinstance(parsed, InvalidConfiguration),
                ms=round((perf_counter() - begin) * 1e3, 3),
            )
        return parsed

    async def _do(self, origin: Origin, work: Callable[[], T], size: int, *, is_command: bool) -> T:
        peer, purpose = origin
        waiting = self._waiting.line(peer)
        if purpose and any(job.purpose == purpose for job in waiting):
            raise exhausted(
                f"a configuration of {peer} for {purpose} waits to be read already",
                "CONFIGURATION_WAITS",
            )
        _check_room(peer, [job for job in waiting if job.is_command is is_command], size)
        done = asyncio.get_running_loop().create_future()
        job = _Job(purpose, work, done, size, is_command)
        self._waiting.put(peer, job)
        self._begin()
        try:
            result: T = await done
        finally:
            # Remove the job of a cancelled caller, which makes room for another job.
            self._waiting.remove(peer, job)
        return result

    def stop(self) -> None:
        """Start no more jobs; waiting callers are cancelled."""
        self._stopped = True
        for job in self._waiting.clear():
            job.done.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        """Start the next job, unless one is running."""
        if self._busy or self._stopped or not self._waiting.size:
            return
        self._busy = True
        job = self._waiting.take()
        running = asyncio.get_running_loop().run_in_executor(self._thread, job.work)
        running.add_done_callback(partial(self._end, job.done))

    def _end(self, done: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        self._busy = False
        if running.cancelled():
            done.cancel()
        elif done.done():
            running.exception()  # the caller was cancelled: asyncio must not log the exception as lost
        elif (error := running.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(running.result())
        self._begin()


def _check_room(peer: str, waiting: Sequence[_Job], size: int) -> None:
    """Refuse one more job of `size` bytes if too many of its kind wait.

    Raises:
        CallError: RESOURCE_EXHAUSTED.
    """
    if len(waiting) >= MAX_WAITING:
        raise exhausted(
            f"{MAX_WAITING} configurations of {peer} wait to be read already",
            "TOO_MANY_CONFIGURATIONS",
        )
    if sum(job.size for job in waiting) + size > MAX_WAITING_BYTES:
        raise exhausted(
            f"configurations of {peer} of {MAX_WAITING_BYTES} bytes wait already",
            "TOO_MANY_CONFIGURATIONS",
        )
