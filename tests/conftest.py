"""What every test may use: options, the marker of acceptance rows, and the table made of them."""

from pathlib import Path

import pytest

from acceptance import RowTable

WORLDS = 800
"""Random worlds that each property is tried on, unless --worlds says otherwise."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of our own."""
    group = parser.getgroup("licorne")
    group.addoption(
        "--worlds", type=int, default=WORLDS, help="random worlds for the main property test"
    )
    group.addoption(
        "--rewrite", action="store_true", help="write what scenarios print into their files"
    )
    group.addoption(
        "--rows-table", metavar="FILE", help="write a table of acceptance rows and their tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and the table when it is wanted."""
    config.addinivalue_line("markers", "row(*numbers): the acceptance rows that a test covers")
    path = config.getoption("--rows-table")
    if path:
        config.pluginmanager.register(RowTable(Path(path)))


@pytest.fixture
def worlds(request: pytest.FixtureRequest) -> int:
    """How many random worlds to try."""
    count: int = request.config.getoption("--worlds")
    return count


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether expected output is to be written instead of compared."""
    wanted: bool = request.config.getoption("--rewrite")
    return wanted
