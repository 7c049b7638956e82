"""Admission of RMs: parses the configuration, finds a place, and registers the RM.

The number of RMs is bounded, in total and for each peer (`RmBounds`). If no place is free, a disconnected RM
is evicted (`Eviction`), so that unused registrations do not exclude others. The evicted RM belongs to the
peer that registers, or to the peer with the most RMs: a peer with few RMs keeps them, however many others
register.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import NamedTuple

import structlog

from licorne_core.config import SubmittedConfig
from licorne_core.messages.commands import RegisterRm
from licorne_core.messages.effects import RegistrationFailed
from licorne_core.messages.kept import KeptByPartition
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.process.bounds import RmBounds
from licorne_server.process.loop import RunToCompletion
from licorne_server.rms.eviction import Eviction
from licorne_server.rms.registry import Rms, check_claimed, is_owned
from licorne_server.rms.rm import Rm
from licorne_server.security.access import Caller
from licorne_server.store.configurations.applying import tell_warnings
from licorne_server.store.configurations.history import Configurations, Unusable
from licorne_server.store.configurations.memories import Memories
from licorne_server.store.configurations.revisions import Revision, Revisions, extra_text
from licorne_server.store.configurations.thread import ConfigThread, Origin
from licorne_server.store.documents.documents import StoreError
from licorne_server.wire.errors import config_refused, exhausted, unavailable

log = structlog.get_logger("core.admission")

MAX_WHY = 240
"""Maximum number of characters of the reason in the history why an applied configuration is unusable."""


class Admission:
    """Admits new RMs over `si.v1` and over sessions."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        thread: ConfigThread,
        eviction: Eviction,
        configurations: Configurations,
        memories: Memories,
        bounds: RmBounds,
        shortage: Callable[[], str],
    ) -> None:
        """`thread` parses configurations; `eviction` frees places for new RMs; `configurations` has the
        configuration of an RM at its registration, `memories` the state of its former partitions.

        `shortage` returns the reason if there is no memory for one more RM, or else an empty text.
        """
        self._engine = engine
        self._rms = rms
        self._thread = thread
        self._eviction = eviction
        self._configurations = configurations
        self._memories = memories
        self._bounds = bounds
        self._shortage = shortage
        # Held while the RMs are counted and one is added, so that the bounds hold.
        self._adding = asyncio.Lock()
        # A registration that has begun cannot be cancelled any more.
        self._run_to_completion = RunToCompletion("registration")

    async def stop(self) -> None:
        """Wait until the running registrations are complete."""
        await self._run_to_completion.stop()

    async def register(
        self,
        command: RegisterRm,
        config: str,
        caller: Caller,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Register an RM, and drop its former state; `config` is the text of its configuration.

        `caller` is the sender. The caller of this method holds the RM's lock. While the text is parsed, no
        other request of this RM is begun, but other RMs are served.

        If this is cancelled before the engine has the command, nothing is registered. If it is cancelled
        later, the RM is registered and `then` is carried out before this returns, so that the lock is held
        until both are done.

        Raises:
            CallError: the configuration was refused, there is no place or no memory for one more
                RM, or the server stops.
        """
        rm_id = command.rm_id
        await self._in_the_way(rm_id, caller.peer)
        await self._fetch(rm_id)
        applied = self._configurations.goes_on(rm_id, config)
        origin = Origin(caller.peer, f"RM {rm_id}")
        parsed = await self._thread.parse(origin, applied.text if applied else config)
        with ExitStack() as stack:
            async with self._adding:
                # Meanwhile other RMs may have registered, or the server may have begun to stop.
                self._rms.check_open()
                while (other := await self._in_the_way(rm_id, caller.peer)) is not None:
                    await self._eviction.replace(other)
                # From here on the place counts as taken, because registering may take long, and others may
                # register meanwhile.
                stack.enter_context(self._rms.arriving(rm_id, caller.peer))
            entry = _Entry(command, config, caller.peer, applied)
            failure = await self._run_to_completion.run(self._carry_out(entry, parsed, then))
            if failure is not None and applied is not None and _is_to_blame(failure):
                # An unusable applied configuration refuses no RM; the RM's own configuration is used instead.
                parsed = await self._thread.parse(origin, config)
                entry = entry._replace(unusable=Unusable(applied.number, _shortened(failure)))
                failure = await self._run_to_completion.run(self._carry_out(entry, parsed, then))
        if failure is not None:
            reason = f"{failure.reason}{_as_well(entry.unusable)}"
            raise config_refused(reason, failure.problems)

    async def _fetch(self, rm_id: RmId) -> None:
        """Load the stored revisions of an RM that registers here for the first time in its epoch.

        Raises:
            CallError: UNAVAILABLE, the store does not answer.
        """
        rm = self._rms.find(rm_id)
        if rm is not None and is_owned(self._rms, rm):
            return
        try:
            await self._configurations.fetch(rm_id)
        except StoreError as error:
            raise unavailable(f"the configuration of RM {rm_id} cannot be read: {error}") from None

    async def _remembered(self, rm_id: RmId, config: SubmittedConfig) -> KeptByPartition:
        """The state of former partitions with which the RM's partitions start.

        Raises:
            CallError: UNAVAILABLE, the store does not answer.
        """
        rm = self._rms.find(rm_id)
        is_live = rm is not None and is_owned(self._rms, rm)
        try:
            return await self._memories.of(rm_id, config, is_live=is_live)
        except StoreError as error:
            raise unavailable(f"the usage of RM {rm_id} cannot be read: {error}") from None

    async def _carry_out(
        self,
        entry: "_Entry",
        parsed: SubmittedConfig,
        then: Callable[[], Awaitable[None]] | None,
    ) -> RegistrationFailed | None:
        """Register the RM, and run `then`; returns the failure if it is refused.

        Raises:
            CallError: this server no longer owns the RM.
        """
        check_claimed(self._rms, entry.command.rm_id)
        # Read only now, so that RMs that are registering also get a reloaded default.
        usable = parsed or self._configurations.default.current
        command = entry.command
        after = self._configurations.after_registration(
            command.rm_id,
            entry.text,
            usable,
            entry.peer,
            extra_text(command.extra_config),
            entry.unusable,
        )
        if after is not None and after.is_applied:
            # The extra configuration belongs to the applied configuration.
            command = replace(command, extra_config=after.current.extra_config)
        with self._configurations.expecting(after):
            marks = self._configurations.marks_of(command.rm_id)
            memory = await self._remembered(command.rm_id, usable)
            command = replace(command, config=usable, marks=marks, memory=memory)
            effects = await self._engine.submit(command)
        for effect in effects:
            if isinstance(effect, RegistrationFailed):
                return effect
        self._configurations.save(command.rm_id)
        tell_warnings(command.rm_id, usable)
        if entry.applied is not None:
            _log_outcome(entry.applied, entry, after)
        if then is not None:
            await then()
        return None

    async def _in_the_way(self, rm_id: str, peer: str) -> Rm | None:
        """The RM that has to be evicted before this one is registered; None if a place is free.

        Raises:
            CallError: RESOURCE_EXHAUSTED, no place is free, and no RM may be evicted.
        """
        if self._rms.find(rm_id) is not None:
            return None
        shortage = self._shortage()
        if shortage:
            raise exhausted(f"no new RM is taken: {shortage}", "OUT_OF_MEMORY")
        number, share = self._bounds.number, self._bounds.share
        counts = Counter(self._rms.peers().values())
        has_share = counts[peer] >= share
        is_full = counts.total() >= number
        if not has_share and not is_full:
            return None
        givers = {peer}
        if not has_share:
            most = max(counts.values())
            givers |= {other for other, count in counts.items() if count == most}
        found = await self._eviction.longest_gone(lambda rm: rm.peer in givers)
        if found is None:
            text = f"{number} RMs" if is_full else f"{share} RMs of this peer"
            raise exhausted(f"{text} are registered already", "TOO_MANY_RMS")
        return found


class _Entry(NamedTuple):
    """A registration request: the RM's introduction and its sender."""

    command: RegisterRm
    text: str
    """The text of its configuration, as it was sent."""
    peer: str
    applied: Revision | None
    """The applied revision, which replaces the RM's own text if it is usable; None if there is none."""
    unusable: Unusable | None = None
    """The applied revision, once it has proved unusable; else None."""


def _is_to_blame(failure: RegistrationFailed) -> bool:
    """True if the refusal was caused by the configuration, not by the RM or by a lack of memory."""
    return all(problem.path != "rmID" for problem in failure.problems)


def _shortened(failure: RegistrationFailed) -> str:
    """The reason, short enough for the history."""
    why = " | ".join(str(problem) for problem in failure.problems)[:MAX_WHY]
    return why if why.isprintable() else ascii(why)[1 : MAX_WHY + 1]


def _as_well(unusable: Unusable | None) -> str:
    """Text for a refusal if the applied configuration is unusable as well; else empty."""
    if unusable is None:
        return ""
    return f"; revision {unusable.number}, which was applied, cannot be used either: {unusable.why}"


def _log_outcome(applied: Revision, entry: _Entry, after: Revisions | None) -> None:
    """Log whether an applied configuration could be used."""
    about = {"revision": applied.number, "source": applied.source.value, "by": applied.by}
    rm_id = entry.command.rm_id
    if entry.unusable is None:
        log.info("applied configuration stays in force", rm_id=rm_id, **about)
        return
    log.error(
        "applied configuration cannot be used",
        rm_id=rm_id,
        reason=entry.unusable.why,
        in_force=after.current.number if after is not None else 0,
        **about,
    )
