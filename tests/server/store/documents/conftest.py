"""Documents of every backend, and the directory of those that have one."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest

from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Documents
from licorne_server.store.documents.kept import Kept
from support.coordination.local_store import LocalBackend, serving

BACKENDS = (
    "memory",
    "directory",
    "local",
    "stored_local",
    pytest.param("etcd", marks=pytest.mark.needs("etcd")),
    "kubernetes",
    pytest.param("cluster", marks=pytest.mark.kube),
)
"""Backends under the contract. Each has a fixture `NAME_backend`."""


class Opening(Protocol):
    """Opened documents."""

    def open(self) -> Documents:
        """Open the access of one more process, or of the only one for documents of one process."""
        ...


class KeptAlone(Opening):
    """Documents of one process."""

    def __init__(self, kept: Kept) -> None:
        """Open them."""
        self.kept = kept
        kept.open()

    def open(self) -> Documents:
        """The documents."""
        return self.kept


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Path of the state directory, which does not exist yet."""
    return tmp_path / "deep" / "state"


@pytest.fixture
async def memory_backend() -> Opening:
    """A server without a directory."""
    return KeptAlone(Kept())


@pytest.fixture
async def directory_backend(folder: Path) -> Opening:
    """A server with a directory."""
    return KeptAlone(Kept(Disk(folder)))


@pytest.fixture
async def stored_local_backend(folder: Path) -> AsyncIterator[LocalBackend]:
    """Workers of a supervisor with a directory."""
    kept = Kept(Disk(folder))
    kept.open()
    async with serving(kept) as backend:
        yield backend


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Opening:
    """A backend of each kind."""
    made: Opening = request.getfixturevalue(f"{request.param}_backend")
    return made


@pytest.fixture
async def opened(backend: Opening) -> AsyncIterator[Callable[[], Documents]]:
    """Opens documents, and closes them at the end."""
    documents: list[Documents] = []

    def open_one() -> Documents:
        documents.append(backend.open())
        return documents[-1]

    yield open_one
    for each in documents:
        await each.close()


@pytest.fixture
def documents(opened: Callable[[], Documents]) -> Documents:
    """The documents, as accessed by one process."""
    return opened()


@pytest.fixture
def others(opened: Callable[[], Documents], documents: Documents) -> Documents:
    """The same documents, as accessed by another process if the backend has several."""
    return documents if documents.exclusive else opened()
