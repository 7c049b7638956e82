"""One of several members that share the RMs of a deployment.

`lease` has the proof that no two members decide for one RM. `claiming` finds the owner of an RM, `moving`
gives RMs away, `placing` chooses their new owners. Snapshots of the store are only hints: an RM is served
only after this member's own claim, and is lost with the lease, or when a newer record names another owner.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random

import structlog

from licorne_core.values.ids import RmId
from licorne_server.process.loop import stop_task
from licorne_server.store.coordination.claiming import Claiming, Holdings
from licorne_server.store.coordination.lease import Lease, MemberClock, StoreCalls
from licorne_server.store.coordination.moving import Moves
from licorne_server.store.coordination.ownership import Counts, Ownership, check_epoch
from licorne_server.store.coordination.snapshots import Snapshots, is_taken, owner_in
from licorne_server.store.coordination.store import Member, MemberId, Snapshot, Store
from licorne_server.store.coordination.store import Ownership as Record
from licorne_server.store.documents.documents import StoreError

log = structlog.get_logger("core.members")


class Membership(Ownership):
    """A member: its lease, its RMs, and the owners of all other RMs."""

    def __init__(
        self,
        store: Store,
        me: Member,
        clock: MemberClock,
        randomness: Random,
        load: Callable[[], Mapping[RmId, float]],
        *,
        renew: float = 1.0,
    ) -> None:
        """`me` is published under new ids; `renew` is in seconds.

        `load` returns the CPU of each RM that is served here over the last minutes, in cores. The store
        determines the duration of the lease.
        """
        self.store: Store = store
        self._call = StoreCalls(store)
        self._holdings = Holdings(self._lost, self._handed_over)
        self._lease = Lease(store, me, clock, randomness, load, renew=renew, end_all=self._holdings.end_all)
        self._snapshots = Snapshots(store, self._heed, clock.unix)
        self.gone = self._snapshots.gone
        self._claiming = Claiming(store, clock, randomness, self._lease, self._snapshots, self._holdings)
        self._moves = Moves(
            store, clock, randomness, self._lease, self._snapshots, self._holdings, self._claiming
        )
        self._tasks: list[asyncio.Task[None]] = []
        self._doubt: asyncio.Task[None] | None = None
        self._forgetting: set[asyncio.Task[None]] = set()

    async def start(self, address: str, http: str) -> None:
        """Join, and follow the other members. `on_lost` must be set."""
        self._lease.publish_at(address, http)
        loop = asyncio.get_running_loop()
        for work in (self._lease.run(), self._snapshots.run(), self._moves.run()):
            task = loop.create_task(work, name="member")
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report an end of a task that `stop` did not cause: then the lease or the snapshots are lost."""
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("member failed", member=self.me(), exc_info=error)
            self.on_failure(f"member failed: {type(error).__name__}")

    async def joined(self) -> None:
        """Wait for a lease, but no longer than the duration of a lease."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.store.lease):
                await self._lease.joined.wait()

    async def stop(self) -> None:
        """Hand all RMs over, or release them, then leave; takes at most a lease and `on_lost`."""
        self._lease.publish(draining=True)
        try:
            async with asyncio.timeout(self.store.lease):
                await self._moves.give_up()
        except TimeoutError:
            log.warning("not all RMs were handed over in time")
        await self._holdings.end_all("this member stops")
        for task in (*self._tasks, self._doubt, *self._forgetting):
            await stop_task(task)
        await self._lease.leave()

    def may_decide(self) -> bool:
        """True while the lease is certainly valid."""
        return self._lease.may_decide()

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """Serve the RM here, or find or choose its owner. See `Ownership.take`.

        The epoch is valid when this returns: a caller has to record that it serves the RM before it
        awaits anything else, so that `on_lost` finds it.
        """
        check_epoch(named)
        return await self._claiming.take(rm_id, named)

    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that serves the RM, by the last snapshot."""
        owner = owner_in(self.snapshot(), self.snapshot().rms.get(rm_id))
        is_other = owner is not None and owner.id != self._lease.me.id and rm_id not in self._holdings.served
        return owner if is_other else None

    def snapshot(self) -> Snapshot:
        """Members and owners by the last snapshot."""
        return self._snapshots.latest

    def forget(self, rm_id: RmId) -> None:
        """Release the RM; its record keeps the epoch.

        If the store does not answer, this member remains the owner.

        From now on the RM is not served, and a later `take` makes a new claim.
        """
        owned = self._holdings.served.pop(rm_id, None)
        if owned is not None:
            task = asyncio.get_running_loop().create_task(self._release(owned), name=f"forget {rm_id}")
            self._forgetting.add(task)
            task.add_done_callback(self._forgetting.discard)

    async def _release(self, owned: Record) -> None:
        try:
            async with self._holdings.lock(owned.rm_id):
                await self._call(self.store.release(owned))
        except StoreError as error:
            log.info("a forgotten RM was not released", rm=owned.rm_id, error=str(error))

    def epoch(self, rm_id: RmId) -> int:
        """The epoch under which the RM is served here; 0 if it is not."""
        served = self._holdings.served.get(rm_id)
        return 0 if served is None else served.epoch

    def me(self) -> MemberId:
        """Id of this run of the member."""
        return self._lease.me.id

    def problem(self) -> str:
        """The current problem with the store, for people; empty if there is none."""
        return self._lease.problem

    def counts(self) -> Counts:
        """Counts of this member's actions."""
        return self._lease.counts

    def _heed(self, snapshot: Snapshot) -> None:
        """Apply the changes in a snapshot that concern this member."""
        if self.me() not in snapshot.members:
            self._lease.hurry()
        self._moves.heed(snapshot)
        missing = False
        for rm_id, served in list(self._holdings.served.items()):
            record = snapshot.rms.get(rm_id)
            missing = missing or record is None
            if record is not None and is_taken(served, record):
                self._lose(rm_id, f"it belongs to member {record.owner!r}, epoch {record.epoch}")
        if missing and (self._doubt is None or self._doubt.done()):
            self._doubt = asyncio.get_running_loop().create_task(self._look_again())

    async def _look_again(self) -> None:
        """End RMs whose record was removed, after a new read, as an old snapshot proves nothing."""
        served = dict(self._holdings.served)
        try:
            snapshot = await self._snapshots.afresh()
        except StoreError:
            return
        for rm_id, owned in served.items():
            if rm_id not in snapshot.rms and self._holdings.served.get(rm_id) is owned:
                self._lose(rm_id, "its record was removed")

    async def _handed_over(self, rm_id: RmId, reason: str) -> None:
        await self.on_handover(rm_id, reason)

    async def _lost(self, rm_id: RmId, reason: str) -> None:
        await self.on_lost(rm_id, reason)

    def _lose(self, rm_id: RmId, reason: str) -> None:
        log.warning("lost", rm=rm_id, member=self.me(), reason=reason)
        self._holdings.end(rm_id, reason)
