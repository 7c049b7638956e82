"""The records of the backend `local`: leases and owners of RMs, in memory.

No I/O and no clock: calls that need the time get it, in unix seconds that never decrease. The
end of a lease is noticed by the next call.
"""

from dataclasses import replace

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.records import claimed, released
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot
from licorne_server.store.documents.documents import Conflict, StoreError

MAX_MEMBERS = 1_024
"""Members with a living lease, at most."""

MAX_RECORDS = 65_536
"""Records of RMs, at most. Beyond that the one without an owner that was released first is removed."""


class Records:
    """Members with their leases, and records of RMs."""

    changes: int
    """Rises with every change of which watchers are notified at once; a member's load is no such change."""

    def __init__(self, start: int = 0) -> None:
        """Start empty; see `begin`."""
        self.begin(start)
        self._members: dict[MemberId, Member] = {}
        # Duration of each lease in seconds, and the time of its end.
        self._leases: dict[MemberId, float] = {}
        self._ends: dict[MemberId, float] = {}
        self._rms: dict[RmId, Ownership] = {}
        # RMs without an owner, in order of release.
        self._free: dict[RmId, None] = {}

    def begin(self, start: int) -> None:
        """Assign epochs, revisions and changes above `start`; to be called before there are any records."""
        self.changes = start + 1
        self._least_epoch = start
        self._revision = start

    def join(self, member: Member, lease: float, now: float) -> None:
        """Publish the member under a new lease of `lease` seconds.

        Raises:
            StoreError: there are too many members.
        """
        self.expire(now)
        if member.id not in self._members and len(self._members) >= MAX_MEMBERS:
            raise StoreError(f"there are {MAX_MEMBERS} members already")
        self._leases[member.id] = lease
        self._put(member, now)

    def renew(self, member: Member, now: float) -> None:
        """Renew the lease, and publish the present state of the member.

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
            at_least = max(at_least, self._least_epoch)
        return self._set(claimed(rm_id, owner, record, at_least, by, now))

    def release(self, by: MemberId, owned: Ownership) -> Ownership:
        """Remove the owner of an RM of the member `by`; the epoch stays.

        Raises:
            Conflict: the record has changed, or belongs to another member.
        """
        record = self._rms.get(owned.rm_id)
        if record is None or record.revision != owned.revision:
            raise Conflict(f"the record of RM {owned.rm_id} is another one by now")
        return self._set(released(record, by))

    def snapshot(self, now: float) -> Snapshot:
        """Members with a living lease, and all owners."""
        self.expire(now)
        return Snapshot(members=dict(self._members), rms=dict(self._rms))

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
        """Drop a record without an owner if there are too many; its epoch is not assigned again."""
        if len(self._rms) < MAX_RECORDS:
            return
        oldest = next(iter(self._free), None)
        if oldest is None:
            raise StoreError(f"there are {MAX_RECORDS} RMs already")
        del self._free[oldest]
        self._least_epoch = max(self._least_epoch, self._rms.pop(oldest).epoch)
