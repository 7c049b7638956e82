"""The store of a deployment: members, owners of RMs, and small shared documents.

Six operations, which every backend has: join, renew, claim, release, watch and compare-and-set. A
watch only hastens: a backend reads all members, owners and shared documents anew every few seconds,
because watches lose events (DESIGN § 3).
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import NewType

from licorne_core.values.ids import RmId

MemberId = NewType("MemberId", str)
"""Id of one run of a member: a member that lost its lease comes back under another id."""

SHARED = "shared/"
"""Prefix of the documents that snapshots contain. Others are read one by one."""

USAGE = "usage/"
"""Prefix of the documents of what RMs remember of usage."""

MAX_DOCUMENT = 768 * 1024
"""Bytes of a document, at most: etcd and Kubernetes take objects of 1 MiB."""


class StoreError(Exception):
    """The store did not answer, or not in time. The operation may have been carried out."""


class LeaseLost(StoreError):
    """The member's lease has ended, or somebody has removed it. Nothing was changed."""


class Conflict(StoreError):
    """Somebody else was faster, or what was assumed does not hold. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What a member publishes about itself, with every renewal."""

    id: MemberId
    name: str
    """Name for people, which outlives a restart: host and port, or the number of a worker."""
    address: str
    """``HOST:PORT`` or ``unix:PATH`` at which RMs and other members reach its gRPC services."""
    http: str = ""
    """``http://HOST:PORT``, ``https://...`` or ``unix:PATH`` of its HTTP services; empty for none."""
    version: str = ""
    """Version of its software."""
    protocols: tuple[int, ...] = (1,)
    """Versions of the protocol between members that it speaks."""
    started: float = 0.0
    """Start of this run, in unix seconds, for people."""
    draining: bool = False
    """True if it gives its RMs away and takes none."""
    load: Mapping[RmId, float] = field(default_factory=dict)
    """CPU that each of its RMs used over the last minutes, in cores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """The record of one RM. It outlives its owner, and counts only while the owner's lease lives."""

    rm_id: RmId
    owner: MemberId
    """Empty while nobody owns the RM."""
    epoch: int
    """Epoch of the owner; without an owner, that of the last one."""
    moved: float = 0.0
    """Time of the last voluntary move, in unix seconds; 0 for none."""
    revision: int = 0
    """Revision of the record in the store, for compare-and-set; 0 before the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document and the revision of its key, for compare-and-set; revision 0: there is none."""

    value: bytes = b""
    revision: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Members with a living lease, all owners, and the shared documents, at one moment."""

    members: Mapping[MemberId, Member] = field(default_factory=dict)
    rms: Mapping[RmId, Ownership] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    """Documents by their keys, which begin with `SHARED`."""


class Store(ABC):
    """One member's access to the store. All times are seconds; every call has a time-out of its own.

    Any call may raise StoreError. A call that was cancelled may have been carried out.
    """

    lease: float
    """Seconds after the last renewal, by the time of its arrival, before which no other member may
    take the member for gone."""
    trouble: str = ""
    """What cannot be written though the lease is renewed, for people; empty for nothing."""

    @abstractmethod
    async def join(self, member: Member) -> None:
        """Publish the member under a new lease."""

    @abstractmethod
    async def renew(self, member: Member) -> None:
        """Renew the lease, and publish the member as it is now, if the store can take it.

        Raises:
            LeaseLost: the lease has ended; the member has to join again under another id.
        """

    @abstractmethod
    async def leave(self) -> None:
        """End the member's lease; others may take its RMs at once."""

    @abstractmethod
    async def claim(self, rm_id: RmId, owner: MemberId, seen: Ownership | None, at_least: int) -> Ownership:
        """Make a member the owner of an RM; returns the new record.

        The new epoch is one above the larger of the record's epoch and `at_least`. `seen` is the
        record that the caller has read, None for none. It must be the present one. Its owner must
        be empty, gone, or the member of this store, which may hand an RM on. The new owner must have
        a living lease, and so must the member of this store.

        Raises:
            Conflict: one of these does not hold.
        """

    @abstractmethod
    async def release(self, owned: Ownership) -> Ownership:
        """Leave an RM of this member without an owner; its epoch stays.

        Raises:
            Conflict: the record is another one by now.
        """

    @abstractmethod
    def watch(self) -> AsyncIterator[Snapshot]:
        """Snapshots: one that is read after this call, then one after each change and every few seconds.

        It ends only when it is closed. While the store does not answer there are none.
        """

    @abstractmethod
    async def read(self, key: str) -> Document:
        """The document of the key."""

    @abstractmethod
    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document of that revision, 0 for none; None removes it. Returns the new revision.

        Raises:
            Conflict: the document has another revision.
            ValueError: the value is larger than `MAX_DOCUMENT`.
        """

    async def prepare(self, key: str, value: bytes, revision: int) -> None:
        """Find out if `compare_and_set` of the same would succeed now. A store on a disk makes room for it.

        Raises:
            Conflict: the document has another revision.
        """
        if (await self.read(key)).revision != revision:
            raise Conflict(f"document {key!r} has another revision than {revision}")

    async def discard(self, key: str) -> None:  # noqa: B027
        """Give up the room that `prepare` has made: the document stays as it is."""

    async def evict(self, member: MemberId) -> None:
        """End the lease of another member, known to be dead. Only a supervisor knows that."""
        raise NotImplementedError

    @abstractmethod
    async def close(self) -> None:
        """Close connections. The lease ends by itself if `leave` was not called."""
