"""Lets RMs in: parses their configuration, finds a place for them, and registers them.

There are so many places for RMs, of which one party may have a share (`RmBounds`). Where none is
free an RM goes that is gone (`Departures`). So registrations that nobody uses do not keep others
out. It is one of the party that asks, or of the party that has most: whoever has few RMs keeps
them, however many others come.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import replace

import structlog

from licorne_core.commands import RegisterRm
from licorne_core.effects import RegistrationFailed
from licorne_server.access import Caller
from licorne_server.config_thread import ConfigThread, Origin
from licorne_server.configurations.history import Configurations
from licorne_server.configurations.revisions import Revision, Revisions
from licorne_server.departures import Departures
from licorne_server.engine import Engine
from licorne_server.errors import config_refused, exhausted
from licorne_server.rm import Rm
from licorne_server.rm_bounds import RmBounds
from licorne_server.rms import Rms
from licorne_server.undisturbed import Undisturbed

log = structlog.get_logger(__name__)


class Admission:
    """The one door through which RMs come, over `si.v1` and over a session alike."""

    def __init__(
        self,
        engine: Engine,
        rms: Rms,
        thread: ConfigThread,
        departures: Departures,
        configurations: Configurations,
        bounds: RmBounds,
        shortage: Callable[[], str],
    ) -> None:
        """`thread` parses configurations; `departures` forgets RMs in whose place others come.
        `configurations` says which configuration an RM is registered with.

        `shortage` says why there is no memory for one more; it is empty while there is.
        """
        self._engine = engine
        self._rms = rms
        self._thread = thread
        self._departures = departures
        self._configurations = configurations
        self._bounds = bounds
        self._shortage = shortage
        # Held while the RMs are counted and one is added, so that there are never too many.
        self._adding = asyncio.Lock()
        # Registrations that have begun cannot be given up any more.
        self._undisturbed = Undisturbed("registration")

    async def stop(self) -> None:
        """Wait until the registrations that have begun are carried out."""
        await self._undisturbed.stop()

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
        applied = self._configurations.goes_on(rm_id, config)
        origin = Origin(caller.party, f"RM {rm_id}")
        parsed = await self._thread.parse(origin, applied.text if applied else config)
        with ExitStack() as stack:
            async with self._adding:
                # Meanwhile others may have registered, or the server may have begun to stop.
                self._rms.check_open()
                while (other := await self._in_the_way(rm_id, caller.party)) is not None:
                    await self._departures.replace(other)
                # The place is taken from here on; registering may take long, and others come.
                stack.enter_context(self._rms.arriving(rm_id, caller.party))
            # Read no earlier: who hands out another default looks at the RMs that arrive.
            usable = parsed or self._configurations.default.current
            command = replace(command, config=usable)
            after = self._configurations.after_registration(rm_id, config, usable, caller.party)
            await self._undisturbed.run(self._carry_out(command, after, applied, then))

    async def _carry_out(
        self,
        command: RegisterRm,
        after: Revisions | None,
        applied: Revision | None,
        then: Callable[[], Awaitable[None]] | None,
    ) -> None:
        """Have the RM registered, and do what follows on that.

        `after` is what is known of the RM's configurations then, and `applied` is the one that
        goes on whatever the RM says.

        Raises:
            CallError: the configuration was refused.
        """
        with self._configurations.expecting(after):
            effects = await self._engine.submit(command)
        for effect in effects:
            if isinstance(effect, RegistrationFailed):
                reason = f"{_still_applied(applied)}{effect.reason}"
                log.warning("registration refused", rm_id=effect.rm_id, reason=reason)
                raise config_refused(reason, effect.problems)
        self._configurations.save(command.rm_id)
        if applied is not None:
            log.info(
                "applied configuration goes on",
                rm_id=command.rm_id,
                revision=applied.number,
                source=applied.source.value,
                by=applied.by,
            )
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


def _still_applied(applied: Revision | None) -> str:
    """What stands before a refusal for which the RM's own text is not to blame."""
    if applied is None:
        return ""
    return (
        f"revision {applied.number} of the configuration was applied by {applied.by} and goes on, "
        "but cannot be used; another text in the registration replaces it: "
    )
