"""How long the tests of each folder took, for the end of a run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

import pytest


def table(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """A line for each folder, the slowest first: its seconds, its tests, its name.

    Seconds are those of all processes together, with what is set up and cleaned away.
    """
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports:
        folder = str(PurePosixPath(report.nodeid.partition("::")[0]).parent)
        seconds[folder] += report.duration
        tests[folder].add(report.nodeid)
    yield f"{'seconds':>9}  {'tests':>6}  folder"
    for folder, spent in sorted(seconds.items(), key=lambda item: -item[1]):
        yield f"{spent:9.1f}  {len(tests[folder]):6}  {folder}"
