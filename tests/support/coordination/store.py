"""A model of etcd, without processes: leases by its own clock, records under compare-and-set.

Its faults: leases are prolonged by a restart, watches lose events, stale reads return an older state,
requests and answers are late or lost, a lease is removed, and all data are lost or replaced by an older copy.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.lease import StoreCalls
from licorne_server.store.coordination.ownership import DRAIN
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import SHARED, Conflict, Document, StoreError
from support.coordination.loops import MemberLoop, Time

if TYPE_CHECKING:
    from support.coordination.network import Network

T = TypeVar("T")

REREAD = 3.0
"""Seconds between two complete reads."""
KEPT = 12
"""The number of older states that stale reads may return."""


@dataclass(slots=True)
class _Lease:
    member: Member
    ends: float


class StoreModel:
    """The servers of the store, modelled as one."""

    def __init__(self, time: Time, randomness: Random, lease: float, rate: float) -> None:
        """Create a store with leases of this number of seconds, by a clock of this rate."""
        self.time = time
        self.lease = lease
        self._randomness = randomness
        self._rate = rate
        self._leases: dict[MemberId, _Lease] = {}
        self._rms: dict[RmId, Ownership] = {}
        self._documents: dict[str, Document] = {}
        self._revision = 0
        self._snapshot = Snapshot()
        self._history: deque[Snapshot] = deque(maxlen=KEPT)
        self.watchers: dict[Watcher, None] = {}
        self.on_document: Callable[[str, Document], None] = lambda key, document: None
        """Called with each written document."""
        self.is_down = False
        self.looks_at_leases = True
        """False plants a defect: claims take RMs from living owners."""
        self.rereads = True
        """False plants a defect: a watch with lost events is trusted."""

    @property
    def snapshot(self) -> Snapshot:
        """The present state."""
        return self._snapshot

    def older(self) -> Snapshot:
        """A random earlier state."""
        return self._randomness.choice(self._history) if self._history else self._snapshot

    def join(self, member: Member) -> None:
        """Grant a lease to a new run of a member."""
        lease = self._leases[member.id] = _Lease(member, self._end_of_lease())
        self._watch_lease(lease)
        self._changed()

    def renew(self, member: Member) -> None:
        """Prolong the lease."""
        lease = self._leases.get(member.id)
        if lease is None:
            raise LeaseLost("there is no such lease")
        lease.ends = self._end_of_lease()
        if lease.member != member:
            lease.member = member
            self._changed()

    def leave(self, member: MemberId) -> None:
        """End a lease, for the member or for an operator who removes it."""
        if self._leases.pop(member, None) is not None:
            self._changed()

    def claim(
        self, by: MemberId, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int
    ) -> Ownership:
        """See `Store.claim`."""
        present = self._rms.get(rm_id)
        if present != seen:
            raise Conflict("the record is another one")
        if by not in self._leases or owner not in self._leases:
            raise Conflict("a member has no lease")
        is_free = present is None or present.owner == by or present.owner not in self._leases
        if not is_free and self.looks_at_leases:
            raise Conflict("the owner lives")
        epoch = max(present.epoch if present else 0, at_least) + 1
        return self._write(Ownership(rm_id=rm_id, owner=owner, epoch=epoch))

    def release(self, owned: Ownership) -> Ownership:
        """See `Store.release`."""
        if self._rms.get(owned.rm_id) != owned:
            raise Conflict("the record is another one")
        return self._write(replace(owned, owner=MemberId("")))

    def read(self, key: str) -> Document:
        """See `Store.read`."""
        return self._documents.get(key, Document())

    def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """See `Store.compare_and_set`."""
        if self.read(key).revision != revision:
            raise Conflict("the document is another one")
        self._revision += 1
        if value is None:
            self._documents.pop(key, None)
        else:
            self._documents[key] = Document(value=value, revision=self._revision)
            self.on_document(key, self._documents[key])
        self._changed()
        return self._revision

    def drain(self, name: str, *, draining: bool) -> None:
        """Begin or end the drain of a member, like an operator."""
        key = DRAIN + name
        document = self.read(key)
        if draining or document.revision:
            self.compare_and_set(key, b"{}" if draining else None, document.revision)

    def restart(self) -> None:
        """Prolong all leases; a restart also cuts watches, which is modelled by lost events."""
        self.is_down = False
        for lease in self._leases.values():
            lease.ends = self._end_of_lease()

    def wipe(self, kept: Snapshot) -> None:
        """Replace all data by records and documents of an older state, which may be empty."""
        self._leases.clear()
        self._rms = dict(kept.rms)
        self._documents = dict(kept.documents)
        revisions = [record.revision for record in self._rms.values()]
        revisions += [document.revision for document in self._documents.values()]
        self._revision = max(revisions, default=0)
        self._changed()

    def _write(self, record: Ownership) -> Ownership:
        self._revision += 1
        record = self._rms[record.rm_id] = replace(record, revision=self._revision)
        self._changed()
        return record

    def _end_of_lease(self) -> float:
        return self.time.now + self.lease / self._rate

    def _watch_lease(self, lease: _Lease) -> None:
        """End a lease that was not renewed, up to half a second late."""
        if self._leases.get(lease.member.id) is not lease:
            return
        if self.time.now >= lease.ends and not self.is_down:
            self.leave(lease.member.id)
            return
        late = self._randomness.choice((0.0, 0.0, 0.5))
        self.time.after(max(0.1, lease.ends - self.time.now) + late, self._watch_lease, lease)

    def _changed(self) -> None:
        self._history.append(self._snapshot)
        self._snapshot = Snapshot(
            members={name: lease.member for name, lease in self._leases.items()},
            rms=dict(self._rms),
            documents={key: each for key, each in self._documents.items() if key.startswith(SHARED)},
        )
        for watcher in list(self.watchers):
            watcher.changed()


class Watcher:
    """One watch of a member: events that may be lost, and a complete read at intervals."""

    def __init__(self, store: StoreModel, network: "Network", loop: MemberLoop) -> None:
        """Watch from now on."""
        self._store = store
        self._network = network
        self._loop = loop
        self._snapshot: Snapshot | None = None
        self._future: asyncio.Future[None] | None = None
        if store.rereads:
            store.time.after(REREAD, self._reread)

    async def next(self) -> Snapshot:
        """The latest delivered snapshot; earlier ones are skipped."""
        while self._snapshot is None:
            self._future = self._loop.create_future()
            await self._future
        snapshot, self._snapshot = self._snapshot, None
        return snapshot

    def changed(self) -> None:
        """Deliver an event, unless it is lost."""
        if not self._network.loses_event():
            self._network.tell(self._take, self._store.snapshot)

    def _reread(self) -> None:
        if self in self._store.watchers:
            self._network.tell(self._take, self._network.read())
            self._store.time.after(REREAD, self._reread)

    def _take(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if self._future is not None and not self._future.done():
            self._future.set_result(None)


class ModelStore(Store):
    """A member's access to the model, over a network."""

    def __init__(self, model: StoreModel, network: "Network", loop: MemberLoop) -> None:
        """Create it without a lease."""
        self.lease = model.lease
        self._model = model
        self._network = network
        self._loop = loop
        self._me = MemberId("")
        # Readers and writers of documents rely on the store's own time-outs.
        self._call = StoreCalls(self)

    async def join(self, member: Member) -> None:
        """Obtain a lease under the member's id."""
        self._me = member.id
        await self._ask(lambda: self._model.join(member))

    async def renew(self, member: Member) -> None:
        """Renew the lease, and publish the member."""
        await self._ask(lambda: self._model.renew(member))

    async def leave(self) -> None:
        """End the lease."""
        me = self._me
        await self._ask(lambda: self._model.leave(me))

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """Claim an RM for this member or another one."""
        me = self._me
        return await self._ask(lambda: self._model.claim(me, rm_id, owner, seen, at_least))

    async def release(self, owned: Ownership) -> Ownership:
        """Release an RM of this member."""
        return await self._ask(lambda: self._model.release(owned))

    async def watch(self) -> AsyncIterator[Snapshot]:
        """Yield a read, and then the delivered snapshots."""
        watcher = Watcher(self._model, self._network, self._loop)
        self._model.watchers[watcher] = None
        try:
            yield await self._first()
            while True:
                yield await watcher.next()
        finally:
            del self._model.watchers[watcher]

    async def read(self, key: str) -> Document:
        """Read one document."""
        return await self._call(self._ask(lambda: self._model.read(key)))

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Write one document, if its revision is the given one."""
        return await self._call(self._ask(lambda: self._model.compare_and_set(key, value, revision)))

    async def close(self) -> None:
        """Do nothing."""

    async def _first(self) -> Snapshot:
        while True:
            try:
                async with asyncio.timeout(1.0):
                    return await self._ask(self._network.read)
            except TimeoutError:
                continue

    async def _ask(self, operation: Callable[[], T]) -> T:
        """Carry out an operation on the store; wait for ever if the request or the answer is lost."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def answer(result: object, error: StoreError | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self._network.ask(operation, answer)
        result: T = await future
        return result
