"""Costs of tests: CPU and time of each folder at the end of a run, and the tests above the budget."""

import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from pathlib import PurePosixPath

import pytest

BUDGET = 0.5
"""Seconds of CPU that a test may take, its processes included; what takes more is marked `slow`.

Random worlds have a number instead.
"""
MOST_SHOWN = 20
"""Of the tests above the budget, so many are named."""


def spent() -> float:
    """The CPU seconds of this process so far, and of its ended child processes."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


class Meter:
    """Adds the CPU seconds, as `cpu`, to the report of each phase of a test, also with `-n`."""

    def __init__(self) -> None:
        """Start without a running test."""
        self._before = spent()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """Start the measurement of a test, so that CPU between tests does not count."""
        self._before = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the CPU of a phase of a test to its report."""
        report = yield
        now = spent()
        report.cpu, self._before = now - self._before, now  # type: ignore[attr-defined]
        return report


def cpu_of(report: pytest.TestReport) -> float:
    """The CPU seconds of a phase of a test."""
    return getattr(report, "cpu", 0.0)


def table(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """A line for each folder, the costliest first: CPU seconds, seconds, tests, name.

    Seconds are those of all processes together, including setup and teardown.
    """
    cpu: defaultdict[str, float] = defaultdict(float)
    seconds: defaultdict[str, float] = defaultdict(float)
    tests: defaultdict[str, set[str]] = defaultdict(set)
    for report in reports:
        folder = str(PurePosixPath(report.nodeid.partition("::")[0]).parent)
        cpu[folder] += cpu_of(report)
        seconds[folder] += report.duration
        tests[folder].add(report.nodeid)
    yield f"{'cpu':>9}  {'seconds':>9}  {'tests':>6}  folder"
    for folder, used in sorted(cpu.items(), key=lambda item: -item[1]):
        yield f"{used:9.1f}  {seconds[folder]:9.1f}  {len(tests[folder]):6}  {folder}"


def above_budget(reports: Iterable[pytest.TestReport]) -> Iterator[str]:
    """The number of tests above the budget without the mark `slow`, then each, the costliest first."""
    cpu: defaultdict[str, float] = defaultdict(float)
    for report in reports:
        if not {"slow", "worlds"}.intersection(report.keywords):
            cpu[report.nodeid] += cpu_of(report)
    found = sorted(((used, name) for name, used in cpu.items() if used > BUDGET), reverse=True)
    if found:
        yield f"above {BUDGET:g} s of CPU, and not marked slow: {len(found)} of {len(cpu)} tests"
        yield from (f"{used:9.1f}  {name}" for used, name in found[:MOST_SHOWN])
