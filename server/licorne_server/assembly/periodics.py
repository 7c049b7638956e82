"""What a server does at intervals, in the time slices of readers: audits, accounting, samples, history."""

from collections.abc import Callable

from licorne_core.values.ids import RmId
from licorne_core.views import Views
from licorne_server.engine.audits import Audits
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import Settings
from licorne_server.reads.accounting import accounting_of
from licorne_server.reads.history.samples import History, Recording
from licorne_server.store.configurations.revisions import Revisions


class Periodics:
    """The periodic work of one server."""

    def __init__(
        self,
        settings: Settings,
        views: Views,
        revisions: Callable[[RmId], Revisions | None],
        clock: Clock,
        time_slices: TimeSlices,
    ) -> None:
        """Idle until `start`; `revisions` has the configurations of an RM."""
        self.history = History(views, clock, time_slices)
        self.recording = Recording(views, revisions, clock, time_slices)
        self.accounting = accounting_of(settings, views, clock, time_slices)
        self.audits = Audits(views, clock, time_slices)

    async def start(self) -> None:
        """Begin to audit and to account."""
        self.audits.start()
        await self.accounting.begin()

    def record(self) -> None:
        """Begin to take the samples that are read over HTTP."""
        self.history.start()
        self.recording.start()

    async def stop(self) -> None:
        """End all, and account for the last time."""
        for periodic in (self.history, self.recording, self.audits):
            await periodic.stop()
        await self.accounting.end()
