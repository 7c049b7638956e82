"""The default configuration, for RMs without their own: the `--config` file, or the built-in one.

The file is read again on request, and after a change of its content. Each RM with the configuration of the
file gets the new one completely, or not at all. RMs that register later get the new one as well.
"""

import asyncio
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import structlog

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import Clock
from licorne_server.process.fair import FairLock
from licorne_server.process.loop import RunToCompletion, stop_task
from licorne_server.rms.registry import Rms, configuring
from licorne_server.store.configurations.applying import Applier, Change, CheckConfiguration
from licorne_server.store.configurations.default_file import (
    DefaultFileError,
    read_default,
    refused_default,
    watch_file,
)
from licorne_server.store.configurations.history import Configurations
from licorne_server.store.configurations.revisions import Source
from licorne_server.store.configurations.thread import ConfigThread, Origin
from licorne_server.wire.errors import CallError, Defect, failed_precondition

log = structlog.get_logger("core.configurations.reloading")

MAX_WAITING = 16
"""Maximum number of reloads that wait for the running reload."""

ORIGIN = Origin("the server", "the default configuration")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReloadedRm:
    """Result for an RM with the file's configuration; `refusal` is the reason of a refusal."""

    rm_id: RmId
    changed: bool
    revision: int
    refusal: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reloaded:
    """Result of a reload; `changed` is True if the file had changed."""

    changed: bool
    checksum: str
    rms: tuple[ReloadedRm, ...]


class Reloader:
    """The only reader of the default configuration's file after the start."""

    reloads: int
    """Successful reloads since the start."""
    failures: int
    """Reloads since the start that found an unusable file."""
    problem: str
    """The reason why the last read of the file failed; empty if it succeeded."""
    seconds: float
    """Duration of the last reload, in seconds."""

    def __init__(
        self,
        configurations: Configurations,
        applier: Applier,
        rms: Rms,
        thread: ConfigThread,
        clock: Clock,
    ) -> None:
        """`thread` parses the file; `applier` puts its configuration into force."""
        self.reloads = 0
        self.failures = 0
        self.problem = ""
        self.seconds = 0.0
        self._configurations = configurations
        self._default = configurations.default
        self._applier = applier
        self._rms = rms
        self._thread = thread
        self._clock = clock
        self._lock = FairLock("reloads", "TOO_MANY_RELOADS", MAX_WAITING)
        self._run_to_completion = RunToCompletion("reload")
        self._asked: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None

    @property
    def has_file(self) -> bool:
        """True if there is a file to read again."""
        return self._default.file is not None

    def watch(self) -> None:
        """Start to watch the file, if there is one."""
        if self._default.file is not None:
            text = self._default.current.text
            work = watch_file(
                "default configuration", self._default.file, text, self._clock, self._reload_and_log
            )
            self._watch = asyncio.get_running_loop().create_task(work, name="default file")

    async def stop(self) -> None:
        """Stop watching, and wait for the running reload."""
        await stop_task(self._watch)
        for task in self._asked:
            task.cancel()
        await self._run_to_completion.stop()

    def reload_soon(self) -> None:
        """Read the file again, if there is a file; the result is logged."""
        if self._default.file is not None:
            task = asyncio.get_running_loop().create_task(self._reload_and_log())
            self._asked.add(task)
            task.add_done_callback(self._asked.discard)

    async def reload(self) -> Reloaded:
        """Read the file again, and apply its configuration to all RMs with the file's configuration.

        A reload that has begun is carried out even if the caller is cancelled.

        Raises:
            CallError: FAILED_PRECONDITION, there is no file; or too many reloads are waiting.
            DefaultFileError: the file is unusable. Nothing is changed.
        """
        file = self._default.file
        if file is None:
            raise failed_precondition(
                "the server was started without --config, so there is no file to read again",
                "NO_CONFIGURATION_FILE",
            )
        return await self._run_to_completion.run(self._reload(file))

    async def _reload(self, file: Path) -> Reloaded:
        tracing = self._rms.tracing
        async with self._lock:
            begin = perf_counter()
            try:
                with nullcontext() if tracing is None else tracing.configurations.reloading():
                    changed = await self._read(file)
                    self.reloads += 1
                    rms = await self._apply_to_all(file)
                self.problem = ""
            except DefaultFileError as error:
                self.failures += 1
                self.problem = str(error)
                raise
            finally:
                self.seconds = perf_counter() - begin
        checksum = self._default.current.checksum
        refused = [rm.rm_id for rm in rms if rm.refusal]
        log.info("default configuration read", changed=changed, rms=len(rms), refused=refused)
        return Reloaded(changed=changed, checksum=checksum, rms=rms)

    async def _read(self, file: Path) -> bool:
        """Read the file and make its configuration the default; returns True if the default has changed.

        Raises:
            DefaultFileError: the file is unusable.
        """
        text = await asyncio.to_thread(read_default, file)
        if text == self._default.current.text:
            return False
        read = partial(load, text, required=True)
        try:
            self._default.current = await self._thread.run(ORIGIN, read, len(text))
        except ConfigError as error:
            raise refused_default(file, error.problems) from None
        return True

    async def _apply_to_all(self, file: Path) -> tuple[ReloadedRm, ...]:
        """Apply the new default to all RMs with the file's configuration.

        RMs that are registering are included, as they may have begun with the old default.
        """
        rm_ids = sorted(self._rms.peers())
        found = await asyncio.gather(*(self._apply_to(rm_id, file) for rm_id in rm_ids))
        return tuple(reloaded for reloaded in found if reloaded is not None)

    async def _apply_to(self, rm_id: RmId, file: Path) -> ReloadedRm | None:
        """Apply the new default to one RM; None if the RM has another configuration."""
        revision = 0
        try:
            async with configuring(self._rms, rm_id, self._clock.now):
                revisions = self._configurations.find(rm_id)
                if revisions is None or self._rms.find(rm_id) is None:
                    return None
                if revisions.current.source is not Source.FILE:
                    return None
                revision = revisions.current.number
                config = self._default.current
                change = Change(rm_id=rm_id, config=config, source=Source.FILE, by=str(file))
                applied = await self._applier.apply(change)
        except (CallError, Defect) as error:
            log.warning("default configuration not taken", rm_id=rm_id, reason=str(error))
            return ReloadedRm(rm_id=rm_id, changed=False, revision=revision, refusal=str(error))
        return ReloadedRm(rm_id=rm_id, changed=applied.changed, revision=applied.revision.number)

    async def _reload_and_log(self) -> None:
        try:
            await self.reload()
        except DefaultFileError as error:
            problems = [str(problem) for problem in error.problems]
            log.error("default configuration not read", reason=str(error), problems=problems)
        except CallError as error:
            log.error("default configuration not read", reason=str(error))
        except Exception:
            # Only logged, so that the file is still watched.
            log.exception("default configuration not read")


class Changes:
    """The applier of configurations, and the reloader of the default file."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        configurations: Configurations,
        thread: ConfigThread,
        clock: Clock,
        check: CheckConfiguration,
    ) -> None:
        """`thread` parses configurations.

        `check` finds the problem of a configuration for an RM that is not registered.
        """
        self.configurations = configurations
        self.check = check
        self.applier = Applier(engine, configurations, check)
        self.reloader = Reloader(configurations, self.applier, rms, thread, clock)
        self._rms = rms
        self._now = clock.now

    def configuring(self, rm_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the lock of an RM while its configuration changes, and measure the duration."""
        return configuring(self._rms, rm_id, self._now)

    async def stop(self) -> None:
        """Start no more reloads, and wait for the running changes."""
        await self.reloader.stop()
        await self.applier.stop()
