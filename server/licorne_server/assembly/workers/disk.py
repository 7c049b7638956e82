"""The state directory of a supervisor: what operators applied, marked and budgeted outlives it.

The directory is that of a single server, and so are its contents: an RM's revisions are in their own
tables, and documents have the keys that a single server gives them. So one may follow the other.
What only those who run now need is not stored: slices of budgets, moves of RMs, and the secret.
All workers end with their supervisor, and RMs replay what the slices are made of.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import structlog

from licorne_server.process.settings import SettingsError
from licorne_server.rms.budgets.definitions import KEY as BUDGETS
from licorne_server.store.configurations.revisions import Damaged
from licorne_server.store.configurations.shared import (
    CONFIGURATIONS,
    document_of,
    key_of,
    pack,
    packed_of,
    rm_id_of,
    unpack,
)
from licorne_server.store.configurations.state_dir import StateDir
from licorne_server.store.coordination.local_service import Storage
from licorne_server.store.coordination.ownership import DRAIN
from licorne_server.store.coordination.store import USAGE, Document, StoreError

log = structlog.get_logger("core.workers")

EPOCHS = "epochs"
"""Key of an empty document, whose revision is above all epochs given to RMs that named none."""

CLAIMS = 1 << 24
"""Epochs of one run that no later run gives again, even if the clock has gone back."""


class Disk(Storage):
    """The documents of workers in a state directory. Writes are in order, in a thread."""

    documents: dict[str, Document]
    """What was stored when the directory was opened."""

    def __init__(self, folder: Path) -> None:
        """Lock the directory, and read it; this waits for the disk.

        Raises:
            SettingsError: the directory is unusable or damaged, or another server uses it.
        """
        self._dir = StateDir(folder)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
        # Packed revisions of each key between `prepare` and `write`; used in the thread only.
        self._prepared: dict[str, bytes] = {}
        found = self._dir.open()
        try:
            stored = self._dir.documents()
            self._epochs = stored.get(EPOCHS, Document()).revision
            self.documents = {key: document for key, document in stored.items() if self.keeps(key)}
            for revisions in found:
                value = document_of(pack(revisions), 0)
                self.documents[key_of(revisions.rm_id)] = Document(value=value, revision=1)
        except OSError as error:
            self._dir.close()
            raise SettingsError(f"--state-dir {folder} cannot be used: {error}") from None

    def rising(self, start: int) -> int:
        """The number above which this run gives epochs: `start`, or a higher one after a clock went back.

        A disk that is full now does not prevent the start.
        """
        start = max(start, self._epochs)
        try:
            self._dir.write_document(EPOCHS, Document(revision=start + CLAIMS))
        except OSError as error:
            log.warning("epochs not stored", reason=str(error))
        return start

    def keeps(self, key: str) -> bool:
        """True for what operators have said, and for what was used."""
        return key == BUDGETS or key.startswith((CONFIGURATIONS, DRAIN, USAGE))

    async def write(self, key: str, before: Document, value: bytes | None) -> None:
        """Store the new value of a document, None for none; see `Storage`."""
        await self._run(partial(self._write, key, before, value))

    async def prepare(self, key: str, value: bytes) -> None:
        """Write an RM's revisions beside those that count; see `Storage`."""
        await self._run(partial(self._prepare, key, value))

    async def discard(self, key: str) -> None:
        """Delete the prepared revisions; see `Storage`."""
        await self._run(partial(self._discard, key))

    async def close(self) -> None:
        """Finish all writes, and unlock the directory."""
        await asyncio.to_thread(self._thread.shutdown)
        self._dir.close()

    async def _run(self, work: Callable[[], None]) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, work)
        except (OSError, Damaged) as error:
            raise StoreError(str(error)) from None

    def _write(self, key: str, before: Document, value: bytes | None) -> None:
        if not key.startswith(CONFIGURATIONS):
            new = None if value is None else Document(value=value, revision=before.revision + 1)
            self._dir.write_document(key, new)
            return
        packed = packed_of(value or b"")
        # An owner that has only written its epoch needs no disk: an RM is served on a full one too.
        if packed == packed_of(before.value):
            return
        rm_id = rm_id_of(key)
        if not packed:
            self._dir.drop(rm_id)
        elif packed == self._prepared.pop(key, b""):
            self._dir.commit(unpack(rm_id, packed))
        else:
            self._dir.write(unpack(rm_id, packed))

    def _prepare(self, key: str, value: bytes) -> None:
        if key.startswith(CONFIGURATIONS):
            packed = packed_of(value)
            self._dir.prepare(unpack(rm_id_of(key), packed))
            self._prepared[key] = packed

    def _discard(self, key: str) -> None:
        if self._prepared.pop(key, None) is not None:
            self._dir.discard(rm_id_of(key))
