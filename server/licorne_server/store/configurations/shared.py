"""Revisions in the store of a deployment: they follow their RM to its next owner.

The document of an RM has a line of JSON with the epoch of its owner, then its packed revisions. An
owner writes its epoch when it reads them, under compare-and-set. From then on a write of an earlier
owner fails, and that owner's operator reads that nothing was stored. The epoch also decides where the
revision of the document does not: after a write whose answer was lost, and after a late one of an
earlier owner.
"""

import asyncio
import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

import structlog

from licorne_core.values.ids import RmId
from licorne_server.process.settings import Settings
from licorne_server.store.configurations.history import Keeper
from licorne_server.store.configurations.revisions import Damaged, Revisions, decode, encode, texts_of
from licorne_server.store.coordination.ownership import Ownership
from licorne_server.store.coordination.store import MAX_DOCUMENT, Conflict, Document, Store, StoreError

log = structlog.get_logger("core.configurations.shared")

FORMAT = 1

CONFIGURATIONS = "configurations/"
"""Prefix of the keys; the quoted id of the RM follows."""

MAX_HEAD = 256
"""Bytes of the first line, at most."""

MAX_UNPACKED = 32 * 1024 * 1024
"""Bytes of unpacked revisions, at most: texts, records and marks as JSON."""

CLOSE_SECONDS = 5.0
"""Seconds in which pending writes may end when the server stops, or before an operator is answered."""


def keeper_of(ownership: Ownership, settings: Settings) -> Keeper:
    """The keeper of revisions: in the store that members share, or else in the folder, if there is one."""
    store, options, folder = ownership.store, settings.coordination, settings.state_dir
    if store is None:
        return Keeper(folder)
    # Workers have the same files, and a supervisor that owns the state directory.
    shared = options is None or not options.on_one_host
    return SharedKeeper(store, ownership.epoch, persistent=shared or folder is not None, shared=shared)


class SharedKeeper(Keeper):
    """Stores the revisions of the RMs that this server owns."""

    def __init__(
        self,
        store: Store,
        epoch: Callable[[RmId], int],
        *,
        persistent: bool = True,
        shared: bool = True,
    ) -> None:
        """`epoch` gives the epoch of an RM that is served here, 0 for others.

        Workers have one supervisor, whose store is not `persistent` without a directory. They are not
        `shared` by servers with other files.
        """
        super().__init__()
        self._store = store
        self._epoch = epoch
        self._persistent = persistent
        self._shared = shared
        # The revision of each document as this server wrote it last.
        self._written: dict[RmId, int] = {}
        # Packed revisions between `prepare` and `commit`.
        self._prepared: dict[RmId, bytes] = {}
        # Held while a document is written: writes of one RM are in order.
        self._locks: WeakValueDictionary[RmId, asyncio.Lock] = WeakValueDictionary()
        # Writes under way, and their RMs.
        self._tasks: dict[asyncio.Task[bool], RmId] = {}

    @property
    def persistent(self) -> bool:
        """True if what is stored outlives all servers."""
        return self._persistent

    async def fetch(self, rm_id: RmId) -> Revisions | None:
        """The stored revisions of an RM that this server owns from now on; None if there are none.

        Raises:
            StoreError: the store does not answer, or another owner writes at the same time.
        """
        async with self._locks.setdefault(rm_id, asyncio.Lock()):
            document = await self._store.read(key_of(rm_id))
            packed = packed_of(document.value)
            # For an RM that never comes nothing is stored.
            self._written.pop(rm_id, None)
            if document.revision:
                await self._set(rm_id, packed, document.revision)
        if not packed:
            return None
        try:
            found = await self._run(partial(unpack, rm_id, packed))
        except Damaged as error:
            log.error("stored revisions are damaged", rm_id=rm_id, reason=str(error))
            return None
        self._latest[rm_id] = found
        return found

    async def prepare(self, revisions: Revisions) -> None:
        """Pack the revisions for `commit`, and check that this server may store them.

        Raises:
            OSError: they are too large, the store does not answer, or the RM has another owner.
        """
        rm_id = revisions.rm_id
        try:
            packed = await self._run(partial(pack, revisions))
            value = document_of(packed, self._epoch(rm_id))
            # A write of the registration, which may still be under way, comes before or after both.
            async with self._locks.setdefault(rm_id, asyncio.Lock()):
                await self._store.prepare(key_of(rm_id), value, await self._replaceable(rm_id))
        except StoreError as error:
            self.failures += 1
            raise OSError(str(error)) from None
        self._prepared[rm_id] = packed

    async def commit(self, revisions: Revisions) -> bool:
        """Replace the stored revisions by the prepared ones; returns True if they outlive all servers."""
        rm_id = revisions.rm_id
        self._latest[rm_id] = revisions
        is_written = await asyncio.shield(self._spawn(rm_id, self._write(rm_id, self._prepared.pop(rm_id))))
        return is_written and self._persistent

    @property
    def shared(self) -> bool:
        """True if members with files of their own have the same documents."""
        return self._shared

    async def document(self, key: str) -> Document:
        """A document of the store that is no RM's. See `Keeper`."""
        return await self._store.read(key)

    async def replace_document(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace such a document. See `Keeper`."""
        return await self._store.compare_and_set(key, value, revision)

    def discard(self, rm_id: RmId) -> None:
        """Discard the prepared revisions."""
        if self._prepared.pop(rm_id, None) is not None:
            self._spawn(rm_id, self._discard(rm_id))

    def save(self, revisions: Revisions) -> None:
        """Store the revisions as soon as possible; a failure is logged."""
        if self._latest.get(revisions.rm_id) is not revisions:
            self._latest[revisions.rm_id] = revisions
            self._spawn(revisions.rm_id, self._write_latest(revisions))

    def drop(self, rm_id: RmId) -> None:
        """Delete the stored revisions of the RM."""
        self._latest.pop(rm_id, None)
        self._spawn(rm_id, self._write(rm_id, None))

    async def written(self, rm_id: RmId) -> None:
        """Wait, within a bounded time, until the writes of the RM that were begun before have ended."""
        begun = [task for task, of in self._tasks.items() if of == rm_id]
        if begun:
            await asyncio.wait(begun, timeout=CLOSE_SECONDS)

    async def close(self) -> None:
        """Finish all writes, within a bounded time."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=CLOSE_SECONDS)
        self._thread.shutdown(wait=False)

    async def _discard(self, rm_id: RmId) -> bool:
        try:
            await self._store.discard(key_of(rm_id))
        except StoreError as error:
            log.warning("prepared revisions not discarded", rm_id=rm_id, reason=str(error))
            return False
        return True

    async def _write_latest(self, revisions: Revisions) -> bool:
        if self._latest.get(revisions.rm_id) is not revisions:
            return False  # newer ones are about to be written
        try:
            packed = await self._run(partial(pack, revisions))
        except OSError as error:
            self._failed(revisions.rm_id, error)
            return False
        return await self._write(revisions.rm_id, packed)

    async def _write(self, rm_id: RmId, packed: bytes | None) -> bool:
        """Write or delete the document, in order with other writes; returns True if it was done.

        What belongs to another owner by now is not deleted.
        """
        async with self._locks.setdefault(rm_id, asyncio.Lock()):
            try:
                try:
                    await self._set(rm_id, packed, self._written.get(rm_id, 0))
                except Conflict:
                    # An answer to an own write may have been lost.
                    await self._set(rm_id, packed, await self._replaceable(rm_id))
            except StoreError as error:
                if packed is not None or not isinstance(error, Conflict):
                    self._failed(rm_id, OSError(str(error)))
                return False
        return True

    async def _replaceable(self, rm_id: RmId) -> int:
        """The revision of the document, which this server may replace.

        Raises:
            StoreError: the store does not answer, or the RM has another owner.
        """
        document = await self._store.read(key_of(rm_id))
        is_last = document.revision == self._written.get(rm_id, 0)
        if not is_last and not epoch_of(document) <= self._epoch(rm_id) > 0:
            raise Conflict(f"RM {rm_id} has another owner")
        return document.revision

    async def _set(self, rm_id: RmId, packed: bytes | None, revision: int) -> None:
        key = key_of(rm_id)
        if packed is None:
            await self._store.compare_and_set(key, None, revision)
            self._written.pop(rm_id, None)
            return
        value = document_of(packed, self._epoch(rm_id))
        self._written[rm_id] = await self._store.compare_and_set(key, value, revision)

    def _spawn(self, rm_id: RmId, work: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        task = asyncio.get_running_loop().create_task(work, name="shared revisions")
        self._tasks[task] = rm_id
        task.add_done_callback(self._tasks.pop)
        return task


def key_of(rm_id: RmId) -> str:
    """Key of the document of an RM."""
    return CONFIGURATIONS + quote(rm_id, safe="")


def rm_id_of(key: str) -> RmId:
    """The RM of a key of `key_of`."""
    return RmId(unquote(key.removeprefix(CONFIGURATIONS)))


def document_of(packed: bytes, epoch: int) -> bytes:
    """A document with packed revisions, empty for none, and the epoch of their owner."""
    return json.dumps({"format": FORMAT, "epoch": epoch}).encode() + b"\n" + packed


def packed_of(document: bytes) -> bytes:
    """The packed revisions in a document; empty for none."""
    return document.partition(b"\n")[2]


def epoch_of(document: Document) -> int:
    """The epoch of the owner that has written the document; 0 if it does not say."""
    try:
        epoch = json.loads(document.value[:MAX_HEAD].partition(b"\n")[0])["epoch"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return 0
    return epoch if isinstance(epoch, int) else 0


def pack(revisions: Revisions) -> bytes:
    """The revisions as a document, the oldest left out as far as it would be too large.

    Raises:
        OSError: the revision in force alone is too large.
    """
    while True:
        record = b64encode(encode(revisions)).decode()
        document = {"record": record, "texts": texts_of(revisions)}
        packed = zlib.compress(json.dumps(document).encode())
        if len(packed) + MAX_HEAD <= MAX_DOCUMENT:
            return packed
        if len(revisions.kept) == 1:
            raise OSError(
                f"the configuration of RM {revisions.rm_id} has {len(packed)} bytes when it is packed, "
                f"and the store takes {MAX_DOCUMENT - MAX_HEAD}"
            )
        revisions = replace(revisions, kept=revisions.kept[(len(revisions.kept) + 1) // 2 :])


def unpack(rm_id: RmId, packed: bytes) -> Revisions:
    """The revisions of a document of `pack`.

    Raises:
        Damaged: it is none, or it belongs to another RM.
    """
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(packed, MAX_UNPACKED)
        if not unpacking.eof:
            raise Damaged("it is cut off, or too large")
        document = json.loads(data)
        revisions = decode(b64decode(document["record"]), document["texts"])
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"it cannot be read: {error}") from None
    if revisions.rm_id != rm_id:
        raise Damaged(f"it belongs to RM {revisions.rm_id}")
    return revisions
