"""Snapshots of the store in etcd: all keys below three prefixes, read in pages at one revision.

A watch only makes the next read earlier. The next regular read, a few seconds later, finds the changes that
the watch has missed.
"""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import structlog
from grpc import StatusCode

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.etcd_connection import RANGE, TXN, EtcdConnection, Refused
from licorne_server.store.coordination.pb import etcd_pb2 as pb
from licorne_server.store.coordination.records import read_member, read_ownership
from licorne_server.store.coordination.store import Member, MemberId, Ownership, Snapshot
from licorne_server.store.documents.documents import SHARED, Document, StoreError
from licorne_server.store.documents.encoding import Unreadable

PAGE = 256
"""Maximum number of keys that one call reads."""

SLICE = 64 * 1024
"""Number of bytes of records after which decoding yields to other tasks."""

MAX_KEYS = 100_000
MAX_BYTES = 128 * 1024 * 1024
"""Maximum numbers of keys and of bytes in a snapshot. A larger store has no snapshot."""

MOST_FREE = 10_000
"""Maximum number of records of RMs without an owner. Beyond it the records released first are removed, so
that ids that are refused or never return do not fill the store. Epochs rise even without records.
"""

SWEPT = 100
"""Maximum number of records removed in one transaction: etcd accepts 128 operations in a transaction."""

RETRY = 0.5
"""Seconds after which a failed read or watch is repeated."""

LEAST_REST = 0.02
"""Minimum seconds between two reads. The pause is at least as long as the last read."""

MOST_TOLD = 10
"""Maximum number of unreadable records that the log names for one read."""

LONGEST_TOLD = 200
"""Maximum number of bytes of a key in the log."""

Record = Member | Ownership | Document
log = structlog.get_logger("core.coordination.etcd")


class Keys:
    """The keys of one deployment."""

    def __init__(self, prefix: str) -> None:
        """Use this prefix: all keys begin with it and a slash."""
        self._prefix = prefix
        self.first = f"{prefix}/members/".encode()
        """The lowest possible key of a snapshot."""
        self.end = f"{prefix}/shared0".encode()
        """The end of the range of keys: `0` is the character after the slash."""

    def member(self, member: MemberId) -> bytes:
        """The key of a member."""
        return self._key("members", member)

    def rm(self, rm_id: RmId) -> bytes:
        """The key of an RM's record."""
        return self._key("rms", rm_id)

    def document(self, key: str) -> bytes:
        """The key of a document."""
        if key.startswith(SHARED):
            return self._key("shared", key.removeprefix(SHARED))
        return self._key("documents", key)

    def parts(self, key: bytes) -> tuple[str, str]:
        """Split a key into kind and id.

        Raises:
            Unreadable: no member writes such a key.
        """
        rest = key.decode(errors="replace").removeprefix(f"{self._prefix}/")
        kind, _, quoted = rest.partition("/")
        name = unquote(quoted)
        if key != self._key(kind, name):
            raise Unreadable("no member writes such a key")
        return kind, name

    def _key(self, kind: str, name: str) -> bytes:
        return f"{self._prefix}/{kind}/{quote(name, safe='')}".encode()


@dataclass(slots=True)
class _Stored:
    """A key as it was last read, and its record; None if the record is unreadable."""

    value: bytes
    revision: int
    lease: int
    record: Record | None

    def is_still(self, one: pb.KeyValue) -> bool:
        """True if the key has not changed since it was read."""
        same = (one.mod_revision, one.lease) == (self.revision, self.lease)
        return same and one.value == self.value


@dataclass(slots=True)
class _Found:
    """A snapshot that is being read."""

    revision: int = 0
    size: int = 0
    stored: dict[bytes, _Stored] = field(default_factory=dict)
    unreadable: list[tuple[bytes, str]] = field(default_factory=list)


class SnapshotReader:
    """Reads the whole store repeatedly, and decodes only changed records."""

    def __init__(self, etcd: EtcdConnection, keys: Keys) -> None:
        """Start without a snapshot."""
        self._etcd = etcd
        self._keys = keys
        self._stored: dict[bytes, _Stored] = {}
        self.revision = 0
        """Revision of the last snapshot."""

    async def read(self) -> Snapshot:
        """Read the whole store, at one revision.

        Raises:
            StoreError: etcd does not answer, or the store is too large.
        """
        found = _Found()
        request = pb.RangeRequest(key=self._keys.first, range_end=self._keys.end, limit=PAGE)
        while True:
            try:
                page = await self._etcd.call(RANGE, request)
            except Refused as refused:
                # The page exceeds the size of a message, so read a smaller page.
                if refused.code is not StatusCode.RESOURCE_EXHAUSTED or request.limit == 1:
                    raise
                request.limit //= 4
                continue
            await self._take(page, found)
            if not page.more or not page.kvs:
                break
            request.revision = found.revision
            request.key = page.kvs[-1].key + b"\0"
        _tell(found.unreadable)
        self._stored, self.revision = found.stored, found.revision
        return self._snapshot()

    async def sweep(self) -> None:
        """Remove some of the records without an owner, if there are too many and they are unchanged.

        Raises:
            StoreError: etcd does not answer.
        """
        free = [
            (stored.revision, key)
            for key, stored in self._stored.items()
            if isinstance(stored.record, Ownership) and not stored.record.owner
        ]
        oldest = sorted(free)[: min(len(free) - MOST_FREE, SWEPT)] if len(free) > MOST_FREE else []
        if oldest:
            mod = pb.Compare.Target.MOD
            request = pb.TxnRequest(
                compare=[pb.Compare(target=mod, key=key, mod_revision=revision) for revision, key in oldest],
                success=[
                    pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key)) for _, key in oldest
                ],
            )
            await self._etcd.call(TXN, request)

    async def _take(self, page: pb.RangeResponse, found: _Found) -> None:
        """Add a page. Unchanged records are not decoded again."""
        found.revision = found.revision or page.header.revision
        decoded = 0
        for one in page.kvs:
            stored = self._stored.get(one.key)
            # A wiped store numbers its revisions again, so equal revisions do not prove equal contents.
            if stored is None or not stored.is_still(one):
                stored = _Stored(one.value, one.mod_revision, one.lease, self._decode(one, found))
                decoded += len(one.value)
            if decoded > SLICE:
                decoded = 0
                await asyncio.sleep(0)
            found.stored[one.key] = stored
            found.size += len(one.key) + len(one.value)
        if len(found.stored) > MAX_KEYS or found.size > MAX_BYTES:
            raise StoreError(
                f"etcd has more than {MAX_KEYS} keys or {MAX_BYTES} bytes "
                f"from {self._keys.first!r} to {self._keys.end!r}"
            )

    def _decode(self, one: pb.KeyValue, found: _Found) -> Record | None:
        try:
            kind, name = self._keys.parts(one.key)
            match kind:
                case "members" if one.lease:
                    return read_member(MemberId(name), one.value)
                case "rms":
                    return read_ownership(RmId(name), one.value, one.mod_revision)
                case "shared":
                    return Document(value=one.value, revision=one.mod_revision)
            raise Unreadable("a member without a lease" if kind == "members" else "no kind of key")
        except Unreadable as error:
            found.unreadable.append((one.key, str(error)))
            return None

    def _snapshot(self) -> Snapshot:
        members: dict[MemberId, Member] = {}
        rms: dict[RmId, Ownership] = {}
        documents: dict[str, Document] = {}
        for key, stored in self._stored.items():
            match stored.record:
                case Member() as member:
                    members[member.id] = member
                case Ownership() as ownership:
                    rms[ownership.rm_id] = ownership
                case Document() as document:
                    documents[SHARED + self._keys.parts(key)[1]] = document
                case None:
                    pass
        return Snapshot(members=members, rms=rms, documents=documents)


def _tell(unreadable: list[tuple[bytes, str]]) -> None:
    for key, problem in unreadable[:MOST_TOLD]:
        log.warning("a key of etcd is left out", key=repr(key[:LONGEST_TOLD]), problem=problem)
    if len(unreadable) > MOST_TOLD:
        log.warning("more keys of etcd are left out", keys=len(unreadable) - MOST_TOLD)


class _Watching:
    """A watch of the keys, which determines when the next read is due."""

    def __init__(self, etcd: EtcdConnection, keys: Keys, reader: SnapshotReader) -> None:
        self._etcd = etcd
        self._keys = keys
        self._reader = reader
        self._due = asyncio.Event()
        self._newest = 0.0

    async def run(self) -> None:
        """Watch without end."""
        while True:
            with suppress(StoreError):
                async with aclosing(self._etcd.changes(self._keys.first, self._keys.end)) as changes:
                    async for revision in changes:
                        self._note(revision)
            # Read immediately, because the watch may have missed changes.
            self._note(math.inf)
            await asyncio.sleep(RETRY)

    def begin(self) -> None:
        """Record that a read begins, which includes all changes noticed so far."""
        self._newest = 0.0
        self._due.clear()

    async def wait(self, seconds: float) -> None:
        """Wait for a change that the last read does not include, for at most `seconds`."""
        if self._newest <= self._reader.revision:
            self._due.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._due.wait()

    def _note(self, revision: float) -> None:
        self._newest = revision
        if revision > self._reader.revision:
            self._due.set()


async def watch_snapshots(etcd: EtcdConnection, keys: Keys, reread: float) -> AsyncIterator[Snapshot]:
    """Snapshots without end: one immediately, then one after each change, and after `reread` seconds.

    Nothing is read ahead: a slow reader gets the newest snapshot.
    """
    reader = SnapshotReader(etcd, keys)
    watching = _Watching(etcd, keys, reader)
    task = asyncio.create_task(watching.run())
    answered = True
    try:
        while True:
            begun = asyncio.get_running_loop().time()
            watching.begin()
            try:
                snapshot = await reader.read()
            except StoreError as error:
                if answered:
                    log.warning("etcd cannot be read", error=str(error))
                answered = False
                await asyncio.sleep(RETRY)
                continue
            if not answered:
                log.info("etcd can be read again")
            answered = True
            rest = max(LEAST_REST, asyncio.get_running_loop().time() - begun)
            yield snapshot
            await asyncio.sleep(rest)
            with suppress(StoreError):
                await reader.sweep()
            await watching.wait(reread)
    finally:
        task.cancel()
