"""The RMs that this member serves, and the owner of each RM.

An RM is served here, sent to its owner, or claimed for this or another member.
"""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from weakref import WeakValueDictionary

import structlog

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.lease import Lease, MemberClock, StoreCalls
from licorne_server.store.coordination.placing import candidates, choose
from licorne_server.store.coordination.snapshots import Snapshots, newer, owner_in
from licorne_server.store.coordination.store import Member, Ownership, Store
from licorne_server.store.documents.documents import Conflict, StoreError
from licorne_server.wire.errors import unavailable

End = Callable[[RmId, str], Awaitable[None]]
"""Ends the service of an RM for a reason; after it returns, no message is sent to the RM."""


RETRY_END = 1.0
"""Seconds after which a failed end of an RM is retried."""


class Holdings:
    """RMs served here, under claims of this member. Code that changes an entry holds the RM's lock."""

    def __init__(self, lost: End, handed_over: End) -> None:
        """Start without RMs. `lost` and `handed_over` are `Ownership.on_lost` and `Ownership.on_handover`."""
        self._lost, self._handed_over = lost, handed_over
        self._ending: dict[RmId, asyncio.Task[None]] = {}
        self._locks: WeakValueDictionary[RmId, asyncio.Lock] = WeakValueDictionary()
        self.served: dict[RmId, Ownership] = {}
        """The record of each RM, as this member's claim has written it."""

    def lock(self, rm_id: RmId) -> asyncio.Lock:
        """The lock of the RM, which exists as long as there is a reference to it."""
        lock = self._locks.get(rm_id)
        if lock is None:
            lock = self._locks[rm_id] = asyncio.Lock()
        return lock

    def end(self, rm_id: RmId, reason: str, *, in_order: bool = False) -> None:
        """Stop serving the RM now. `ended` waits until no more messages are sent to the RM.

        With `in_order`, all decisions are sent first.
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
        """Stop serving all RMs; returns when no more messages are sent to them."""
        for rm_id in list(self.served):
            self.end(rm_id, reason)
        if self._ending:
            await asyncio.wait(self._ending.values())

    async def _end(self, rm_id: RmId, reason: str, end: End) -> None:
        """End an RM; retried after a failure. Until this has succeeded, messages may be sent to the RM."""
        while True:
            try:
                await end(rm_id, reason)
            except Exception as error:
                log.exception("the end of an RM has failed", rm=rm_id, error=str(error))
                await asyncio.sleep(RETRY_END)
            else:
                del self._ending[rm_id]
                return


log = structlog.get_logger("core.members")

TRIES = 8
"""Maximum number of claims of one RM that may conflict with other members, before the caller must retry."""

GAP_BITS = 16
"""Number of bits of the random number by which epochs rise."""


class Claiming:
    """Finds the owner of an RM, or claims the RM for a member."""

    def __init__(
        self,
        store: Store,
        clock: MemberClock,
        randomness: Random,
        lease: Lease,
        snapshots: Snapshots,
        holdings: Holdings,
    ) -> None:
        """Claim under `lease`; RMs claimed for this member are added to `holdings`."""
        self._store = store
        self._call = StoreCalls(store)
        self._clock = clock
        self._randomness = randomness
        self._lease = lease
        self._snapshots = snapshots
        self._holdings = holdings

    async def take(self, rm_id: RmId, named: int) -> int | Member:
        """See `Ownership.take`. Calls for one RM run one at a time, and none waits longer than a lease."""
        try:
            async with asyncio.timeout(self._store.lease), self._holdings.lock(rm_id):
                await self._holdings.ended(rm_id)
                return await self._find(rm_id, named)
        except TimeoutError:
            raise unavailable(f"RM {rm_id!r}: its owner was not found in time") from None
        except StoreError as error:
            raise unavailable(f"RM {rm_id!r}: the store does not answer: {error}") from None

    async def _find(self, rm_id: RmId, named: int) -> int | Member:
        snapshot, is_fresh = self._snapshots.latest, False
        for _ in range(TRIES):
            me = self._lease.me
            if not self._lease.may_decide():
                raise unavailable(f"this member has no lease: {self._lease.problem}")
            served = self._holdings.served.get(rm_id)
            if served is not None and named <= served.epoch:
                return served.epoch
            seen = newer(snapshot.rms.get(rm_id), served)
            owner = owner_in(snapshot, seen)
            if served is None and owner is not None and owner.id != me.id:
                if is_fresh:
                    return self._elsewhere(owner)
                snapshot, is_fresh = await self._snapshots.afresh(), True
                continue
            is_mine = seen is not None and seen.owner == me.id and not me.draining
            target = me if served is not None or is_mine else choose(rm_id, candidates(snapshot, me))
            if target is None:
                raise unavailable("this member drains, and there is no other one")
            try:
                owned = await self.claim(rm_id, target, seen, named)
            except Conflict:
                snapshot, is_fresh = await self._snapshots.afresh(), True
            else:
                return await self._serve(owned, me) if target is me else target
        raise unavailable(f"RM {rm_id!r}: others were faster {TRIES} times")

    async def claim(self, rm_id: RmId, target: Member, seen: Ownership | None, at_least: int) -> Ownership:
        """Make `target` the owner of the RM, under an epoch that was never used.

        A wiped or restored store counts from a lower number, and an RM may not know the last epoch. So an
        epoch is at least the number of microseconds of the wall clock, and rises by a random number: two
        histories of a store do not assign the same epoch.
        """
        floor = max(at_least, seen.epoch if seen else 0, int(self._clock.unix() * 1e6))
        floor += self._randomness.getrandbits(GAP_BITS)
        claim = self._store.claim(rm_id, target.id, seen, floor)
        owned = await self._call(claim)
        log.info("claimed", rm=rm_id, epoch=owned.epoch, owner=target.id, name=target.name)
        return owned

    async def _serve(self, owned: Ownership, run: Member) -> int:
        """Serve an RM that was claimed during the run `run` of this member, if that run has not ended."""
        rm_id = owned.rm_id
        await self._holdings.ended(rm_id)
        if self._lease.me.id != run.id or not self._lease.may_decide():
            raise unavailable("this member has lost its lease")
        self._holdings.served[rm_id] = owned
        log.info("took", rm=rm_id, epoch=owned.epoch, member=run.id)
        return owned.epoch

    def _elsewhere(self, owner: Member) -> Member:
        """The owner, unless it is a former run of this member, at this address.

        Raises:
            CallError: the owner is a former run, whose lease has to end first.
        """
        if owner.address == self._lease.me.address:
            raise unavailable("the lease of a former run at this address has not ended yet")
        return owner
