"""The records of the backend `local`: leases, owners of RMs and documents, in memory.

No I/O and no clock: every call that needs the time is given it, in unix seconds that never go back. The
end of a lease is noticed by the next call.
"""

from collections.abc import Mapping
from dataclasses import replace

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.store import (
    MAX_DOCUMENT,
    SHARED,
    Conflict,
    Document,
    LeaseLost,
    Member,
    MemberId,
    Ownership,
    Snapshot,
    StoreError,
)

MAX_MEMBERS = 1_024
"""Members with a living lease, at most."""

MAX_RECORDS = 65_536
"""Records of RMs, at most. Of those without an owner the one that was released first goes then."""

MAX_DOCUMENTS = 65_536
MAX_BYTES = 512 * 1024 * 1024
"""Bytes of all documents with their keys, at most."""

MAX_NAME = 1_024
"""Characters of a key, at most."""


class Records:
    """Members with their leases, records of RMs, and documents."""

    changes: int
    """Rises with every change that watchers are told of at once. A member's load is none."""

    def __init__(self, start: int = 0) -> None:
        """Start empty. Epochs, revisions and changes are above `start`."""
        self.changes = start + 1
        self._least_epoch = start
        self._revision = start
        self._members: dict[MemberId, Member] = {}
        # Seconds of each lease, and when it ends.
        self._leases: dict[MemberId, float] = {}
        self._ends: dict[MemberId, float] = {}
        self._rms: dict[RmId, Ownership] = {}
        # RMs without an owner, the one that was released first first.
        self._free: dict[RmId, None] = {}
        self._documents: dict[str, Document] = {}
        self._bytes = 0

    def join(self, member: Member, lease: float, now: float) -> None:
        """Publish the member under a new lease of so many seconds.

        Raises:
            StoreError: there are too many members.
        """
        self.expire(now)
        if member.id not in self._members and len(self._members) >= MAX_MEMBERS:
            raise StoreError(f"there are {MAX_MEMBERS} members already")
        self._leases[member.id] = lease
        self._put(member, now)

    def renew(self, member: Member, now: float) -> None:
        """Renew the lease, and publish the member as it is now.

        Raises:
            LeaseLost: the lease has ended.
        """
        self.expire(now)
        if member.id not in self._members:
            raise LeaseLost(f"the lease of member {member.id} has ended")
        self._put(member, now)

    def end(self, member_id: MemberId) -> None:
        """End the lease of a member, if it has one."""
        if self._members.pop(member_id, None) is not None:
            del self._ends[member_id], self._leases[member_id]
            self.changes += 1

    def expire(self, now: float) -> None:
        """End the leases that were not renewed in time."""
        for member_id in [member_id for member_id, end in self._ends.items() if end <= now]:
            self.end(member_id)

    def next_end(self) -> float | None:
        """Time at which the next lease ends if it is not renewed; None without members."""
        return min(self._ends.values(), default=None)

    def claim(
        self,
        by: MemberId,
        rm_id: RmId,
        owner: MemberId,
        seen: Ownership | None,
        at_least: int,
        now: float,
    ) -> Ownership:
        """Make a member the owner of an RM, for the member `by`; see `Store.claim`.

        Raises:
            Conflict: a condition of the claim does not hold.
        """
        self.expire(now)
        record = self._rms.get(rm_id)
        if (seen.revision if seen else 0) != (record.revision if record else 0):
            raise Conflict(f"the record of RM {rm_id} is another one by now")
        for member_id in (by, owner):
            if member_id not in self._members:
                raise Conflict(f"member {member_id} has no lease")
        if record is not None and record.owner != by and record.owner in self._members:
            raise Conflict(f"RM {rm_id} is owned by member {record.owner}")
        if record is None:
            self._make_room()
        epoch = max(record.epoch if record else self._least_epoch, at_least) + 1
        moved = record.moved if record else 0.0
        if record is not None and record.owner == by != owner:
            moved = now
        return self._set(Ownership(rm_id=rm_id, owner=owner, epoch=epoch, moved=moved))

    def release(self, by: MemberId, owned: Ownership) -> Ownership:
        """Leave an RM of the member `by` without an owner; its epoch stays.

        Raises:
            Conflict: the record is another one by now, or one of another member.
        """
        record = self._rms.get(owned.rm_id)
        if record is None or record.revision != owned.revision or not record.owner == by != "":
            raise Conflict(f"the record of RM {owned.rm_id} is another one by now")
        return self._set(replace(record, owner=MemberId("")))

    def read(self, key: str) -> Document:
        """The document of the key."""
        return self._documents.get(key, Document())

    def load(self, documents: Mapping[str, Document]) -> None:
        """Add documents of an earlier run, before there are any.

        Raises:
            StoreError: there is no room for them.
        """
        for key, document in documents.items():
            self._bytes += self._growth(key, document.value)
            self._documents[key] = document
            self._revision = max(self._revision, document.revision)

    def check(self, key: str, value: bytes | None, revision: int) -> None:
        """Find out if `compare_and_set` of the same would succeed now, and raise what it would raise."""
        if value is not None and len(value) > MAX_DOCUMENT:
            raise ValueError(f"a document may have {MAX_DOCUMENT} bytes, and {key!r} has {len(value)}")
        if len(key) > MAX_NAME:
            raise ValueError(f"a key may have {MAX_NAME} characters, not {len(key)}")
        before = self.read(key)
        if before.revision != revision:
            raise Conflict(f"document {key!r} has revision {before.revision}, not {revision}")
        self._growth(key, value)

    def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document of that revision; returns the new one, see `Store.compare_and_set`.

        Raises:
            Conflict: the document has another revision.
            ValueError: the value or the key is too large.
            StoreError: there is no room for it.
        """
        self.check(key, value, revision)
        self._bytes += self._growth(key, value)
        self._revision += 1
        if key.startswith(SHARED):
            self.changes += 1
        if value is None:
            self._documents.pop(key, None)
            return 0
        self._documents[key] = Document(value=value, revision=self._revision)
        return self._revision

    def snapshot(self, now: float) -> Snapshot:
        """Members with a living lease, all owners, and the shared documents."""
        self.expire(now)
        shared = {key: value for key, value in self._documents.items() if key.startswith(SHARED)}
        return Snapshot(members=dict(self._members), rms=dict(self._rms), documents=shared)

    def _put(self, member: Member, now: float) -> None:
        before = self._members.get(member.id)
        if before is None or replace(before, load={}) != replace(member, load={}):
            self.changes += 1
        self._members[member.id] = member
        self._ends[member.id] = now + self._leases[member.id]

    def _set(self, record: Ownership) -> Ownership:
        self._revision += 1
        record = self._rms[record.rm_id] = replace(record, revision=self._revision)
        self._free.pop(record.rm_id, None)
        if not record.owner:
            self._free[record.rm_id] = None
        self.changes += 1
        return record

    def _make_room(self) -> None:
        """Drop a record without an owner if there are too many; no epoch comes a second time."""
        if len(self._rms) < MAX_RECORDS:
            return
        oldest = next(iter(self._free), None)
        if oldest is None:
            raise StoreError(f"there are {MAX_RECORDS} RMs already")
        del self._free[oldest]
        self._least_epoch = max(self._least_epoch, self._rms.pop(oldest).epoch)

    def _growth(self, key: str, value: bytes | None) -> int:
        """Bytes by which the new document adds to all of them.

        Raises:
            StoreError: there is no room for it.
        """
        before = self._documents.get(key)
        freed = 0 if before is None else len(key) + len(before.value)
        needed = 0 if value is None else len(key) + len(value)
        if needed > freed and self._bytes - freed + needed > MAX_BYTES:
            raise StoreError(f"the documents would have more than {MAX_BYTES} bytes")
        if before is None and value is not None and len(self._documents) >= MAX_DOCUMENTS:
            raise StoreError(f"there are {MAX_DOCUMENTS} documents already")
        return needed - freed
