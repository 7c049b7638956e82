"""The journal of a server, from its start to its end."""

import asyncio
import errno
from collections.abc import Callable

from licorne_core.scheduler import Scheduler
from licorne_server.engine.engine import Core
from licorne_server.engine.journal.folder import Folder
from licorne_server.engine.journal.records import Header, JournalState
from licorne_server.engine.journal.writer import JournaledCore, Writer
from licorne_server.process.settings import Settings, SettingsError

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of a full disk, which do not prevent the start of a server."""


class Journal:
    """The journal of a server; records nothing if the settings name no directory."""

    core: Core
    """The core for the engine: the scheduler itself if there is no journal."""
    state: JournalState | None
    """None if there is no journal."""

    def __init__(
        self, settings: Settings, scheduler: Scheduler, version: str, now: Callable[[], float]
    ) -> None:
        """Record the scheduler's inputs. `version` is the server's, `now` returns unix seconds."""
        self.core = scheduler
        self.state = None
        self._parts: tuple[Folder, Writer, JournaledCore] | None = None
        self._version, self._options = version, scheduler.options
        self._now = now
        if settings.journal is not None:
            self.state = JournalState()
            folder = Folder(settings.journal, settings.journal_size)
            writer = Writer(folder, self.state)
            self._parts = folder, writer, JournaledCore(scheduler, writer)
            self.core = self._parts[-1]

    def start(self) -> None:
        """Begin a run.

        Raises:
            SettingsError: the directory is unusable, or locked by another server.
        """
        if self._parts is None:
            return
        folder, writer, _ = self._parts
        try:
            if not folder.open():
                raise SettingsError(
                    f"server.journal {folder.path} cannot be used: another server writes there"
                )
            writer.start(
                Header(run=folder.run, version=self._version, start=self._now(), options=self._options)
            )
        except OSError as error:
            folder.close()
            if error.errno not in NO_ROOM:
                why = error.strerror or error
                raise SettingsError(f"server.journal {folder.path} cannot be used: {why}") from None
            writer.fail(error)

    async def stop(self) -> None:
        """End the run, with the digest of all decisions."""
        if self._parts is not None:
            _, writer, core = self._parts
            core.end(self._now())
            await asyncio.to_thread(writer.close)
