"""Storage of revisions in a state directory, if there is one.

It writes in one thread, in the order of the requests, never in the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import structlog

from licorne_core.values.ids import RmId
from licorne_server.configurations.revisions import Revisions
from licorne_server.configurations.state_dir import StateDir

log = structlog.get_logger("core.configurations.keeper")


class Keeper:
    """The single writer of the state directory; without one nothing is stored."""

    failures: int
    """Writes that have failed since the start."""

    def __init__(self, folder: Path | None = None) -> None:
        """Store revisions in the folder; nothing is read or written before `open`."""
        self.failures = 0
        self._dir = None if folder is None else StateDir(folder)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        # What is kept of each RM, or will be once all that was begun is written.
        self._latest: dict[RmId, Revisions] = {}

    @property
    def persistent(self) -> bool:
        """True if revisions are stored."""
        return self._dir is not None

    def open(self) -> list[Revisions]:
        """Take the directory for this process alone; returns its revisions.

        Raises:
            SettingsError: another server has it, or its content is unusable.
        """
        found = [] if self._dir is None else self._dir.open()
        self._latest = {revisions.rm_id: revisions for revisions in found}
        return found

    async def prepare(self, revisions: Revisions) -> None:
        """Write the data for `commit`, so that it needs no more room on the disk.

        Raises:
            OSError: it cannot be written; the stored revisions stay.
        """
        if self._dir is not None:
            try:
                await self._run(partial(self._dir.prepare, revisions))
            except OSError:
                self.failures += 1
                raise

    async def commit(self, revisions: Revisions) -> bool:
        """Replace the stored revisions by the prepared ones; returns True if they are stored."""
        if self._dir is None:
            return False
        self._latest[revisions.rm_id] = revisions
        try:
            await self._run(partial(self._dir.commit, revisions))
        except OSError as error:
            self._failed(revisions.rm_id, error)
            return False
        return True

    def discard(self, rm_id: RmId) -> None:
        """Discard the prepared revisions."""
        if self._dir is not None:
            self._begin(rm_id, partial(self._dir.discard, rm_id))

    def save(self, revisions: Revisions) -> None:
        """Store the revisions as soon as possible; a failure is logged."""
        rm_id = revisions.rm_id
        if self._dir is not None and self._latest.get(rm_id) is not revisions:
            self._latest[rm_id] = revisions
            self._begin(rm_id, partial(self._dir.write, revisions))

    def drop(self, rm_id: RmId) -> None:
        """Delete the stored revisions of the RM."""
        if self._dir is not None:
            self._latest.pop(rm_id, None)
            self._begin(rm_id, partial(self._dir.drop, rm_id))

    async def close(self) -> None:
        """Write what waits to be written, and leave the directory to others."""
        if self._dir is not None:
            await asyncio.to_thread(self._thread.shutdown)
            self._dir.close()

    def _run(self, work: Callable[[], None]) -> "asyncio.Future[None]":
        """Do the work after all that was begun before."""
        return asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _begin(self, rm_id: RmId, work: Callable[[], None]) -> None:
        """The same, without waiting for the result."""

        def ended(future: "asyncio.Future[None]") -> None:
            error = future.exception()
            if isinstance(error, OSError):
                self._failed(rm_id, error)
            elif error is not None:
                log.error("configuration not stored", rm_id=rm_id, exc_info=error)

        self._run(work).add_done_callback(ended)

    def _failed(self, rm_id: RmId, error: OSError) -> None:
        self.failures += 1
        self._latest.pop(rm_id, None)
        log.error("configuration not stored", rm_id=rm_id, reason=str(error))
