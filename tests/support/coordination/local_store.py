"""A store of the backend `local`, served in the test's own loop in place of a supervisor."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from licorne_server.process.clock import SystemClock
from licorne_server.process.coordination import Coordination
from licorne_server.store.coordination.local import LocalStore
from licorne_server.store.coordination.local_service import LocalService, Records
from licorne_server.store.coordination.store import Store
from licorne_server.store.documents.kept import Kept
from support.coordination.backends import LONG


class LocalBackend:
    """A running store, by the path of its socket."""

    def __init__(self, socket: Path) -> None:
        """Use a socket served by the test."""
        self.socket = socket

    def open(self, lease: float = LONG) -> Store:
        """The access of one more member."""
        return LocalStore(Coordination(backend="local", hosts=(str(self.socket),), lease=lease))


@asynccontextmanager
async def serving(documents: Kept | None = None) -> AsyncIterator[LocalBackend]:
    """A store that runs inside the block; its documents are closed at the end."""
    documents = documents or Kept()
    with TemporaryDirectory(prefix="licorne-") as folder:
        socket = Path(folder) / "store"
        service = LocalService(Records(), documents, SystemClock())
        await service.start(socket)
        try:
            yield LocalBackend(socket)
        finally:
            await service.stop()
            await documents.close()
