"""Which test covers which acceptance row.

A test says so itself, with ``@pytest.mark.row(20, 21)``. Any run with ``--rows-table FILE`` writes
what it knows as a markdown table; with ``--collect-only`` it knows all without running a test.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

CLAIMED: tuple[int, ...] = (
    *range(1, 130),
    *range(155, 163),
    164,
    168,
)
"""The rows that this release claims."""

TITLE = "| row | tests |\n|---|---|\n"


class RowTable:
    """Gathers the rows of the collected tests, and how the tests ended if they ran."""

    def __init__(self, path: Path) -> None:
        """The table will be written to the path when the session ends."""
        self.path = path
        self.tests: dict[int, list[str]] = {}
        self.failed: set[str] = set()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note the rows of every test that is left after selection."""
        for item in session.items:
            for row in rows_of(item):
                names = self.tests.setdefault(row, [])
                name = shown_name(item, row)
                if name not in names:
                    names.append(name)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note failures, in set-up too."""
        if report.failed:
            self.failed |= {report.nodeid, report.nodeid.partition("[")[0]}

    def pytest_sessionfinish(self) -> None:
        """Write the table."""
        lines = [self._line(row) for row in sorted(self.tests.keys() | set(CLAIMED))]
        self.path.write_text(TITLE + "".join(lines), encoding="utf-8")

    def _line(self, row: int) -> str:
        tests = self.tests.get(row, [])
        shown = [f"`{name}`{' **failed**' if name in self.failed else ''}" for name in tests]
        return f"| {row} | {'<br>'.join(shown) or '**none**'} |\n"


def rows_of(item: pytest.Item) -> Iterable[int]:
    """The rows that a test says it covers."""
    return (row for mark in item.iter_markers("row") for row in mark.args)


def shown_name(item: pytest.Item, row: int) -> str:
    """A test with many parameters is one test, unless only these parameters cover the row."""
    marks = getattr(getattr(item, "function", None), "pytestmark", [])
    of_all = any(mark.name == "row" and row in mark.args for mark in marks)
    return item.nodeid.partition("[")[0] if of_all else item.nodeid


def rows_without_tests(table: str) -> list[int]:
    """The claimed rows that a written table has no test for."""
    covered = {int(line.split("|")[1]) for line in table.splitlines()[2:] if "**none**" not in line}
    return [row for row in CLAIMED if row not in covered]
