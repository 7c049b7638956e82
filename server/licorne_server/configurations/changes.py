"""Changes of configurations while the server runs."""

from contextlib import AbstractAsyncContextManager

from licorne_server.configurations.applying import Applier, CheckConfiguration
from licorne_server.configurations.history import Configurations
from licorne_server.configurations.reloading import Reloader
from licorne_server.configurations.thread import ConfigThread
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import Clock
from licorne_server.rms.registry import Rms, configuring


class Changes:
    """The applier of configurations, and the reloader of the default's file."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        configurations: Configurations,
        thread: ConfigThread,
        clock: Clock,
        check: CheckConfiguration,
    ) -> None:
        """Over the engine and its RMs; `thread` parses configurations.

        `check` finds the problem of a configuration, as far as the core has to know the RM.
        """
        self.configurations = configurations
        self.check = check
        self.applier = Applier(engine, configurations, check)
        self.reloader = Reloader(configurations, self.applier, rms, thread, clock)
        self._rms = rms
        self._now = clock.now

    def configuring(self, rm_id: str) -> AbstractAsyncContextManager[None]:
        """Holds the lock of an RM while its configuration changes, and measures how long."""
        return configuring(self._rms, rm_id, self._now)

    async def stop(self) -> None:
        """Begin no more changes, and wait for those under way."""
        await self.reloader.stop()
        await self.applier.stop()
