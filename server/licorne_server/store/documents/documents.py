"""The interface for the persistent state of a server."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from licorne_server.process.settings import SettingsError

SHARED = "shared/"
"""Prefix of the documents that snapshots of members contain. Other documents are read one by one."""

MAX_DOCUMENT = 768 * 1024
"""Maximum bytes of a document in a store of members: etcd and Kubernetes accept objects of 1 MiB."""

TRIES = 8
"""Maximum number of attempts to change a document that others change at the same time."""


class StoreError(Exception):
    """A failure or time-out of the store or the disk. The operation may have been carried out."""


class Conflict(StoreError):
    """Another writer was faster, or a condition was not met. Nothing was changed."""


class TooLarge(StoreError):
    """The document is larger than the store accepts. Nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A document and the revision of its key, for compare-and-set; revision 0 if there is no document."""

    value: bytes = b""
    revision: int = 0


class Documents(ABC):
    """Named values, each of which is replaced under compare-and-set.

    What every backend promises:

    - Durability: every later reader sees a write that has returned. If the documents are `persistent`, the
      write also survives a kill of all processes. An interrupted write was done completely or not at all.
    - Order: the writes of a key follow one another, and their revisions never repeat.
    - Conflict: of two writes to the same revision one succeeds, and the other raises `Conflict`.
    - Size: a value has up to `largest` bytes. A larger value raises `TooLarge` before it is sent.
    - Failure: whatever a disk or a network does, the event loop is not blocked, and the call raises
      StoreError. The document is unchanged, unless an answer was lost. A cancelled call may have been carried
      out.
    - Shutdown: `close` waits for writes that have begun. Later calls raise StoreError.
    """

    persistent: bool = True
    """True if documents outlive all servers."""
    exclusive: bool = False
    """True if no other process writes the documents."""
    shared: bool = True
    """True if other servers, which have different files, also write the documents."""
    largest: int = MAX_DOCUMENT
    """Maximum number of bytes of a document."""
    patience: float = 5.0
    """Seconds to wait for pending writes when the server stops, or before an operator gets an answer."""

    trouble: str = ""
    """A text for operators about a problem with writes, while reads and leases continue; empty if none."""

    @property
    def are_read_again(self) -> bool:
        """False if stored documents cannot be read later, because they end with this process."""
        return self.persistent or not self.exclusive

    def open(self) -> None:  # noqa: B027
        """Read the documents, if they are on the disk of this process; blocks on it.

        Raises:
            SettingsError: the disk cannot be used, or its content is damaged.
        """

    def found(self, prefix: str) -> Mapping[str, Document]:
        """Documents with this prefix that `open` has read; empty for a store, which is read key by key."""
        return {}

    def unusable(self, why: str) -> SettingsError:
        """The error for unusable documents, with the reason."""
        return SettingsError(f"the documents cannot be used: {why}")

    @abstractmethod
    async def read(self, key: str) -> Document:
        """The document under the key."""

    @abstractmethod
    async def compare_and_set(self, key: str, value: bytes | None, revision: int) -> int:
        """Replace the document of this revision; 0 creates it, None removes it. Returns the new revision.

        Raises:
            Conflict: the document has another revision.
            TooLarge: the value has more than `largest` bytes.
        """

    async def prepare(self, key: str, value: bytes, revision: int) -> None:
        """Check whether the same `compare_and_set` would succeed now. On a disk, room is reserved for it.

        A prepared value has no effect until `compare_and_set` of the same value.

        Raises:
            Conflict: the document has another revision.
        """
        self.check_size(key, value)
        if (await self.read(key)).revision != revision:
            raise Conflict(f"document {key!r} has another revision than {revision}")

    async def discard(self, key: str) -> None:  # noqa: B027
        """Release the room that `prepare` has reserved: the document is unchanged."""

    @abstractmethod
    async def close(self) -> None:
        """Complete running writes, and close files and connections."""

    async def update(self, key: str, change: Callable[[Document], bytes | None], tries: int = TRIES) -> bool:
        """Replace a document by the result of `change` for the current document; returns True if they differ.

        `change` may be called again if others write at the same time. Its errors are raised.

        Raises:
            Conflict: others have changed the document at each attempt.
        """
        while True:
            before = await self.read(key)
            value = change(before)
            if value == (before.value if before.revision else None):
                return False
            tries -= 1
            try:
                await self.compare_and_set(key, value, before.revision)
            except Conflict:
                if not tries:
                    raise
            else:
                return True

    def check_size(self, key: str, value: bytes | None) -> None:
        """Refuse a value that is too large.

        Raises:
            TooLarge: the value is too large.
        """
        if value is not None and len(value) > self.largest:
            raise TooLarge(f"a document may have {self.largest} bytes, and {key!r} has {len(value)}")
