"""Documents of one process: in memory, and on its disk if it has one.

Reads need no disk. A write reaches the disk before it can be read, so a disk that hangs delays only writes.
`licorne serve` stores its own documents this way, and the supervisor those of its workers.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from licorne_server.process.loop import RunToCompletion
from licorne_server.process.settings import SettingsError
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import (
    SHARED,
    Conflict,
    Document,
    Documents,
    StoreError,
    TooLarge,
)
from licorne_server.store.documents.owned import content_of

LARGEST = 32 * 1024 * 1024
"""Maximum number of bytes of a document."""

MAX_DOCUMENTS = 65_536
MAX_BYTES = 512 * 1024 * 1024
"""Maximum number of bytes of all documents with their keys."""

MAX_NAME = 1_024
"""Maximum number of characters of a key."""


class Kept(Documents):
    """Documents that this process stores, for itself or for its workers."""

    exclusive = True
    shared = False
    largest = LARGEST
    # A write may wait for a backup.
    patience = 30.0

    changes: int
    """Rises with every change of a shared document."""

    def __init__(self, disk: Disk | None = None, passing: tuple[str, ...] = ()) -> None:
        """Create the object, reading nothing; keys with a prefix in `passing` are not written to the disk."""
        self.changes = 0
        self.persistent = disk is not None
        self._disk = disk
        self._passing = passing
        self._documents: dict[str, Document] = {}
        self.watched: dict[str, Document] = {}
        """The documents that others watch."""
        self._bytes = 0
        self._revision = 0
        self._closed = False
        # Held while a document on the disk changes, from the check to the result.
        self._writing = asyncio.Lock()
        self._writes = RunToCompletion("write of a document")
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")

    def open(self) -> None:
        """Lock the directory for this process, and read its documents. See `Documents`."""
        if self._disk is None:
            return
        try:
            for key, document in self._disk.open().items():
                self._check_room(key, document.value)
                self._replace(key, document.value, document.revision)
                self._revision = max(self._revision, document.revision)
        except StoreError as error:
            self._disk.close()
            raise self.unusable(f"cannot be read: {error}") from None

    def unusable(self, why: str) -> SettingsError:
        """The error for unusable documents, which names the database. See `Documents`."""
        return super().unusable(why) if self._disk is None else self._disk.unusable(why)

    def found(self, prefix: str) -> Mapping[str, Document]:
        """The current documents with this prefix."""
        return {key: document for key, document in self._documents.items() if key.startswith(prefix)}

    def get(self, key: str) -> Document:
        """The document under the key."""
        return self._documents.get(key, Document())

    async def read(self, key: str) -> Document:
        """The document under the key, in its state on the disk."""
        self._check_open()
        return self.get(key)

    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace the document on the disk, and then for readers. See `Documents`."""
        if self._disk is None or key.startswith(self._passing):
            return self.put(key, value, revision)
        self._check_open()
        # A cancelled caller must not leave a document on the disk that is not in memory.
        return await self._writes.run(self._write(self._disk, key, value, revision))

    def put(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace a document that is not on the disk; see `compare_and_set`."""
        self._check_open()
        self._check(key, value, revision)
        return self._replace(key, value, self._next())

    async def prepare(self, key: str, value: bytes, revision: int) -> None:
        """Write a value in addition to the current one. See `Documents`."""
        self._check_open()
        # The lock is held until the disk operation has ended, even if the caller is cancelled.
        await self._writes.run(self._beside(key, value, revision))

    async def discard(self, key: str) -> None:
        """Remove a prepared value. See `Documents`."""
        if self._disk is not None:
            self._check_open()
            await self._writes.run(self._beside(key, None))

    async def close(self) -> None:
        """Complete running writes, and unlock the directory."""
        self._closed = True
        await self._writes.stop()
        await asyncio.to_thread(self._thread.shutdown)
        if self._disk is not None:
            self._disk.close()

    async def _write(self, disk: Disk, key: str, value: bytes | None, revision: int) -> int:
        async with self._writing:
            self._check(key, value, revision)
            before = self.get(key)
            # A change of only the owner is not written, so that an RM can be served even if the disk is full.
            if value is None or not before.revision or content_of(value) != content_of(before.value):
                stored = None if value is None else Document(value=value, revision=self._revision + 1)
                await self._in_thread(partial(disk.write, key, stored))
            # Other documents may have changed meanwhile. For watchers, a change that becomes visible later
            # needs a higher revision.
            return self._replace(key, value, self._next())

    async def _beside(self, key: str, value: bytes | None, revision: int = 0) -> None:
        """Prepare a value, or discard the prepared value if it is None."""
        async with self._writing:
            if value is not None:
                self._check(key, value, revision)
            if self._disk is not None:
                disk = self._disk
                work = partial(disk.discard, key) if value is None else partial(disk.prepare, key, value)
                await self._in_thread(work)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except OSError as error:
            self.trouble = f"the state directory cannot be written: {error}"
            raise StoreError(str(error)) from None
        self.trouble = ""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the documents were closed")

    def _check(self, key: str, value: bytes | None, revision: int) -> None:
        """Check whether a write would succeed; raises the error with which it would fail."""
        self.check_size(key, value)
        if len(key) > MAX_NAME:
            raise TooLarge(f"a key may have {MAX_NAME} characters, not {len(key)}")
        before = self.get(key)
        if before.revision != revision:
            raise Conflict(f"document {key!r} has revision {before.revision}, not {revision}")
        self._check_room(key, value)

    def _next(self) -> int:
        """A new revision, which no document has had."""
        self._revision += 1
        return self._revision

    def _replace(self, key: str, value: bytes | None, revision: int) -> int:
        self._bytes += self._growth(key, value)
        documents = [self._documents]
        if key.startswith(SHARED):
            self.changes += 1
            documents.append(self.watched)
        for each in documents:
            if value is None:
                each.pop(key, None)
            else:
                each[key] = Document(value=value, revision=revision)
        return 0 if value is None else revision

    def _check_room(self, key: str, value: bytes | None) -> None:
        """Refuse a document for which there is no room.

        Raises:
            StoreError: there is no room.
        """
        growth = self._growth(key, value)
        if growth > 0 and self._bytes + growth > MAX_BYTES:
            raise StoreError(f"the documents would have more than {MAX_BYTES} bytes")
        is_new = value is not None and key not in self._documents and not key.startswith(self._passing)
        if is_new and len(self._documents) >= MAX_DOCUMENTS:
            raise StoreError(f"there are {MAX_DOCUMENTS} documents already")

    def _growth(self, key: str, value: bytes | None) -> int:
        """Number of bytes by which the total of all documents grows with the new value."""
        before = self._documents.get(key)
        freed = 0 if before is None else len(key) + len(before.value)
        return (0 if value is None else len(key) + len(value)) - freed
