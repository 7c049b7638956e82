"""The store of a deployment in a cluster of Kubernetes, and the reasons why no RM has two owners.

Kubernetes has no leases that end by themselves and no transactions over objects. It has objects whose updates
name the resourceVersion that they replace, so that the updates of *one* object have an order.

*Renewal.* A member updates its Lease by its last version. It never creates the Lease again, as an id belongs
to one run. So a Lease that was marked as ended, or deleted, remains ended for its member, whose next renewal
fails. A version alone is not enough for this, as an update of an absent Lease creates it: every update of a
Lease also names the uid.

*End.* An observer considers a Lease ended if its version has not changed for a whole lease by the observer's
own clock (`sightings`). That alone is not enough: a member could renew between the observer's read and its
next write, so that an RM had two owners. So before `claim` takes an RM from a member it marks that member's
Lease as ended, by the version that it saw unchanged. Either the mark is first, and no renewal succeeds after
it; or a renewal is first, and the mark and the claim are conflicts. A member counts its time from the
*sending* of its last good renewal, before which no observer can have seen it, so it has stopped by itself
before any observer may set the mark.

*Claim.* The order of the writes is: mark the old owner's Lease, then update the record of the RM by the
version that the caller has read. A member that is paused between the two, for any time, finds the record at
another version if another member has claimed the RM. If none has, the claim is carried out for a member that
may have ended meanwhile: the record then names an owner without a Lease, which has stopped by its own clock,
and others claim the RM under a higher epoch. Earlier checks of the Leases of the claiming member and of the
new owner keep such records rare; correctness does not depend on them.

*Epochs* are an annotation of the RM's record. A claim writes one above the old and the RM's named epoch. A
deleted record is created again above the epoch that the RM names. The receivers drop effects of lower epochs;
those that do not check epochs are guarded only by the owner's stop.

*A Lease deleted by hand.* Its member continues until its next renewal, so others wait for a whole lease from
the time when they first found it missing, as from a last change. `leave` and `evict` mark the Lease and do
not delete it, so that their RMs may be taken immediately. Readers remove marked Leases later, once no record
names them.

*Time-outs.* A write without an answer may have been carried out, or may be carried out later. It names a
version, so it is carried out once, and never after another write of the object. Each write has an id of its
own: a conflict with the same write, repeated by HTTP, is not an error.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import SettingsError
from licorne_server.store.coordination.kubernetes.access import ClusterAccess
from licorne_server.store.coordination.kubernetes.api import CONFIG_MAPS, LEASES, SECRETS, Api, Resource
from licorne_server.store.coordination.kubernetes.objects import (
    SECRET,
    SHARED_KIND,
    Json,
    document_object,
    ended_lease,
    member_lease,
    name_of,
    object_name,
    read_document,
    read_member_lease,
    replaced_by,
    revision_of,
    rm_lease,
    write_of,
)
from licorne_server.store.coordination.kubernetes.reading import Reader
from licorne_server.store.coordination.kubernetes.sightings import Sightings
from licorne_server.store.coordination.records import claimed, released
from licorne_server.store.coordination.secret import KEY as SECRET_KEY
from licorne_server.store.coordination.store import LeaseLost, Member, MemberId, Ownership, Snapshot, Store
from licorne_server.store.documents.documents import SHARED, Conflict, Document, StoreError

REREAD = 5.0
"""Seconds between two reads of the whole store, or fewer if the lease is short."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_TRIES = 5
_LONGEST_CALL = 10.0


class KubernetesStore(Store):
    """A member's access to the objects of a deployment."""

    def __init__(
        self,
        coordination: Coordination,
        access: ClusterAccess | None = None,
        clock: Callable[[], float] = time.monotonic,
        reread: float = REREAD,
    ) -> None:
        """Connect with the first call.

        `clock` returns monotonic seconds; all objects are read again every `reread` seconds, and at least
        four times in a lease.
        """
        access = access or ClusterAccess()
        access.check()
        namespace, _, self._deployment = coordination.prefix.rpartition("/")
        namespace = access.namespace(namespace)
        for what, name in (("namespace", namespace), ("name", self._deployment)):
            if not _LABEL.fullmatch(name):
                raise SettingsError(
                    f"coordination.store: the {what} must have lower-case letters, digits and "
                    f"hyphens: {name!r}"
                )
        self.lease = coordination.lease
        # There are several reads in a lease, so that a failed read leaves no gap.
        self._reread = min(reread, coordination.lease / 4)
        self._clock = clock
        self._api = Api(access, namespace, min(_LONGEST_CALL, coordination.lease / 4))
        self._sightings = Sightings(self.lease, self._reread)
        self._member: MemberId | None = None
        # The metadata with the last version of this member's Lease, as it was read or written.
        self._held: Json = {}

    async def join(self, member: Member) -> None:
        """Create the Lease. A repeated call finds the Lease that the first one has created."""
        try:
            created = await self._api.create(LEASES, self._lease_of(member, None), urgent=True)
        except Conflict:
            try:
                created = await self._living(member.id)
            except Conflict as error:
                raise LeaseLost(str(error)) from error
        self._member, self._held = member.id, replaced_by(created)

    async def renew(self, member: Member) -> None:
        """Update the Lease by its last version."""
        if self._member is None or self._member != member.id:
            raise LeaseLost(f"member {member.id} has no lease")
        for _ in range(_TRIES):
            try:
                found = await self._api.update(LEASES, self._lease_of(member, self._held), urgent=True)
            except Conflict:
                # Either the answer to an earlier renewal was lost, or the lease has ended.
                try:
                    found = await self._living(member.id)
                except Conflict as error:
                    self._member = None
                    raise LeaseLost(str(error)) from error
                self._held = replaced_by(found)
            else:
                self._held = replaced_by(found)
                return
        raise StoreError(f"the Lease of member {member.id} is changed by somebody else all the time")

    async def leave(self) -> None:
        """Mark the Lease as ended."""
        if self._member is not None:
            await self.evict(self._member)
            self._member = None

    async def evict(self, member: MemberId) -> None:
        """Mark the Lease of a member as ended, whatever its version is."""
        for _ in range(_TRIES):
            found = await self._find_member(member)
            if found is None or self._has_ended(found, member):
                return
            try:
                await self._api.update(LEASES, ended_lease(found), urgent=True)
            except Conflict:
                continue
            return
        raise StoreError(f"the Lease of member {member} is changed by somebody else all the time")

    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """End the lease of the old owner, then update the record; see the module."""
        own = self._member
        if own is None:
            raise Conflict("this member has no lease")
        await self._living(own)
        if seen is not None and seen.owner not in ("", own):
            await self._end_if_over(seen.owner)
        if owner != own:
            await self._living(owner)
        record = claimed(rm_id, owner, seen, at_least, own, time.time())
        return await self._write(record, seen.revision if seen else 0)

    async def release(self, owned: Ownership) -> Ownership:
        """Update the record by its version."""
        return await self._write(released(owned, self._member or MemberId("")), owned.revision)

    async def watch(self) -> AsyncIterator[Snapshot]:
        """Snapshots without end: each time the newest snapshot, once there is a new one."""
        newest: list[Snapshot] = []
        there = asyncio.Event()

        def publish(snapshot: Snapshot) -> None:
            newest[:] = [snapshot]
            there.set()

        reader = Reader(
            self._api,
            self._deployment,
            self._sightings,
            self._clock,
            lease=self.lease,
            reread=self._reread,
        )
        task = asyncio.create_task(reader.run(publish), name="reader of Kubernetes")
        # A defect ends the watch, which would otherwise hang without notice.
        task.add_done_callback(lambda _: there.set())
        try:
            while True:
                await there.wait()
                there.clear()
                if task.done():
                    task.result()
                yield newest.pop()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def read(self, key: str) -> Document:
        """Get the object of the document."""
        resource, kind = _place(key)
        found = await self._api.get(resource, object_name(self._deployment, kind, key))
        if found is None:
            return Document()
        try:
            there, document = read_document(found)
        except ValueError as error:
            raise StoreError(f"document {key!r} in Kubernetes cannot be read: {error}") from error
        if there != key:
            raise StoreError(f"document {key!r} in Kubernetes is that of another key: {there!r}")
        return document

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Create, replace or delete the object of the document, by its version."""
        resource, kind = _place(key)
        if value is None:
            if revision:
                await self._api.delete(resource, object_name(self._deployment, kind, key), str(revision))
            return 0
        self.check_size(key, value)
        return await self._put(
            resource, document_object(self._deployment, kind, key, value, revision), revision
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._api.close()

    def _lease_of(self, member: Member, before: Json | None) -> Json:
        return member_lease(self._deployment, member, self.lease, time.time(), before)

    async def _find_member(self, member: MemberId) -> Json | None:
        return await self._api.get(LEASES, object_name(self._deployment, "member", member))

    async def _living(self, member: MemberId) -> Json:
        """The Lease of a member.

        Raises:
            Conflict: the lease has ended.
        """
        found = await self._find_member(member)
        if found is None or self._has_ended(found, member):
            raise Conflict(f"the lease of member {member} has ended")
        if member != self._member and self._sightings.is_over(member, self._clock()):
            raise Conflict(f"member {member} has not renewed its lease in time")
        return found

    async def _end_if_over(self, member: MemberId) -> None:
        """End the lease of a member that has not renewed it in time.

        Raises:
            Conflict: the lease may still be valid.
        """
        found = await self._find_member(member)
        if found is None:
            self._sightings.miss(member, self._clock())
        elif self._has_ended(found, member):
            return
        if not self._sightings.is_over(member, self._clock()):
            raise Conflict(f"the lease of member {member} may not have ended")
        if found is not None:
            await self._api.update(LEASES, ended_lease(found))

    def _has_ended(self, found: Json, member: MemberId) -> bool:
        """True if the Lease was marked as ended; otherwise its version is stored."""
        try:
            lease = read_member_lease(found, self.lease)
        except ValueError as error:
            raise StoreError(f"the Lease of member {member} cannot be read: {error}") from error
        if not lease.ended:
            self._sightings.see(member, lease.version, lease.duration, self._clock())
        return lease.ended

    async def _write(self, record: Ownership, revision: int) -> Ownership:
        """Replace the RM's record of `revision` by this record; returns it with the new revision."""
        before = None
        if revision:
            found = await self._api.get(LEASES, object_name(self._deployment, "rm", record.rm_id))
            if found is None or revision_of(found) != revision:
                raise Conflict(f"the record of RM {record.rm_id} has another version than {revision}")
            before = replaced_by(found)
        body = rm_lease(self._deployment, record, before)
        return replace(record, revision=await self._put(LEASES, body, revision))

    async def _put(self, resource: Resource, body: Json, revision: int) -> int:
        """Create an object, or replace the object of `revision`; returns the new revision."""
        write = self._api.update if revision else self._api.create
        try:
            return revision_of(await write(resource, body))
        except Conflict:
            # Clients and proxies of HTTP repeat a PUT whose connection broke, so the conflict may be with our
            # own write.
            found = await self._api.get(resource, name_of(body))
            if found is None or write_of(found) != write_of(body):
                raise
            return revision_of(found)


def _place(key: str) -> tuple[Resource, str]:
    """The resource and the kind under which a document is stored."""
    if key == SECRET_KEY:
        return SECRETS, SECRET
    return CONFIG_MAPS, SHARED_KIND if key.startswith(SHARED) else "document"
