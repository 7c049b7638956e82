"""Shapes of numbers in REST objects (spec § 12.4)."""

import pytest

from licorne_core.values.resources import Resources
from licorne_server.http.units import duration, milliseconds, percentages, point_in_time


@pytest.mark.parametrize(
    ("total", "used", "shown"),
    [
        ({"vcore": 3}, {"vcore": 1}, {"vcore": 33}),
        ({"vcore": 2}, {"vcore": 5}, {"vcore": 100}),
        ({"vcore": 2}, {"vcore": -1}, {"vcore": 0}),
        ({"vcore": 2, "memory": 0}, {"memory": 1}, {"vcore": 0}),
    ],
)
def test_percentages_are_whole_and_end_at_a_hundred(
    total: Resources, used: Resources, shown: dict[str, int]
) -> None:
    """Whatever is used of a type that there is some of, from 0 to 100, rounded down."""
    assert percentages(total, used) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (1.5, "1.5s"),
        (30, "30s"),
        (60, "1m0s"),
        (3600, "1h0m0s"),
        (3661.5, "1h1m1.5s"),
    ],
)
def test_durations_look_like_those_of_the_older_core(seconds: float, text: str) -> None:
    """Hours, minutes and seconds, the smaller ones always there, and no needless digits."""
    assert duration(seconds) == text


def test_points_in_time_are_those_of_the_older_core() -> None:
    """RFC 3339 in UTC, or whole milliseconds."""
    assert point_in_time(1.5) == "1970-01-01T00:00:01.500000Z"
    assert milliseconds(1.0006) == 1001
