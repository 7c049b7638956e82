"""Periodic work of a server, in the time slices of readers: audits, accounting, samples and history."""

from collections.abc import Callable

from licorne_core.values.ids import RmId
from licorne_core.views import Views
from licorne_server.engine.audits import Audits
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import Settings
from licorne_server.reads.accounting import Accounting, drop_old, stored_hours_of
from licorne_server.reads.history.recorder import History, Recording
from licorne_server.store.configurations.revisions import Revisions
from licorne_server.store.documents.documents import Documents
from licorne_server.wire.features import rows


class Periodics:
    """The periodic work of one server."""

    def __init__(
        self,
        settings: Settings,
        documents: Documents,
        views: Views,
        revisions: Callable[[RmId], Revisions | None],
        clock: Clock,
        time_slices: TimeSlices,
    ) -> None:
        """Create the periodic work; `start` begins it, and `revisions` gives the configurations of an RM."""
        self._documents, self._clock = documents, clock
        self.history = History(views, clock, time_slices)
        self.recording = Recording(views, revisions, clock, time_slices)
        self.accounting = Accounting(views, clock, time_slices, stored_hours_of(settings, documents))
        self.audits = Audits(views, clock, time_slices)
        self.explained = [explained(views, clock, time_slices) for explained in rows("EXPLAINED")]

    async def start(self) -> None:
        """Start the audits, the accounting, and the work of extensions."""
        for periodic in (self.audits, *self.explained):
            periodic.start()
        await drop_old(self._documents, self._clock.now())
        await self.accounting.begin()

    def record(self) -> None:
        """Start to sample the state for readers over HTTP."""
        self.history.start()
        self.recording.start()

    async def stop(self) -> None:
        """End all periodic work, with a last step of accounting."""
        for periodic in (self.history, self.recording, self.audits, *self.explained):
            await periodic.stop()
        await self.accounting.end()
