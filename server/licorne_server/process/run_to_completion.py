"""Tasks that run to completion even if their caller is cancelled."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import structlog

log = structlog.get_logger("core.undisturbed")
T = TypeVar("T")


class RunToCompletion:
    """Runs work in tasks of its own: a caller that is cancelled leaves after the work's end."""

    def __init__(self, what: str) -> None:
        """Start without work. `what` names it in the log."""
        self._what = what
        self._begun: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out the work to its end; returns or raises its result.

        Raises:
            CancelledError: the caller was cancelled meanwhile.
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
            log.warning(f"{self._what} failed, its caller has gone", error=str(failure))
        raise cancelled

    async def stop(self) -> None:
        """Wait until all that has begun is carried out."""
        if self._begun:
            await asyncio.wait(self._begun)
