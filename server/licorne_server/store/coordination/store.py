"""The store of a deployment: members, owners of RMs, and small shared documents.

Every backend has six operations: join, renew, claim, release, watch and compare-and-set. A watch only makes
reads earlier: a backend reads all members, owners and shared documents every few seconds anyway, because
watches lose events (DESIGN § 3).
"""

from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import NewType

from licorne_core.values.ids import RmId
from licorne_server.store.documents.documents import Document, Documents, StoreError
from licorne_server.store.documents.encoding import Amount, Count

MemberId = NewType("MemberId", str)
"""Id of one run of a member: a member that has lost its lease joins again under another id."""


class LeaseLost(StoreError):
    """The member's lease has ended, or was removed. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """The published state of a member, which is renewed with its lease."""

    id: MemberId
    name: str
    """Name for people, which stays the same after a restart: host and port, or the number of a worker."""
    address: str
    """``HOST:PORT`` or ``unix:PATH`` at which RMs and other members reach the member's gRPC services."""
    http: str = ""
    """``http://HOST:PORT``, ``https://...`` or ``unix:PATH`` of the HTTP services; empty if there is none."""
    version: str = ""
    """Version of the member's software."""
    protocols: tuple[Count, ...] = (1,)
    """Versions of the protocol between members that the member supports."""
    started: Amount = 0.0
    """Start of this run, in unix seconds, for people."""
    draining: bool = False
    """True if the member gives its RMs away and accepts none."""
    load: Mapping[RmId, Amount] = field(default_factory=dict)
    """CPU that each RM of the member used over the last minutes, in cores."""


@dataclass(frozen=True, slots=True)
class Gone:
    """A member whose lease has ended."""

    member: Member
    """The departed member as it was last published; only its id if this member has never seen it."""
    since: float
    """The time at which its lease was first found ended, in unix seconds."""
    is_over: bool = False
    """True if it is not missed: it left normally, has returned, left long ago, or is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The record of one RM. It remains when its owner ends, and is valid only while the owner's lease is."""

    rm_id: RmId
    owner: MemberId
    """Id of the owner; empty if there is none."""
    epoch: Count
    """Epoch of the owner, or of the last owner if there is none."""
    moved: Amount = 0.0
    """Time of the last voluntary move, in unix seconds; 0 if there is none."""
    revision: int = 0
    """Revision of the record in the store, for compare-and-set; 0 before the first write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Members with a valid lease, all owners, and the shared documents, at one moment."""

    members: Mapping[MemberId, Member] = field(default_factory=dict)
    rms: Mapping[RmId, Ownership] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    """Documents by their keys, which begin with `SHARED`."""


class Store(Documents):
    """One member's access to the store, with its documents.

    All times are seconds, and every call has a time-out of its own.
    Any call may raise StoreError. A call that was cancelled may have been carried out.
    """

    lease: float
    """Seconds after the arrival of the last renewal for which no other member may consider this one gone."""

    @abstractmethod
    async def join(self, member: Member) -> None:
        """Publish the member under a new lease."""

    @abstractmethod
    async def renew(self, member: Member) -> None:
        """Renew the lease, and publish the member's current state if the store accepts it.

        Raises:
            LeaseLost: the lease has ended; the member has to join again under another id.
        """

    @abstractmethod
    async def leave(self) -> None:
        """End the member's lease, so that others may claim its RMs immediately."""

    @abstractmethod
    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """Make a member the owner of an RM; returns the new record.

        The new epoch is one above the larger of the record's epoch and `at_least`. `seen` is the record that
        the caller has read, or None if there is none; it must be the current record. Its owner must be empty,
        departed, or the member of this store, which may hand an RM over. Both the new owner and the member of
        this store must have a valid lease.

        Raises:
            Conflict: one of these conditions does not hold.
        """

    @abstractmethod
    async def release(self, owned: Ownership) -> Ownership:
        """Remove the owner of an RM of this member; the epoch is retained.

        Raises:
            Conflict: the record has changed.
        """

    @abstractmethod
    def watch(self) -> AsyncIterator[Snapshot]:
        """Snapshots: one that is read after this call, then one after each change and every few seconds.

        The watch ends only when it is closed. While the store does not answer, it waits.
        """

    async def evict(self, member: MemberId) -> None:
        """End the lease of another member that has certainly ended. Only a supervisor can be certain."""
        raise NotImplementedError

    @abstractmethod
    async def close(self) -> None:
        """Close the connections. The lease expires if `leave` was not called."""
