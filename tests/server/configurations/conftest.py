"""State directories that are opened and left again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from licorne_server.configurations.revisions import Revisions
from licorne_server.configurations.state_dir import StateDir
from support.state import Opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the state directory is; it is not there yet."""
    return tmp_path / "deep" / "state"


@pytest.fixture
def opened(folder: Path) -> Iterator[Opened]:
    """Opens the directory as another process would, after the former one has left it."""
    last: list[StateDir] = []

    def open_again() -> tuple[StateDir, list[Revisions]]:
        for directory in last:
            directory.close()
        last.append(StateDir(folder))
        return last[-1], last[-1].open()

    yield open_again
    for directory in last:
        directory.close()
