"""Calendar windows of budgets, in UTC."""

import pytest

from licorne_core.values.windows import Window, window_at

MONDAY = 1_704_067_200
"""2024-01-01, 00:00 UTC."""


@pytest.mark.parametrize(
    ("window", "begin", "end"),
    [
        (Window.HOUR, 1_709_164_800, 1_709_168_400),  # 2024-02-29, 00:00
        (Window.DAY, 1_709_164_800, 1_709_251_200),
        (Window.WEEK, MONDAY, MONDAY + 604_800),
        (Window.MONTH, 1_706_745_600, 1_709_251_200),  # February of a leap year
        (Window.MONTH, 1_701_388_800, 1_704_067_200),  # December, up to the next year
        (Window.MONTH, 4_105_123_200, 4_107_542_400),  # February of 2100, which is no leap year
        (Window.MONTH, 0, 2_678_400),
    ],
)
def test_windows_follow_the_calendar(window: Window, begin: int, end: int) -> None:
    """A window begins as the calendar of UTC says, and ends where the next one begins."""
    for time in (begin, begin + 0.25, (begin + end) // 2, end - 0.25):
        assert window_at(window, time) == (begin, end)
    assert window_at(window, end).begin == end
