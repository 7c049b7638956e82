"""State directories that are opened and closed."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from licorne_server.store.configurations.revisions import Revisions
from licorne_server.store.configurations.state_dir import StateDir
from support.state import Opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Path of the state directory, which does not exist yet."""
    return tmp_path / "deep" / "state"


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    """Opens the directory as a new process, after the previous one has closed it."""
    last: list[StateDir] = []

    def open_again() -> tuple[StateDir, list[Revisions]]:
        for directory in last:
            directory.close()
        last.append(StateDir(folder))
        return last[-1], last[-1].open()

    yield open_again
    for directory in last:
        directory.close()
