"""The highest priority among many, by counting."""

from hypothesis import given
from hypothesis import strategies as st

from licorne_core.values.priorities import INT32_MAX, INT32_MIN, NO_PRIORITY, PriorityCounts, clamp_priority


@given(st.lists(st.integers(-3, 3), max_size=60))
def test_top_is_the_maximum(priorities: list[int]) -> None:
    """After any additions and removals `top` is the maximum, and changes are announced."""
    counts = PriorityCounts()
    present: list[int] = []
    for step, priority in enumerate(priorities):
        before = counts.top
        if step % 3 == 2 and present:
            gone = present.pop(priority % len(present))
            changed = counts.remove(gone)
        else:
            present.append(priority)
            changed = counts.add(priority)
        assert counts.top == max(present, default=NO_PRIORITY)
        assert changed == (counts.top != before)


def test_priorities_stay_within_int32() -> None:
    """An offset beyond the ends of int32 stops there (spec § 4.11)."""
    assert clamp_priority(2**40) == INT32_MAX
    assert clamp_priority(-(2**40)) == INT32_MIN
    assert clamp_priority(7) == 7


def test_many_that_went_leave_the_others_in_order() -> None:
    """When most priorities have gone, and were forgotten at once, the next highest is found."""
    counts = PriorityCounts()
    for priority in range(200):
        counts.add(priority)
    for priority in range(10, 190):
        assert not counts.remove(priority)
    for priority in range(199, 189, -1):
        assert counts.top == priority
        assert counts.remove(priority)
    assert counts.top == 9
