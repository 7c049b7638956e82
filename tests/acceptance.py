"""The tests that cover each acceptance row.

A test declares its rows with ``@pytest.mark.row(20, 21)``. Any run with ``--rows-table FILE`` writes a
markdown table of the collected rows; with ``--collect-only`` no test is run.
"""

from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

import pytest

CLAIMED: tuple[int, ...] = (*range(1, 169),)
"""The rows that this release claims."""

TESTS = Path(__file__).resolve().parent
ROWS = pytest.StashKey[set[int]]()
TITLE = "| row | tests |\n|---|---|\n"


class RowTable:
    """Gathers the rows of the collected tests, and how the tests ended if they ran.

    If several processes share the tests, each of them collects all, and passes its rows on; the process that
    started them receives the outcomes, and writes the table.
    """

    def __init__(self, config: pytest.Config, path: Path) -> None:
        """The table will be written to the path when the session ends."""
        self.config = config
        self.path = path
        self.tests: dict[int, list[str]] = {}
        self.failed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Record the rows of every test that remains after selection."""
        for item in session.items:
            for row in rows_of(item):
                names = self.tests.setdefault(row, [])
                name = shown_name(item, row)
                if name not in names:
                    names.append(name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record failures, also those of setup."""
        if report.failed:
            self.failed |= {report.nodeid, report.nodeid.partition("[")[0]}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over the rows collected by a worker; all workers have collected the same."""
        self.tests = getattr(node, "workeroutput", {}).get("rows") or self.tests

    def pytest_sessionfinish(self) -> None:
        """Write the table; a worker passes its rows on."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["rows"] = self.tests
            return
        lines = [self._line(row) for row in sorted(self.tests.keys() | set(CLAIMED))]
        self.path.write_text(TITLE + "".join(lines), encoding="utf-8")

    def _line(self, row: int) -> str:
        tests = self.tests.get(row, [])
        shown = [f"`{name}`{' **failed**' if name in self.failed else ''}" for name in tests]
        return f"| {row} | {'<br>'.join(shown) or '**none**'} |\n"


def note_rows(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record the rows that the collected tests cover.

    Tests that are marked `whole` judge the collection, and are left out of a partial one.
    """
    config.stash[ROWS] = {row for item in items for row in rows_of(item)}
    judges = [item for item in items if item.get_closest_marker("whole")]
    if judges and not is_whole(config):
        config.hook.pytest_deselected(items=judges)
        items[:] = [item for item in items if item not in judges]


def is_whole(config: pytest.Config) -> bool:
    """True if all tests were collected, even if some are deselected later."""
    if any(config.getoption(name, None) for name in ("ignore", "ignore_glob", "lf")):
        return False
    given = [config.invocation_params.dir / argument for argument in config.args]
    return any(TESTS.is_relative_to(path.resolve()) for path in given)


def rows_of(item: pytest.Item) -> Iterable[int]:
    """The rows that a test declares."""
    return (row for mark in item.iter_markers("row") for row in mark.args)


def shown_name(item: pytest.Item, row: int) -> str:
    """The name of a test without parameters, unless only these parameters cover the row."""
    marks = getattr(getattr(item, "function", None), "pytestmark", [])
    of_all = any(mark.name == "row" and row in mark.args for mark in marks)
    return item.nodeid.partition("[")[0] if of_all else item.nodeid


def rows_without_tests(covered: Container[int]) -> list[int]:
    """The claimed rows that are not covered."""
    return [row for row in CLAIMED if row not in covered]
