"""A member's lease: joining, renewing, and stopping in time, which makes its decisions safe.

Proof that at most one member may decide for an RM, for leases of L seconds and clocks whose rates
are within 1 ± r (`RATE_ERROR`):

1. A renewal is sent at the time s of the member's clock. It arrives later, and from its arrival on the member
   counts as alive for L seconds of another clock (the store's, or that of the member that wants to claim).
   This period ends at least L / (1 + r) seconds after the sending.
2. The member decides while its own clock is below s + `stop_after(L)`: at most `stop_after(L)` /
   (1 - r) seconds after the sending.
3. `stop_after(L)` = L * (1 - r) / (1 + r) - margin. So between its last decision and the first claim of
   another member at least margin / (1 - r) seconds pass, in which decisions leave the process.
4. While the lease is valid, only the member changes a record that names it (`Store.claim`), and only after
   `on_lost` has returned. An epoch is served only after an own claim that succeeded under the current id, so
   that old snapshots and answers prove nothing.

The clock is read for each message. So a process that was paused needs no timer to stop deciding. A pause
between that check and the write is not covered: there the receiver's check of the epoch is the guard. A
removed lease and a wiped store are not covered either: the member continues until its next renewal, at most
the interval of renewals plus their time-out.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from heapq import nlargest
from math import inf
from random import Random
from typing import Any, Protocol, TypeVar

import structlog

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.ownership import Counts
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Store
from licorne_server.store.documents.documents import StoreError

log = structlog.get_logger("core.members")
T = TypeVar("T")

RATE_ERROR = 0.01
"""Error of a clock's rate that the self-stop tolerates. The error of crystals is 0.0001."""

MARGIN = 1 / 6
"""Share of the lease between the self-stop and the end of the lease, in addition to the error of rates."""

CALLS = 4
"""Number of consecutive calls to the store that can time out within a lease."""

MOST_BACK_OFF = 2.0
"""Maximum seconds between two attempts to join."""

MOST_LOADS = 1_000
"""Maximum number of RMs whose load a member publishes: the RMs with the highest load."""


def stop_after(lease: float) -> float:
    """Seconds, by its own clock, for which a member may decide after it has sent a renewal."""
    return lease * ((1 - RATE_ERROR) / (1 + RATE_ERROR) - MARGIN)


class MemberClock(Protocol):
    """The two clocks of a member."""

    def elapsed(self) -> float:
        """Monotonic seconds, which also count while the process or the machine sleeps."""
        ...

    def unix(self) -> float:
        """Unix seconds of the wall clock, which may be set."""
        ...


class SystemMemberClock:
    """The clocks of this machine."""

    def elapsed(self) -> float:
        """Seconds since the boot. Unlike `time.monotonic` it counts while the machine is suspended."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def unix(self) -> float:
        """Unix seconds of the wall clock."""
        return time.time()


class StoreCalls:
    """Calls to the store, each with a time-out."""

    def __init__(self, store: Store) -> None:
        """Call `store`."""
        self._store = store

    @property
    def seconds(self) -> float:
        """Time-out of a call."""
        return self._store.lease / CALLS

    async def __call__(self, call: Coroutine[Any, Any, T], most: float = inf) -> T:
        """The result of a call, which may take at most `most` seconds.

        Raises:
            StoreError: the call has failed, or there was no answer in time.
        """
        seconds = min(self.seconds, most)
        try:
            async with asyncio.timeout(seconds):
                return await call
        except StoreError:
            raise
        except TimeoutError:
            raise StoreError(f"no answer within {seconds:.3g} s") from None
        except Exception as error:
            # A defect of the backend must not end the task that renews the lease: it counts as a failed call.
            log.exception("a call to the store has failed", error=str(error))
            raise StoreError(f"it has failed: {error}") from error


class Lease:
    """Maintains a lease for the member. If it is lost, the member stops serving all RMs, and joins again."""

    def __init__(
        self,
        store: Store,
        me: Member,
        clock: MemberClock,
        randomness: Random,
        load: Callable[[], Mapping[RmId, float]],
        *,
        renew: float,
        end_all: Callable[[str], Awaitable[None]],
    ) -> None:
        """Renew every `renew` seconds, or more often if the lease is short; `load` is in cores.

        `end_all` ends all RMs with the reason; after it returns, no message is sent to them.
        """
        self._store = store
        self._call = StoreCalls(store)
        self._clock = clock
        self._randomness = randomness
        self._load = load
        self._renew = renew
        self._end_all = end_all
        self._until = -inf
        self._sent = -inf
        self._hurry = asyncio.Event()
        self.joined = asyncio.Event()
        """Set once the member has had a lease."""
        self.me = me
        """The member as it is published, with a new id after each loss of the lease."""
        self.problem = "the store was not reached yet"
        """The current problem with the store, for people; empty if there is none."""
        self.counts = Counts()
        """Counts of the member's actions since its start."""

    def may_decide(self) -> bool:
        """True while the lease is certainly valid, by the member's own clock."""
        return self._clock.elapsed() < self._until

    def age(self) -> float:
        """Seconds since the last successful renewal was sent; infinite before the first."""
        return self._clock.elapsed() - self._sent

    def publish(self, *, draining: bool) -> None:
        """Publish soon whether this member is draining."""
        self.me = replace(self.me, draining=draining)
        self.hurry()

    def publish_at(self, address: str, http: str) -> None:
        """Publish these addresses, unless the settings advertise others."""
        me = self.me
        self.me = replace(
            me, address=me.address or address, http=me.http or http, name=me.name or me.address or address
        )

    def hurry(self) -> None:
        """Renew immediately, because the member has changed, or the lease may have ended."""
        self._hurry.set()

    async def run(self) -> None:
        """Join, renew, and join again under another id whenever the lease is lost. Never returns."""
        while True:
            await self._join()
            reason = await self._renewals()
            self._until = -inf
            self.problem = reason
            self._count(fenced=1)
            log.warning("fenced", member=self.me.id, reason=reason)
            await self._end_all(reason)
            await self.leave()

    async def leave(self) -> None:
        """End the lease, if the store answers; otherwise it expires.

        A draining member is marked before it leaves, so that its absence is not reported.
        """
        self._until = -inf
        try:
            if self.me.draining:
                with suppress(StoreError):
                    await self._call(self._store.renew(self.me))
            await self._call(self._store.leave())
        except StoreError as error:
            log.info("the lease was left to end by itself", member=self.me.id, error=str(error))

    async def _join(self) -> None:
        """Get a lease under a new id, however long it takes."""
        back_off = 0.1
        while True:
            self.me = replace(self._published(), id=MemberId(f"{self._randomness.getrandbits(48):012x}"))
            sent = self._clock.elapsed()
            try:
                await self._call(self._store.join(self.me))
            except StoreError as error:
                self._note_failure(error)
            else:
                if self._extend(sent):
                    self.joined.set()
                    log.info("joined", member=self.me.id, name=self.me.name, lease=self._store.lease)
                    return
            await asyncio.sleep(back_off * self._randomness.uniform(0.5, 1.0))
            back_off = min(2 * back_off, MOST_BACK_OFF)

    async def _renewals(self) -> str:
        """Renew until the lease is lost; returns the reason."""
        while True:
            await self._pause()
            sent = self._clock.elapsed()
            if sent >= self._until:
                return "the lease was not renewed in time"
            self._hurry.clear()
            self.me = self._published()
            try:
                await self._call(self._store.renew(self.me), self._until - sent)
            except LeaseLost as error:
                return f"the lease has ended: {error}"
            except StoreError as error:
                self._note_failure(error)
            else:
                # An answer after the self-stop does not undo it, because unsent messages are lost.
                if not (self.may_decide() and self._extend(sent)):
                    return "the lease was renewed too late"
                self._count(renewals=1)

    async def _pause(self) -> None:
        """Wait until a renewal is due, but not beyond the self-stop."""
        seconds = min(self._renew, self._store.lease / 6, self._until - self._clock.elapsed())
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._hurry.wait()
        except TimeoutError:
            return

    def _extend(self, sent: float) -> bool:
        """Extend the lease after an answer to a call of the time `sent`; False if that is too long ago."""
        self._until = sent + stop_after(self._store.lease)
        self._sent = sent
        self.problem = self._store.trouble
        return self.may_decide()

    def _published(self) -> Member:
        """The member with its current load."""
        load = self._load()
        if len(load) > MOST_LOADS:
            load = dict(nlargest(MOST_LOADS, load.items(), key=lambda entry: entry[1]))
        return replace(self.me, load=dict(load))

    def count_move(self) -> None:
        """Count a voluntary move of an RM."""
        self._count(moved=1)

    def _count(self, **more: int) -> None:
        counts = self.counts
        self.counts = replace(counts, **{name: getattr(counts, name) + one for name, one in more.items()})

    def _note_failure(self, error: StoreError) -> None:
        self._count(failures=1)
        self.problem = f"the store does not answer: {error}"
        log.warning("no renewal", member=self.me.id, error=str(error))
