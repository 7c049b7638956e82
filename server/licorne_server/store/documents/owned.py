"""Documents of RMs, which follow their RM to its next owner.

A document begins with the epoch of its owner, as ``epoch N`` in its first line, which the owner writes under
compare-and-set when it reads the document. From then on any write of an earlier owner fails, with the error
that nothing was stored. The epoch also decides in cases where the revision cannot: after a write whose answer
was lost, and after a late write of an earlier owner.
"""

import asyncio
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from hashlib import sha256
from typing import Any, Generic, TypeVar
from urllib.parse import quote, unquote
from weakref import WeakValueDictionary

import structlog

from licorne_core.values.ids import RmId
from licorne_server.store.documents.documents import Conflict, Document, Documents, StoreError
from licorne_server.store.documents.encoding import Newer

_MARK = b"epoch "
_DIGITS = 20


def headed(content: bytes, epoch: int) -> bytes:
    """Make a document with an owner's epoch; without content it only marks the owner."""
    return b"%s%d\n%s" % (_MARK, epoch, content)


def content_of(value: bytes) -> bytes:
    """The content of a document: the part after the epoch line, or all of it if there is no such line."""
    return value.partition(b"\n")[2] if value.startswith(_MARK) else value


def epoch_of(document: Document) -> int:
    """The epoch of the owner that has written the document; 0 if there is no epoch line."""
    number = document.value.partition(b"\n")[0].removeprefix(_MARK)
    is_said = document.value.startswith(_MARK) and number.isdigit() and len(number) <= _DIGITS
    return int(number) if is_said else 0


MAX_HEAD = len(headed(b"", 0)) + _DIGITS
"""Maximum number of bytes of the epoch line."""


log = structlog.get_logger("core.documents")

MAX_UNPACKED = 64 * 1024 * 1024
"""Maximum number of bytes of unpacked content."""

LARGE = 256 * 1024
"""Number of bytes above which a content is digested in a thread."""

NOTHING = (0, b"")
"""Revision and digest of a missing document."""

T = TypeVar("T")


class Damaged(Exception):
    """A document that its owner cannot read; the text gives the reason."""


class AnotherOwner(Conflict):
    """The RM's document now belongs to another owner. Nothing was changed."""


class DocumentForm(ABC, Generic[T]):
    """A kind of stored value of each RM, and its encoding. Methods are called in threads."""

    prefix: str
    """Prefix of the keys; the quoted id of the RM follows."""
    what: str
    """Name of the value, for the log."""

    @abstractmethod
    def encode(self, rm_id: RmId, value: T, largest: int) -> bytes:
        """Encode a value in at most `largest` bytes; the least important parts are left out if necessary.

        Raises:
            StoreError: the remainder is still too large.
        """

    @abstractmethod
    def decode(self, rm_id: RmId, content: bytes) -> T:
        """Decode a value.

        Raises:
            Damaged: the bytes are no such value.
            Newer: a newer server has written them.
        """

    def key_of(self, rm_id: RmId) -> str:
        """Key of the document of an RM."""
        return self.prefix + quote(rm_id, safe="")


class Writes:
    """The running writes of documents, by RM."""

    def __init__(self, what: str) -> None:
        """Start without writes; `what` is used in the names of the tasks."""
        self._what = what
        self._locks: WeakValueDictionary[RmId, asyncio.Lock] = WeakValueDictionary()
        self._tasks: dict[asyncio.Task[bool], RmId] = {}

    def lock(self, rm_id: RmId) -> asyncio.Lock:
        """The lock that is held while a document of the RM is written, so that its writes are ordered."""
        return self._locks.setdefault(rm_id, asyncio.Lock())

    def begin(self, rm_id: RmId, work: Coroutine[Any, Any, bool]) -> asyncio.Task[bool]:
        """Begin a write."""
        task = asyncio.get_running_loop().create_task(work, name=f"{self._what} of an RM")
        self._tasks[task] = rm_id
        task.add_done_callback(self._tasks.pop)
        return task

    async def end(self, rm_id: RmId | None = None, *, timeout: float) -> None:  # noqa: ASYNC109
        """Wait, for at most `timeout` seconds, for the running writes of the RM, or of all RMs."""
        begun = [task for task, of in self._tasks.items() if rm_id in (None, of)]
        if begun:
            await asyncio.wait(begun, timeout=timeout)


class Owned(Generic[T]):
    """The documents of one form, for the RMs that this server owns. The writes of an RM are ordered."""

    def __init__(self, documents: Documents, form: DocumentForm[T], epoch: Callable[[RmId], int]) -> None:
        """`epoch` returns the epoch of an RM that is served here, or 0."""
        self.documents = documents
        self._form = form
        self._epoch = epoch
        # Revision and digest of each document as this server has last read or written it.
        self._known: dict[RmId, tuple[int, bytes]] = {}
        # Contents between `prepare` and `commit`; the latest values to be saved.
        self._prepared: dict[RmId, bytes] = {}
        self._latest: dict[RmId, T] = {}
        self._writes = Writes(form.what)
        # RMs whose last write has failed: only the first failure is logged.
        self._failing: set[RmId] = set()

    def found(self) -> Iterator[tuple[RmId, T]]:
        """The values in the documents on the disk of this process, by RM.

        Raises:
            SettingsError: a document cannot be read.
        """
        for key, document in self.documents.found(self._form.prefix).items():
            rm_id, content = RmId(unquote(key.removeprefix(self._form.prefix))), content_of(document.value)
            self._known[rm_id] = document.revision, sha256(content).digest()
            try:
                if content:
                    yield rm_id, self._form.decode(rm_id, content)
            except Damaged as error:
                raise self.documents.unusable(f"is damaged: of RM {rm_id}, {error}") from None
            except Newer as error:
                raise self.documents.unusable(f"is of a newer version: of RM {rm_id}, {error}") from None

    async def fetch(self, rm_id: RmId) -> T | None:
        """Read the stored value of an RM that this server owns from now on; None if there is none.

        Raises:
            StoreError: the store does not answer, another owner writes at the same time, or a newer server
                has written the document, which is not changed.
            Damaged: the document cannot be read. It is replaced by the next write.
        """
        await self.written(rm_id)
        async with self._writes.lock(rm_id):
            document = await self.documents.read(self._form.key_of(rm_id))
            content = content_of(document.value)
            # A missing document is not created here, as the RM may never register.
            self._known.pop(rm_id, None)
            if document.revision:
                await self._set(rm_id, content, document.revision)
        try:
            return await asyncio.to_thread(self._form.decode, rm_id, content) if content else None
        except Newer as error:
            raise StoreError(f"document {self._form.key_of(rm_id)!r}: {error}") from None

    async def prepare(self, rm_id: RmId, value: T) -> None:
        """Write the value in addition to the current one, so that `commit` needs no more room on a disk.

        Raises:
            StoreError: it cannot be stored, or the RM has another owner. The stored value is unchanged.
        """
        content = await self._encoded(rm_id, value)
        # A running write must not come between the two steps.
        async with self._writes.lock(rm_id):
            replaced = await self._replaceable(rm_id)
            document = headed(content, self._epoch(rm_id))
            await self.documents.prepare(self._form.key_of(rm_id), document, replaced)
            self._prepared[rm_id] = content

    async def commit(self, rm_id: RmId) -> bool:
        """Replace the stored value by the prepared value; returns True if it will outlive all servers."""
        content = self._prepared.pop(rm_id)
        self._latest.pop(rm_id, None)
        is_written = await asyncio.shield(self._writes.begin(rm_id, self._write_content(rm_id, content)))
        return is_written and self.documents.persistent

    def discard(self, rm_id: RmId) -> None:
        """Drop the prepared value."""
        if self._prepared.pop(rm_id, None) is not None:
            self._writes.begin(rm_id, self._discard(rm_id))

    def save(self, rm_id: RmId, value: T) -> None:
        """Store the value as soon as possible, unless it was stored last; a failure is logged."""
        if self._latest.get(rm_id) is not value:
            self._latest[rm_id] = value
            self._writes.begin(rm_id, self._save(rm_id, value))

    async def write(self, rm_id: RmId, value: T) -> bool:
        """Store the value; returns True if it was stored. A failure is logged."""
        return await asyncio.shield(self._writes.begin(rm_id, self._write_value(rm_id, value)))

    def drop(self, rm_id: RmId) -> None:
        """Delete the document, unless it belongs to another owner by now."""
        self._latest.pop(rm_id, None)
        self._writes.begin(rm_id, self._write_content(rm_id, None))

    async def written(self, rm_id: RmId) -> None:
        """Wait, for a bounded time, until the running writes of the RM have ended, successfully or not.

        So an act that is confirmed to an operator survives the server, and is passed to the RM's next owner;
        a failed write is logged.
        """
        await self._writes.end(rm_id, timeout=self.documents.patience)

    async def close(self) -> None:
        """Complete all writes, within a bounded time."""
        await self._writes.end(timeout=self.documents.patience)

    async def _save(self, rm_id: RmId, value: T) -> bool:
        if self._latest.get(rm_id) is not value:
            return False  # another task writes a newer value
        is_written = await self._write_value(rm_id, value)
        if not is_written and self._latest.get(rm_id) is value:
            del self._latest[rm_id]  # the next `save` writes it
        return is_written

    async def _write_value(self, rm_id: RmId, value: T) -> bool:
        async with self._writes.lock(rm_id):
            try:
                content = await self._encoded(rm_id, value)
            except StoreError as error:
                self._failed(rm_id, error)
                return False
            return await self._written(rm_id, content)

    async def _write_content(self, rm_id: RmId, content: bytes | None) -> bool:
        async with self._writes.lock(rm_id):
            return await self._written(rm_id, content)

    async def _discard(self, rm_id: RmId) -> bool:
        async with self._writes.lock(rm_id):
            # A later `prepare` has replaced the prepared value.
            if rm_id in self._prepared:
                return True
            try:
                await self.documents.discard(self._form.key_of(rm_id))
            except StoreError as error:
                log.warning(f"prepared {self._form.what} not discarded", rm_id=rm_id, reason=str(error))
                return False
        return True

    async def _written(self, rm_id: RmId, content: bytes | None) -> bool:
        """Write or delete the document; returns True on success."""
        revision, before = self._known.get(rm_id, NOTHING)
        if content is not None and await _digest(content) == before:
            return True
        try:
            try:
                await self._set(rm_id, content, revision)
            except Conflict:
                # The answer to an earlier write of this server may have been lost: read the document again.
                await self._set(rm_id, content, await self._replaceable(rm_id))
        except StoreError as error:
            self._failed(rm_id, error)
            return False
        self._failing.discard(rm_id)
        return True

    async def _replaceable(self, rm_id: RmId) -> int:
        """The current revision of the document, if this server may replace it.

        Raises:
            StoreError: the store does not answer, or the RM has another owner.
        """
        document = await self.documents.read(self._form.key_of(rm_id))
        is_last = document.revision == self._known.get(rm_id, NOTHING)[0]
        is_own = is_last or self.documents.exclusive
        if not is_own and not epoch_of(document) <= self._epoch(rm_id) > 0:
            raise AnotherOwner(f"RM {rm_id} has another owner")
        return document.revision

    async def _set(self, rm_id: RmId, content: bytes | None, revision: int) -> None:
        key = self._form.key_of(rm_id)
        if content is None:
            await self.documents.compare_and_set(key, None, revision)
            self._known.pop(rm_id, None)
            return
        document = headed(content, self._epoch(rm_id))
        digest = await _digest(content)
        self._known[rm_id] = await self.documents.compare_and_set(key, document, revision), digest

    async def _encoded(self, rm_id: RmId, value: T) -> bytes:
        return await asyncio.to_thread(self._form.encode, rm_id, value, self.documents.largest - MAX_HEAD)

    def _failed(self, rm_id: RmId, error: StoreError) -> None:
        """Log once that the RM's document is not written, unless the RM has another owner."""
        if not isinstance(error, AnotherOwner) and rm_id not in self._failing:
            self._failing.add(rm_id)
            log.error(f"{self._form.what} not stored", rm_id=rm_id, reason=str(error))


async def _digest(content: bytes) -> bytes:
    """The digest of a content. A large content is digested in a thread, because that takes milliseconds."""
    digest = sha256(content) if len(content) <= LARGE else await asyncio.to_thread(sha256, content)
    return digest.digest()


def pack(data: bytes) -> bytes:
    """Compress the content of a document."""
    return zlib.compress(data)


def unpack(content: bytes) -> bytes:
    """Decompress the content of a document.

    Raises:
        Damaged: the content is truncated, too large, or not compressed data.
    """
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(content, MAX_UNPACKED)
    except zlib.error as error:
        raise Damaged(f"it cannot be read: {error}") from None
    if not unpacking.eof:
        raise Damaged("it is cut off, or too large")
    return data
