"""The store in etcd, API v3.

Keys, below the prefix of the deployment; ids and keys of documents are percent-encoded:

- `members/ID`: the published state of a member, under its lease.
- `rms/ID`: the record of an RM, without a lease.
- `shared/KEY`: a document that snapshots contain.
- `documents/KEY`: any other document.

A renewal counts only if the leader that has renewed the lease is still the leader afterwards: a leader that
was deposed without noticing may renew a lease that its successor ends. A linearizable read after the renewal
proves this, by the term in both answers. The same transaction reads the member's own key, and writes it if
there are changes to publish.

Revisions restart in a wiped or restored store, so equal revisions prove little. A record is therefore read
before it is replaced. A wipe between these steps removes the member's own key, on which the transaction of a
claim depends.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import structlog
from grpc import StatusCode

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination import etcd_connection as calls
from licorne_server.store.coordination.etcd_connection import Connect, EtcdConnection, Refused, connector
from licorne_server.store.coordination.etcd_snapshots import Keys, watch_snapshots
from licorne_server.store.coordination.pb import etcd_pb2 as pb
from licorne_server.store.coordination.records import (
    claimed,
    read_ownership,
    released,
    write_member,
    write_ownership,
)
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import Conflict, Document, StoreError
from licorne_server.store.documents.encoding import Unreadable

log = structlog.get_logger("core.members")

REREAD = 3.0
"""Seconds between two reads of the whole store, if there is no change."""

LOAD_EVERY = 10.0
"""Seconds between two publications of a member if only its load has changed."""

TRIES_OF_LEASE = 6
"""Attempts of a call that fit into a lease, so that a hung server leaves time for other servers."""

LONGEST_TRY = 5.0
"""Maximum seconds of an attempt."""

MOD = pb.Compare.Target.MOD
CREATE = pb.Compare.Target.CREATE
LEASE = pb.Compare.Target.LEASE


class EtcdStore(Store):
    """One member's access to etcd."""

    def __init__(
        self,
        options: Coordination,
        *,
        connect: Connect | None = None,
        reread: float = REREAD,
        patience: float = 0.0,
    ) -> None:
        """Start unconnected; the first call connects.

        `connect` makes channels, instead of those that the options describe. The store is read again after
        `reread` seconds. An attempt of a call has `patience` seconds, or a sixth of the lease if that is 0.

        Raises:
            SettingsError: one of the files for TLS cannot be read.
        """
        self.lease = options.lease
        self._reread = reread
        self._keys = Keys(options.prefix)
        patience = patience or min(options.lease / TRIES_OF_LEASE, LONGEST_TRY)
        self._etcd = EtcdConnection(options, connect or connector(options), patience)
        self._renewing = max(options.lease / 2, 2 * patience)
        self._me = MemberId("")
        self._lease_id = 0
        self._published: Member | None = None
        self._load_due = 0.0

    async def join(self, member: Member) -> None:
        """Grant a lease, and put the member's key under it."""
        granted = await self._etcd.call(calls.GRANT, pb.LeaseGrantRequest(TTL=math.ceil(self.lease)))
        await self._etcd.call(calls.PUT, self._put_member(member, granted.ID))
        self._me, self._lease_id = member.id, granted.ID
        self._note_published(member)

    async def renew(self, member: Member) -> None:
        """Renew the lease, and write the member if it has changed, but its load only from time to time."""
        if not self._lease_id:
            raise LeaseLost("the member has no lease")
        try:
            async with asyncio.timeout(self._renewing):
                while not await self._renewed(member):
                    pass
        except TimeoutError:
            raise StoreError(f"etcd has not renewed the lease in {self._renewing:g} s") from None

    async def _renewed(self, member: Member) -> bool:
        """True if the leader that renewed the lease was still the leader afterwards."""
        kept = await self._etcd.call(calls.KEEP_ALIVE, pb.LeaseKeepAliveRequest(ID=self._lease_id))
        if kept.TTL <= 0:
            raise self._lost()
        answer = await self._publish(member) if _is_due(member, self._published, self._load_due) else None
        if answer is None:
            # Without an operation etcd would treat the transaction as one that may read stale data.
            own = pb.RangeRequest(key=self._keys.member(self._me), keys_only=True)
            answer = await self._if_mine(pb.RequestOp(request_range=own))
        return answer.header.raft_term == kept.header.raft_term

    async def _publish(self, member: Member) -> pb.TxnResponse | None:
        """Write the member; None while etcd is full, when it accepts no writes but maintains leases."""
        put = self._put_member(member, self._lease_id)
        try:
            answer = await self._if_mine(pb.RequestOp(request_put=put))
        except Refused as refused:
            if refused.code is not StatusCode.RESOURCE_EXHAUSTED:
                raise
            self._load_due = asyncio.get_running_loop().time() + LOAD_EVERY
            if not self.trouble:
                log.warning("the store cannot be written", member=self._me, error=str(refused))
            self.trouble = f"the store cannot be written, and decisions continue: {refused}"
            return None
        self._note_published(member)
        return answer

    async def _if_mine(self, action: pb.RequestOp) -> pb.TxnResponse:
        """Carry out an operation if this member's key is under its lease.

        Raises:
            LeaseLost: the key is missing, or not under the lease.
        """
        request = pb.TxnRequest(compare=[self._is_mine()], success=[action])
        answer = await self._etcd.call(calls.TXN_AGAIN, request)
        if not answer.succeeded:
            raise self._lost()
        return answer

    async def leave(self) -> None:
        """Revoke the lease, which removes the member's key as well."""
        if self._lease_id:
            await _revoke(self._etcd, self._lease_id)
            self._lease_id = 0

    async def evict(self, member: MemberId) -> None:
        """Revoke the lease of the member's key."""
        own = pb.RangeRequest(key=self._keys.member(member), keys_only=True)
        answer = await self._etcd.call(calls.RANGE, own)
        for found in answer.kvs:
            await _revoke(self._etcd, found.lease)

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """Write the new record in one transaction, with all conditions."""
        record = claimed(rm_id, owner, seen, at_least, self._me, time.time())
        if not self._lease_id:
            raise Conflict(f"RM {rm_id!r} is claimed by a member without a lease")
        key = self._keys.rm(rm_id)
        await self._check_record(rm_id, seen)
        compare = [_at_revision(key, seen.revision if seen else 0), self._is_mine()]
        if seen is not None and seen.owner not in {"", self._me}:
            gone = pb.Compare(target=CREATE, key=self._keys.member(seen.owner), create_revision=0)
            compare.append(gone)
        if owner != self._me:
            lives = pb.Compare(target=CREATE, key=self._keys.member(owner), create_revision=0)
            lives.result = pb.Compare.Result.NOT_EQUAL
            compare.append(lives)
        revision = await self._write(
            compare,
            _put(key, write_ownership(record)),
            f"the record of RM {rm_id!r} is another one by now, its owner lives, "
            f"or {owner!r} or {self._me!r} has no lease",
        )
        return replace(record, revision=revision)

    async def release(self, owned: Ownership) -> Ownership:
        """Write the record without its owner."""
        record = released(owned, self._me)
        await self._check_record(owned.rm_id, owned)
        key = self._keys.rm(owned.rm_id)
        revision = await self._write(
            [_at_revision(key, owned.revision)],
            _put(key, write_ownership(record)),
            f"the record of RM {owned.rm_id!r} is another one by now",
        )
        return replace(record, revision=revision)

    def watch(self) -> AsyncIterator[Snapshot]:
        """Read the store immediately, after each change seen by a watch, and every few seconds."""
        return watch_snapshots(self._etcd, self._keys, self._reread)

    async def read(self, key: str) -> Document:
        """The value and the revision of the key."""
        answer = await self._etcd.call(calls.RANGE, pb.RangeRequest(key=self._keys.document(key)))
        for found in answer.kvs:
            return Document(value=found.value, revision=found.mod_revision)
        return Document()

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Write or remove the key, in one transaction with the check of its revision."""
        self.check_size(key, value)
        stored = self._keys.document(key)
        if value is None:
            action = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=stored))
        else:
            action = _put(stored, value)
        written = await self._write(
            [_at_revision(stored, revision)], action, f"document {key!r} has not the revision {revision}"
        )
        return 0 if value is None else written

    async def close(self) -> None:
        """Close the connections."""
        await self._etcd.close()

    async def _check_record(self, rm_id: RmId, seen: Ownership | None) -> None:
        """Refuse to replace another record, which may have the same revision.

        Raises:
            Conflict: the record is not the one that was seen.
        """
        if seen is None:
            return
        answer = await self._etcd.call(calls.RANGE, pb.RangeRequest(key=self._keys.rm(rm_id)))
        try:
            found = [read_ownership(rm_id, one.value, one.mod_revision) for one in answer.kvs]
        except Unreadable as error:
            raise Conflict(f"the record of RM {rm_id!r} is not understood: {error}") from None
        if found != [seen]:
            raise Conflict(f"the record of RM {rm_id!r} is another one by now")

    async def _write(self, compare: list[pb.Compare], action: pb.RequestOp, otherwise: str) -> int:
        """Carry out an operation if all comparisons hold; returns its revision, or raises Conflict."""
        answer = await self._etcd.call(calls.TXN, pb.TxnRequest(compare=compare, success=[action]))
        if not answer.succeeded:
            raise Conflict(otherwise)
        return answer.header.revision

    def _put_member(self, member: Member, lease_id: int) -> pb.PutRequest:
        return pb.PutRequest(key=self._keys.member(member.id), value=write_member(member), lease=lease_id)

    def _is_mine(self) -> pb.Compare:
        """A comparison that holds while this member's key is under its lease."""
        return pb.Compare(target=LEASE, key=self._keys.member(self._me), lease=self._lease_id)

    def _note_published(self, member: Member) -> None:
        self._published = member
        self._load_due = asyncio.get_running_loop().time() + LOAD_EVERY
        if self.trouble:
            log.info("the store can be written again", member=member.id)
        self.trouble = ""

    def _lost(self) -> LeaseLost:
        self._lease_id = 0
        return LeaseLost(f"the lease of {self._me!r} has ended, or its key was removed")


def _at_revision(key: bytes, revision: int) -> pb.Compare:
    """A comparison that holds while the key has this revision; 0 stands for a missing key."""
    return pb.Compare(target=MOD, key=key, mod_revision=revision)


def _put(key: bytes, value: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))


def _is_due(member: Member, published: Member | None, load_due: float) -> bool:
    """True if this renewal has to write the member; a change of only its load waits until `load_due`."""
    assert published is not None
    if replace(member, load={}) != replace(published, load={}):
        return True
    return member.load != published.load and asyncio.get_running_loop().time() >= load_due


async def _revoke(etcd: EtcdConnection, lease_id: int) -> None:
    try:
        await etcd.call(calls.REVOKE, pb.LeaseRevokeRequest(ID=lease_id))
    except Refused as refused:
        # The lease has already ended.
        if refused.code is not StatusCode.NOT_FOUND:
            raise


STORE = EtcdStore
