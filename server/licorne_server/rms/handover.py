"""The end of service for RMs: immediately after the loss of an RM, gracefully on a handover or a stop.

The RM connects to another member, registers and replays there, so no state is transferred.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from licorne_core.messages.commands import Hold, RemoveRm, SetHold
from licorne_core.values.ids import RmId
from licorne_server.engine.engine import Engine
from licorne_server.rms.registry import DRAINING, Rms, is_owned
from licorne_server.rms.streams import Stream
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.wire.errors import CallError, Defect, Stopped, unavailable

log = structlog.get_logger("core.handover")

RETRY_SECONDS = 0.05
"""Seconds between two attempts to get the RM's lock while too many requests wait for it."""


class Handover:
    """Ends the service of RMs here: of one RM for `Ownership`, or of all RMs."""

    def __init__(self, engine: Engine, rms: Rms, drain: float, retry_after: float) -> None:
        """A graceful end takes at most `drain` seconds. RMs reconnect after `retry_after` seconds."""
        self._engine = engine
        self._rms = rms
        self._drain = drain
        self._retry_after = retry_after

    def follow(self, ownership: Ownership) -> None:
        """End RMs on request of `ownership`, and schedule only while this server's decisions are valid."""
        ownership.on_lost, ownership.on_handover = self.lost, self.hand_over
        if ownership.store is not None:
            self._engine.may_decide = ownership.may_decide

    async def lost(self, rm_id: RmId, reason: str) -> None:
        """End the RM's streams immediately, then drop its books. See `Ownership.on_lost`."""
        rm = self._rms.find(rm_id)
        if rm is not None:
            rm.end_streams(unavailable(reason, self._retry_after))
        while True:
            try:
                async with self._rms.lock(rm_id):
                    await self._remove(rm_id, reason)
                return
            except CallError:
                await asyncio.sleep(RETRY_SECONDS)

    async def hand_over(self, rm_id: RmId, reason: str) -> None:
        """Hold the RM, send its queued decisions, and end its streams. See `Ownership.on_handover`."""
        rm = self._rms.find(rm_id)
        if rm is not None:
            with suppress(Stopped, Defect):
                await self._engine.submit(SetHold(rm_id=rm_id, hold=Hold.DRAINING, on=True))
            await self._drained(rm.drain(reason, self._retry_after), rm_id=rm_id)
        await self.lost(rm_id, reason)

    async def stop_all(self, drain_passed: Callable[[str, float], list[Stream]]) -> None:
        """Hold all RMs, send their queued decisions, and end their streams.

        `drain_passed` asks the owners of other RMs to end the streams that this member passes on, and returns
        these streams.
        """
        with suppress(Stopped):  # the engine may stop meanwhile
            for rm in self._rms.all():
                await self._engine.submit(SetHold(rm_id=rm.rm_id, hold=Hold.DRAINING, on=True))
        passed = drain_passed(DRAINING, self._retry_after)
        await self._drained([*self._rms.drain(self._retry_after), *passed])
        self._rms.close()

    async def _drained(self, streams: Sequence[Stream], **of: str) -> None:
        try:
            async with asyncio.timeout(self._drain):
                for stream in streams:
                    await stream.closed.wait()
        except TimeoutError:
            log.warning("drain not finished", seconds=self._drain, **of)

    async def _remove(self, rm_id: RmId, reason: str) -> None:
        """Drop the books, unless this server serves the RM again under a newer epoch."""
        rm = self._rms.find(rm_id)
        if rm is None or is_owned(self._rms, rm):
            return
        rm.end_streams(unavailable(reason, self._retry_after))

        def forgets() -> bool:
            self._rms.forget(rm_id)
            log.info("RM handed over", rm_id=rm_id, reason=reason)
            return True

        with suppress(Stopped, Defect):
            await self._engine.submit(RemoveRm(rm_id=rm_id), is_current=forgets)
