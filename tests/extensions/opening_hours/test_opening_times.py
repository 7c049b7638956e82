"""Arithmetic and configuration of opening hours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne_core.config.properties import settings_of
from licorne_core.config.schema import QueueSettings
from licorne_core.extensions.opening_hours import NAME
from licorne_core.extensions.opening_hours.keys import FORM
from licorne_core.extensions.opening_hours.terms import OpeningHours, clock_time
from licorne_core.values.windows import DAY

MIDNIGHT = 20_000.0 * DAY
PROPERTY = "opening.hours"
MINUTES = st.integers(0, 1439)


def hours_of(text: str) -> OpeningHours:
    """The parsed opening hours, which must close the leaf for a part of the day."""
    found = settings_of({PROPERTY: text}).of(NAME)
    assert isinstance(found, OpeningHours)
    return found


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("22:00-06:00", "00:00-06:00,22:00-24:00"),
        (" 13:00 - 17:30 , 08:00-12:00 ", "08:00-12:00,13:00-17:30"),
        ("08:00-12:00,12:00-13:00,11:00-11:30", "08:00-13:00"),
        ("22:00-00:00", "22:00-24:00"),
        ("22:00-24:00,00:00-06:00", "00:00-06:00,22:00-24:00"),
        ("00:00-00:01", "00:00-00:01"),
        (",".join(f"{hour:02}:00-{hour:02}:30" for hour in range(16)), ""),
    ],
)
def test_spans_may_be_in_any_order(text: str, written: str) -> None:
    """Spans may be in any order, adjacent, overlapping, and past midnight, and at most 16."""
    assert FORM.write(hours_of(text)) == (written or text)


@pytest.mark.parametrize("text", ["off", "Off", "00:00-24:00", "06:00-18:00,18:00-06:00"])
def test_a_leaf_that_is_always_open_has_no_hours(text: str) -> None:
    """The property is off by default, and a whole day is no restriction."""
    warnings: list[tuple[str, str]] = []
    assert settings_of({PROPERTY: text}, warnings) == QueueSettings()
    assert warnings == []


NO_LIST = "is no list of spans of the day, such as 22:00-06:00 or 08:00-12:00,13:00-17:30"
NO_TIME = "has a span that does not begin from 00:00 to 23:59, or end from 00:00 to 24:00"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", NO_LIST),
        ("22:00", NO_LIST),
        ("22-06", NO_LIST),
        ("8:00-12:00", NO_LIST),
        ("08:00-12:60", NO_LIST),
        ("08:00-12:00,", NO_LIST),
        ("08:00-12:00-13:00", NO_LIST),
        ("24:00-06:00", NO_TIME),
        ("22:00-24:01", NO_TIME),
        ("08:00-08:00", "has a span that ends when it begins; a whole day is 00:00-24:00"),
        (",".join(["08:00-09:00"] * 17), "has 17 spans, at most 16 are allowed"),
    ],
)
def test_an_invalid_value_leaves_a_leaf_open(text: str, why: str) -> None:
    """A warning names an invalid value, and the leaf is always open."""
    warnings: list[tuple[str, str]] = []
    assert settings_of({PROPERTY: text}, warnings) == QueueSettings()
    ((name, warning),) = warnings
    assert name == PROPERTY
    assert warning.endswith(f"' {why}; taken as off")


@given(st.lists(st.tuples(MINUTES, MINUTES).filter(lambda span: span[0] != span[1]), min_size=1, max_size=16))
def test_a_leaf_is_open_in_the_minutes_of_its_spans(spans: list[tuple[int, int]]) -> None:
    """A leaf is open exactly in the minutes of its spans, and does not change before the reported time."""
    text = ",".join(f"{clock_time(begin * 60)}-{clock_time(end * 60)}" for begin, end in spans)
    open_minutes = {(begin + n) % 1440 for begin, end in spans for n in range((end - begin) % 1440)}
    hours = settings_of({PROPERTY: text}).of(NAME)
    assert (hours is None) == (len(open_minutes) == 1440)
    if hours is None:
        return
    minute = 0
    while minute < 1440:
        is_open, until = hours.at(MIDNIGHT + minute * 60.0)
        assert until > MIDNIGHT + minute * 60.0
        assert hours.at(until - 0.001) == (is_open, until)
        last = int(until - MIDNIGHT) // 60
        assert {(each % 1440) in open_minutes for each in range(minute, last)} == {is_open}
        assert (last % 1440 in open_minutes) is not is_open
        minute = last
