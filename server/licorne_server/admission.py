"""Lets RMs in: parses their configuration, finds a place for them, and registers them.

There are so many places for RMs, of which one party may have a share (`RmBounds`). Where none is
free an RM goes that is gone (`Departures`). So registrations that nobody uses do not keep others
out. It is one of the party that asks, or of the party that has most: whoever has few RMs keeps
them, however many others come.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import structlog

from licorne_core.commands import RegisterRm
from licorne_core.effects import RegistrationFailed
from licorne_server.access import Caller
from licorne_server.config_thread import ConfigThread, Origin
from licorne_server.departures import Departures
from licorne_server.engine import Engine
from licorne_server.errors import config_refused, exhausted
from licorne_server.rm import Rm
from licorne_server.rm_bounds import RmBounds
from licorne_server.rms import Rms

log = structlog.get_logger(__name__)


class Admission:
    """The one door through which RMs come, over `si.v1` and over a session alike."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        thread: ConfigThread,
        departures: Departures,
        bounds: RmBounds,
        shortage: Callable[[], str],
    ) -> None:
        """`thread` parses configurations; `departures` forgets RMs in whose place others come.

        `shortage` says why there is no memory for one more; it is empty while there is.
        """
        self._engine = engine
        self._rms = rms
        self._thread = thread
        self._departures = departures
        self._bounds = bounds
        self._shortage = shortage
        # Held while the RMs are counted and one is added, so that there are never too many.
        self._adding = asyncio.Lock()
        # Registrations that have begun: nobody can give them up any more.
        self._begun: set[asyncio.Task[None]] = set()

    async def stop(self) -> None:
        """Wait until the registrations that have begun are carried out."""
        if self._begun:
            await asyncio.wait(self._begun)

    async def register(
        self,
        command: RegisterRm,
        config: str,
        caller: Caller,
        then: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Register an RM, dropping what it had; `config` is the text of its configuration.

        `caller` is who has sent it. The RM's lock is held meanwhile. While the text is parsed
        nothing else of this RM is begun, and other RMs are served.

        If the caller is cancelled before the engine has the command, nothing is registered. After
        that the RM is registered and `then` is carried out, and only then this returns. So the lock
        is held until both are done.

        Raises:
            CallError: the configuration was refused, there is no place or no memory for one more
                RM, or the server stops.
        """
        rm_id = command.rm_id
        await self._in_the_way(rm_id, caller.party)
        command = replace(
            command, config=await self._thread.parse(Origin(caller.party, f"RM {rm_id}"), config)
        )
        with ExitStack() as stack:
            async with self._adding:
                # Meanwhile others may have registered, or the server may have begun to stop.
                self._rms.check_open()
                while (other := await self._in_the_way(rm_id, caller.party)) is not None:
                    await self._departures.replace(other)
                # The place is taken from here on; registering may take long, and others come.
                stack.enter_context(self._rms.arriving(rm_id, caller.party))
            await self._to_its_end(self._carry_out(command, then))

    async def _to_its_end(self, work: Coroutine[Any, Any, None]) -> None:
        """Carry out the work in a task of its own; if the caller is cancelled it leaves after it.

        Raises:
            CancelledError: the caller was cancelled meanwhile.
        """
        task = asyncio.get_running_loop().create_task(work, name="registration")
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
            log.warning("registration failed, its caller has gone", error=str(failure))
        raise cancelled

    async def _carry_out(
        self, command: RegisterRm, then: Callable[[], Awaitable[None]] | None
    ) -> None:
        """Have the RM registered, and do what follows on that.

        Raises:
            CallError: the configuration was refused.
        """
        effects = await self._engine.submit(command)
        for effect in effects:
            if isinstance(effect, RegistrationFailed):
                log.warning("registration refused", rm_id=effect.rm_id, reason=effect.reason)
                raise config_refused(effect.reason, effect.problems)
        if then is not None:
            await then()

    async def _in_the_way(self, rm_id: str, party: str) -> Rm | None:
        """The RM that has to go before this one is registered; None if there is a place.

        Raises:
            CallError: RESOURCE_EXHAUSTED, there is no place and none may be taken.
        """
        if self._rms.find(rm_id) is not None:
            return None
        shortage = self._shortage()
        if shortage:
            raise exhausted(f"no new RM is taken: {shortage}", "OUT_OF_MEMORY")
        number, share = self._bounds.number, self._bounds.share
        counts = Counter(self._rms.parties().values())
        has_share = counts[party] >= share
        is_full = counts.total() >= number
        if not has_share and not is_full:
            return None
        givers = {party}
        if not has_share:
            most = max(counts.values())
            givers |= {other for other, count in counts.items() if count == most}
        found = await self._departures.longest_gone(lambda rm: rm.party in givers)
        if found is None:
            text = f"{number} RMs" if is_full else f"{share} RMs of this peer"
            raise exhausted(f"{text} are registered already", "TOO_MANY_RMS")
        return found
