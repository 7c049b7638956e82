"""Eviction of unused RMs: after a time, to free a place, and on request.

An RM counts as gone while it has no open stream. Its books are retained, because it may reconnect. It is not
evicted after a time while it has allocations: their pods would continue without being counted.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

import structlog

from licorne_core.messages.commands import RemoveRm
from licorne_core.values.errors import NotFound
from licorne_core.views import Views
from licorne_server.engine.engine import Engine
from licorne_server.process.clock import Clock, Periodic
from licorne_server.rms.registry import Rms
from licorne_server.rms.rm import Rm
from licorne_server.wire.errors import CallError, Defect, Stopped, failed_precondition

log = structlog.get_logger("core.departures")

SETTLING = 10.0
"""Seconds after a registration or the loss of the streams during which any RM keeps its place."""

RETURNING = 60.0
"""Seconds for which an RM with nodes, applications or asks is not evicted: a restart may take as long."""

RETRY = 60.0
"""Seconds after which an RM that could not be evicted is examined again."""

LEAST_PAUSE = 1.0
"""Minimum seconds between two examinations of all RMs."""


class Eviction(Periodic):
    """Removes RMs from the core and from the server in one step."""

    forgotten: int
    """RMs evicted since the start; RMs that unregistered do not count."""

    def __init__(self, engine: Engine, rms: Rms, views: Views, clock: Clock, after: float) -> None:
        """An RM is evicted once it was gone for `after` seconds; 0 for never."""
        self.forgotten = 0
        super().__init__("departures", clock, after)
        self._engine = engine
        self._rms = rms
        self._views = views

    def start(self) -> None:
        """Begin to evict RMs that have been gone for long enough."""
        if self._seconds:
            super().start()

    async def longest_gone(self, wanted: Callable[[Rm], bool]) -> Rm | None:
        """The RM gone for the longest time, of the RMs that `wanted` accepts and that may be evicted.

        RMs without books are first. Running allocations are counted RM by RM; other tasks may run in between.
        """
        gone = [rm for rm in self._rms.all() if not rm.connected and wanted(rm)]
        gone.sort(key=lambda rm: (self._has_books(rm), rm.since, rm.rm_id))
        for rm in gone:
            if self._may_be_replaced(rm):
                return rm
            await asyncio.sleep(0)
        return None

    async def replace(self, rm: Rm) -> None:
        """Evict an RM to make room for another one, unless it reconnected or got an allocation meanwhile."""
        await self._remove(rm, self._may_be_replaced, "another RM takes its place")

    async def forget(self, rm: Rm, *, force: bool) -> None:
        """Evict an RM on request; with `force` its allocations are forgotten too.

        Raises:
            CallError: FAILED_PRECONDITION, a stream is open or allocations run.
        """

        def may_go(rm: Rm) -> bool:
            return self._refusal(rm, force=force) is None

        async with self._rms.lock(rm.rm_id):
            refusal = self._refusal(rm, force=force)
            if refusal is None and not await self._remove(rm, may_go, "it was asked for"):
                refusal = self._refusal(rm, force=force) or failed_precondition(
                    f"RM {rm.rm_id} has registered anew meanwhile", "RM_CONNECTED"
                )
            if refusal is not None:
                raise refusal

    def _refusal(self, rm: Rm, *, force: bool) -> CallError | None:
        """The reason why the RM may not be evicted, as an error; None if it may be."""
        if rm.connected:
            streams = ", ".join(sorted(kind.value for kind in rm.streams))
            return failed_precondition(
                f"RM {rm.rm_id} is connected, with streams open: {streams}", "RM_CONNECTED"
            )
        running = 0 if force else self._running(rm)
        if running:
            return failed_precondition(
                f"RM {rm.rm_id} has {running} running allocations: say force to forget them too",
                "RM_HAS_ALLOCATIONS",
                allocations=str(running),
            )
        return None

    def _may_be_replaced(self, rm: Rm) -> bool:
        """True if the RM is unused, and has been gone long enough; an RM with books has more time."""
        grace = RETURNING if self._has_books(rm) else SETTLING
        return self._clock.now() - rm.since >= grace and self._may_go(rm)

    def _has_books(self, rm: Rm) -> bool:
        """True if the RM has a node, an application or an ask."""
        try:
            counts = self._views.rm(rm.rm_id).counts
        except NotFound:
            return False
        return bool(counts.nodes or counts.applications or counts.asks)

    def _may_go(self, rm: Rm) -> bool:
        """True if the RM is unused: gone, without running allocations, and not registering."""
        busy = rm.connected or self._rms.is_locked(rm.rm_id)
        return not (busy or self._has_running(rm))

    def _has_running(self, rm: Rm) -> bool:
        """True if allocations are booked.

        The sums of the queues show it immediately. Only allocations without resources have to be counted.
        """
        try:
            for name in self._views.rm(rm.rm_id).partitions:
                if any(self._views.queue(name, "root").allocated.values()):
                    return True
        except NotFound:
            return False
        return self._running(rm) > 0

    def _running(self, rm: Rm) -> int:
        """Number of booked allocations, including placeholders."""
        return self._views.running(rm.rm_id)

    async def _work(self) -> float:
        try:
            return await self._look()
        except Exception:
            log.exception("RMs that are gone are not forgotten")
            return self._clock.now() + RETRY

    async def _look(self) -> float:
        """Evict RMs that have been gone long enough; return the next time to do so, in unix seconds."""
        now = self._clock.now()
        # RMs that disconnect after this examination are due later.
        due = now + self._seconds
        for rm in self._rms.all():
            end = rm.since + self._seconds
            if rm.connected:
                continue
            if end > now:
                due = min(due, end)
                continue
            with suppress(Defect, Stopped):
                await self._remove(rm, self._may_go, f"gone for {self._seconds:g} s")
            if self._rms.find(rm.rm_id) is rm:
                due = min(due, now + RETRY)
        return max(due, now + LEAST_PAUSE)

    async def _remove(self, rm: Rm, may_go: Callable[[Rm], bool], why: str) -> bool:
        """Remove an RM if `may_go` still holds when the command is handled; returns True if it was removed.

        The engine calls `may_go` immediately before the core removes the RM. So core and server drop the RM
        in one step, even if the caller is cancelled.
        """
        is_current = rm.registration.is_current

        def forgets() -> bool:
            if self._rms.find(rm.rm_id) is not rm or not is_current() or not may_go(rm):
                return False
            self._rms.forget(rm.rm_id)
            self.forgotten += 1
            seconds = round(self._clock.now() - rm.since, 3)
            log.info("RM forgotten", rm_id=rm.rm_id, reason=why, gone_seconds=seconds)
            return True

        await self._engine.submit(RemoveRm(rm_id=rm.rm_id), is_current=forgets)
        return self._rms.find(rm.rm_id) is not rm
