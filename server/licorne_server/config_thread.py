"""One thread beside the event loop, in which configurations are parsed and printed.

The largest configuration that is allowed takes some seconds to parse. In the loop nobody would be
served meanwhile.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from sys import getsizeof
from typing import Any, NamedTuple, TypeVar

from licorne_core.config import SubmittedConfig, submitted
from licorne_server.errors import exhausted

MAX_WAITING = 1_024
"""Pieces of work of one host that may wait: one for each RM that there may be."""

MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Bytes of memory that the texts of one host may take that wait: 32 of the largest."""

VALIDATION = "validation"
"""The purpose of a configuration that is only looked at, over gRPC and over HTTP."""

T = TypeVar("T")


class Origin(NamedTuple):
    """Where work comes from: a host, and what it is done for, an RM or a kind of question.

    One piece of work may wait for each `purpose` of a host; any number may where it is empty.
    """

    host: str
    purpose: str = ""


class _Job(NamedTuple):
    work: Callable[[], Any]
    done: asyncio.Future[Any]
    size: int


class ConfigThread:
    """The one thread for all configurations, whether they come over gRPC or HTTP.

    It is one thread only, so that many callers together slow the loop no more than one does. It
    works for one host after the other, and for one host in the order in which work came. Work that
    its caller gave up on is not begun; what was begun is finished before the next.
    """

    def __init__(self) -> None:
        """The thread starts with the first work."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="config")
        # What waits, by host; the first host is the next. A host that has nothing is not there.
        self._waiting: dict[str, dict[Hashable, _Job]] = {}
        self._busy = False
        self._stopped = False

    async def run(self, origin: Origin, work: Callable[[], T], size: int = 0) -> T:
        """Do the work in the thread; what it returns or raises.

        `size` is how many bytes of memory the text takes that is worked on.

        Raises:
            CallError: RESOURCE_EXHAUSTED: too much of the same origin waits already.
        """
        key: Hashable = origin.purpose or object()
        waiting = self._waiting.get(origin.host, {})
        if key in waiting:
            raise exhausted(
                f"a configuration of {origin.host} for {origin.purpose} waits to be read already",
                "CONFIGURATION_WAITS",
            )
        if len(waiting) >= MAX_WAITING:
            raise exhausted(
                f"{MAX_WAITING} configurations of {origin.host} wait to be read already",
                "TOO_MANY_CONFIGURATIONS",
            )
        if sum(job.size for job in waiting.values()) + size > MAX_WAITING_BYTES:
            raise exhausted(
                f"configurations of {origin.host} of {MAX_WAITING_BYTES} bytes wait already",
                "TOO_MANY_CONFIGURATIONS",
            )
        job = _Job(work, asyncio.get_running_loop().create_future(), size)
        self._waiting.setdefault(origin.host, waiting)[key] = job
        self._begin()
        try:
            result: T = await job.done
        finally:
            self._give_up(origin.host, key, job)
        return result

    async def parse(self, origin: Origin, text: str) -> SubmittedConfig:
        """Parse a configuration for a command; an empty text waits for nobody.

        Raises:
            CallError: as `run` does.
        """
        return await self.run(origin, partial(submitted, text), getsizeof(text)) if text else None

    def stop(self) -> None:
        """Begin nothing more; whoever waits is cancelled."""
        self._stopped = True
        for jobs in self._waiting.values():
            for job in jobs.values():
                job.done.cancel()
        self._waiting.clear()
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _give_up(self, host: str, key: Hashable, job: _Job) -> None:
        """Take work out of the line whose caller has gone, so that the next may wait there."""
        jobs = self._waiting.get(host, {})
        if jobs.get(key) is job:
            del jobs[key]
            if not jobs:
                del self._waiting[host]

    def _begin(self) -> None:
        """Begin the next piece of work, unless one is under way."""
        if self._busy or self._stopped or not self._waiting:
            return
        self._busy = True
        job = self._next()
        running = asyncio.get_running_loop().run_in_executor(self._thread, job.work)
        running.add_done_callback(partial(self._end, job.done))

    def _next(self) -> _Job:
        """The oldest work of the next host, which goes to the end of the line."""
        host = next(iter(self._waiting))
        jobs = self._waiting.pop(host)
        job = jobs.pop(next(iter(jobs)))
        if jobs:
            self._waiting[host] = jobs
        return job

    def _end(self, done: asyncio.Future[Any], running: asyncio.Future[Any]) -> None:
        self._busy = False
        if running.cancelled():
            done.cancel()
        elif done.done():
            running.exception()  # nobody waits for it any more: it is not to be logged as lost
        elif (error := running.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(running.result())
        self._begin()
