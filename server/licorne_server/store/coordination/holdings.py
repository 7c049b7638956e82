"""The RMs that this member serves, and the order of operations on each."""

import asyncio
from collections.abc import Awaitable, Callable
from weakref import WeakValueDictionary

import structlog

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import Ownership

End = Callable[[RmId, str], Awaitable[None]]
"""Ends an RM, with the reason; after it returns no message is sent to the RM."""

log = structlog.get_logger("core.members")

RETRY = 1.0
"""Seconds before a failed end of an RM is retried."""


class Holdings:
    """RMs served here, under claims of this member. Code that takes, gives or drops an RM holds its lock."""

    def __init__(self, lost: End, handed_over: End) -> None:
        """Start without RMs. `lost` and `handed_over` are `Ownership.on_lost` and `Ownership.on_handover`."""
        self._lost, self._handed_over = lost, handed_over
        self._ending: dict[RmId, asyncio.Task[None]] = {}
        self._locks: WeakValueDictionary[RmId, asyncio.Lock] = WeakValueDictionary()
        self.served: dict[RmId, Ownership] = {}
        """The record of each RM, as made by this member's claim."""

    def lock(self, rm_id: RmId) -> asyncio.Lock:
        """The lock of the RM. It exists as long as it is referenced."""
        lock = self._locks.get(rm_id)
        if lock is None:
            lock = self._locks[rm_id] = asyncio.Lock()
        return lock

    def end(self, rm_id: RmId, reason: str, *, in_order: bool = False) -> None:
        """Stop serving the RM, from now on. `ended` waits until no message is sent to it any more.

        An end `in_order` first sends all decisions.
        """
        self.served.pop(rm_id, None)
        if rm_id not in self._ending:
            ending = self._end(rm_id, reason, self._handed_over if in_order else self._lost)
            self._ending[rm_id] = asyncio.get_running_loop().create_task(ending, name=f"end {rm_id}")

    async def ended(self, rm_id: RmId) -> None:
        """Wait until an earlier end of the RM is complete."""
        if (task := self._ending.get(rm_id)) is not None:
            await asyncio.wait([task])

    async def end_all(self, reason: str) -> None:
        """End all RMs; returns when no message is sent to them any more."""
        for rm_id in list(self.served):
            self.end(rm_id, reason)
        if self._ending:
            await asyncio.wait(self._ending.values())

    async def _end(self, rm_id: RmId, reason: str, end: End) -> None:
        """End an RM; retried after a failure, as until then messages may still be sent to it."""
        while True:
            try:
                await end(rm_id, reason)
            except Exception as error:
                log.exception("the end of an RM has failed", rm=rm_id, error=str(error))
                await asyncio.sleep(RETRY)
            else:
                del self._ending[rm_id]
                return
