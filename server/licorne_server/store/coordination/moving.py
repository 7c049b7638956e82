"""Voluntary moves of RMs: for balance, and away from a member that drains.

A move has three steps: hold and drain the RM (`Ownership.on_handover`), claim it for its new owner, and only
then redirect it, when it reconnects. For balance one RM moves at a time in the deployment, and with pauses,
so that the loads show the effect of the last move. A shared document under compare-and-set is the guard,
which is valid while the lease of its holder is. A drain moves the RMs of one member one by one, and needs no
guard.
"""

import asyncio
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random

import structlog

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.claiming import Claiming, Holdings
from licorne_server.store.coordination.lease import Lease, MemberClock, StoreCalls
from licorne_server.store.coordination.ownership import DRAIN
from licorne_server.store.coordination.placing import REST, candidates, choose, next_move
from licorne_server.store.coordination.snapshots import Snapshots
from licorne_server.store.coordination.store import Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import SHARED, Conflict, Document, StoreError
from licorne_server.store.documents.encoding import Amount, Unreadable, decode, encode

log = structlog.get_logger("core.members")

MOVES = f"{SHARED}moves"
"""Key of the document that guards moves for balance."""

PAUSE = 60.0
"""Seconds between two moves for balance in the deployment."""

TICK = 1.0
"""Seconds between two checks for RMs to move."""

FREE_SECONDS = 60.0
"""Seconds until RMs of a departed member that is not missed are freed: most have another owner by then."""

MOST_FREED = 50
"""Maximum number of RMs of departed members that are freed in one check."""

TRIES = 3
"""Number of attempts to claim an RM for its new owner, before the RM is left without an owner."""


@dataclass(frozen=True, slots=True)
class Guard:
    """The document that guards moves for balance."""

    holder: str = ""
    """Id of the member that is moving an RM; empty if there is none."""
    since: Amount = 0.0
    """Unix time of the last move."""
    rms: dict[str, Amount] = field(default_factory=dict)
    """Recently moved RMs, each with the unix time of its move."""

    @classmethod
    def read(cls, document: Document) -> "Guard":
        """Decode the guard in a document; an empty one if the document is missing or damaged."""
        try:
            return decode(document.value or b"{}", cls)
        except Unreadable as error:
            log.warning("a document is not understood", key=MOVES, error=str(error))
            return cls()

    def taken(self, holder: MemberId, rm_id: RmId, now: float) -> "Guard":
        """The guard while `holder` moves the RM, without the RMs that may move again."""
        rms = {rm: moved for rm, moved in self.rms.items() if 0 <= now - moved < REST}
        return Guard(holder, now, rms | {rm_id: now})

    def written(self, holder: str) -> bytes:
        """The content of the document with this holder."""
        return encode(replace(self, holder=holder))


class Moves:
    """Moves RMs of this member to others."""

    def __init__(
        self,
        store: Store,
        clock: MemberClock,
        randomness: Random,
        lease: Lease,
        snapshots: Snapshots,
        holdings: Holdings,
        claiming: Claiming,
    ) -> None:
        """Create the object; `run` begins to move RMs."""
        self._store = store
        self._call = StoreCalls(store)
        self._clock = clock
        self._randomness = randomness
        self._lease = lease
        self._snapshots = snapshots
        self._holdings = holdings
        self._claiming = claiming
        # True while this member drains because a document requests it.
        self._is_told = False

    async def run(self) -> None:
        """Drain or balance whenever RMs have to be moved. Never returns."""
        while True:
            await asyncio.sleep(TICK * self._randomness.uniform(0.5, 1.0))
            try:
                if self._lease.me.draining:
                    await self.drain()
                elif self._lease.may_decide():
                    await self._free()
                    await self._balance()
            except Conflict as error:
                log.info("another member was faster", error=str(error))
            except StoreError as error:
                log.warning("a move has failed", error=str(error))

    def heed(self, snapshot: Snapshot) -> None:
        """Begin or end a drain, as the document for this member requests."""
        is_told = f"{DRAIN}{self._lease.me.name}" in snapshot.documents
        if is_told != self._is_told:
            self._is_told = is_told
            log.info("drains" if is_told else "drains no more", member=self._lease.me.id)
            self._lease.publish(draining=is_told)

    async def drain(self) -> None:
        """Hand all RMs over to the other members, one by one. Without other members the RMs stay here."""
        for rm_id in sorted(self._holdings.served):
            if not self._others():
                return
            await self.hand_over(rm_id, None, "this member drains")

    async def give_up(self) -> None:
        """Hand all RMs over at once, or else leave them without an owner."""
        given = (self.hand_over(rm_id, None, "this member stops") for rm_id in list(self._holdings.served))
        for outcome in await asyncio.gather(*given, return_exceptions=True):
            if isinstance(outcome, StoreError):
                log.warning("an RM was not handed over", error=str(outcome))
            elif isinstance(outcome, BaseException):
                raise outcome

    async def hand_over(self, rm_id: RmId, target: Member | None, reason: str) -> None:
        """Drain an RM, then claim it for the target, or for a member that `placing` chooses.

        Raises:
            StoreError: the store does not answer; the RM is not served until it reconnects.
        """
        async with self._holdings.lock(rm_id):
            owned = self._holdings.served.get(rm_id)
            if owned is None:
                return
            self._holdings.end(rm_id, reason, in_order=True)
            await self._holdings.ended(rm_id)
            await self._give(owned, target)

    async def _give(self, owned: Ownership, target: Member | None) -> None:
        rm_id = owned.rm_id
        for _ in range(TRIES):
            target = target or choose(rm_id, self._others())
            try:
                if target is None:
                    await self._call(self._store.release(owned))
                else:
                    await self._claiming.claim(rm_id, target, owned, owned.epoch)
            except Conflict:
                found = (await self._snapshots.afresh()).rms.get(rm_id)
                if found is None or found.owner != owned.owner:
                    return
                owned, target = found, None
            else:
                self._lease.count_move()
                log.info("handed over", rm=rm_id, owner=target.id if target else "")
                return

    async def _free(self) -> None:
        """Remove the owners of RMs whose member has departed and is not missed; one member does this for all.

        The RM is claimed first, which succeeds only while its owner has no lease. It gets a new owner when it
        connects.
        """
        snapshot, me, before = self._snapshots.latest, self._lease.me, self._clock.unix() - FREE_SECONDS
        gone = self._snapshots.gone
        over = {member_id for member_id, one in gone.items() if one.is_over and one.since <= before}
        if not over or min(member.id for member in candidates(snapshot, me)) != me.id:
            return
        left = (record for record in snapshot.rms.values() if record.owner in over)
        for record in islice(left, MOST_FREED):
            async with self._holdings.lock(record.rm_id):
                owned = await self._claiming.claim(record.rm_id, me, record, record.epoch)
                await self._call(self._store.release(owned))
            log.info("freed", rm=record.rm_id, owner=record.owner)

    async def _balance(self) -> None:
        """Move one RM, if this member has the highest load and no other member is moving one."""
        snapshot, me, now = self._snapshots.latest, self._lease.me, self._clock.unix()
        document = snapshot.documents.get(MOVES, Document())
        guard = Guard.read(document)
        is_held = guard.holder != me.id and MemberId(guard.holder) in snapshot.members
        if is_held or 0 <= now - guard.since < PAUSE:
            return
        movable = {rm_id: guard.rms.get(rm_id, 0.0) for rm_id in self._holdings.served}
        move = next_move(candidates(snapshot, me), me.id, movable, now)
        if move is None:
            return
        guard = guard.taken(me.id, move.rm_id, now)
        set_to = self._store.compare_and_set
        revision = await self._call(set_to(MOVES, guard.written(me.id), document.revision))
        try:
            await self.hand_over(move.rm_id, move.target, f"its place is {move.target.name} now")
        finally:
            await self._call(set_to(MOVES, guard.written(""), revision))

    def _others(self) -> list[Member]:
        me = self._lease.me
        return [member for member in candidates(self._snapshots.latest, me) if member.id != me.id]
