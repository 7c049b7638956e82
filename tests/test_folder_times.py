"""The end of a run says how long each folder took."""

from typing import Literal

import pytest

from folder_times import table


def report(test: str, when: Literal["setup", "call", "teardown"], seconds: float) -> pytest.TestReport:
    """A phase of a test that has passed."""
    return pytest.TestReport(
        test, (test, 1, test), {}, "passed", None, when, duration=seconds, start=0.0, stop=seconds
    )


def test_a_folder_has_the_time_of_all_phases_of_its_tests() -> None:
    """What is set up and cleaned away counts, a test counts once, and the slowest comes first."""
    reports = [
        report("tests/core/test_a.py::test_one", "setup", 0.5),
        report("tests/core/test_a.py::test_one", "call", 1.0),
        report("tests/core/test_b.py::test_two[x/y::z]", "call", 0.25),
        report("tests/soak/test_soak.py::test_it", "call", 2.0),
    ]
    assert [line.split() for line in table(reports)] == [
        ["seconds", "tests", "folder"],
        ["2.0", "1", "tests/soak"],
        ["1.8", "2", "tests/core"],
    ]
