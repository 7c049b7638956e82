"""The end of a run has the cost of each folder, and the tests above the budget."""

from typing import Literal

import pytest

from costs import BUDGET, Meter, above_budget, table


def report(
    test: str, when: Literal["setup", "call", "teardown"], seconds: float, cpu: float = 0.0, *marks: str
) -> pytest.TestReport:
    """A phase of a test that has passed."""
    made = pytest.TestReport(
        test,
        (test, 1, test),
        dict.fromkeys(marks, 1),
        "passed",
        None,
        when,
        duration=seconds,
        start=0.0,
        stop=seconds,
    )
    made.cpu = cpu  # type: ignore[attr-defined]
    return made


def test_a_folder_has_the_costs_of_all_phases_of_its_tests() -> None:
    """Setup and teardown count, a test counts once, and the costliest folder is first."""
    reports = [
        report("tests/core/test_a.py::test_one", "setup", 0.5, 0.25),
        report("tests/core/test_a.py::test_one", "call", 1.0, 1.0),
        report("tests/core/test_b.py::test_two[x/y::z]", "call", 0.25),
        report("tests/soak/test_soak.py::test_it", "call", 2.0, 0.5),
    ]
    assert [line.split() for line in table(reports)] == [
        ["cpu", "seconds", "tests", "folder"],
        ["1.2", "1.8", "2", "tests/core"],
        ["0.5", "2.0", "1", "tests/soak"],
    ]


def test_tests_above_the_budget_are_named() -> None:
    """All phases count, the costliest test is first, and slow tests are exempt."""
    reports = [
        report("test_a", "setup", 0.0, BUDGET / 2),
        report("test_a", "call", 0.0, BUDGET),
        report("test_b", "call", 0.0, BUDGET),
        report("test_c", "call", 0.0, 3 * BUDGET),
        report("test_d", "call", 0.0, 9 * BUDGET, "slow"),
    ]
    first, *named = above_budget(reports)
    assert first.endswith("2 of 3 tests")
    assert [line.split()[1] for line in named] == ["test_c", "test_a"]
    assert list(above_budget(reports[2:3])) == []


def test_a_phase_has_its_own_cpu() -> None:
    """CPU that was used before the test, or in another phase of it, is not in the report of a phase."""
    meter = Meter()
    sum(range(1_000_000))
    meter.pytest_runtest_logstart()
    phases = []
    for work in (0, 3_000_000, 0):
        sum(range(work))
        making = meter.pytest_runtest_makereport()
        next(making)
        made = report("test_a", "call", 0.0)
        with pytest.raises(StopIteration):
            making.send(made)
        phases.append(made.cpu)
    assert phases[1] == max(phases) > 0
