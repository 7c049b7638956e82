"""Timers: deadlines by name."""

import pickle

from licorne_core.values.timers import Timers


def test_deadlines_are_due_in_order() -> None:
    """Deadlines are due in order, and none before its time."""
    timers: Timers[str] = Timers()
    timers.set("late", 20.0)
    timers.set("early", 10.0)
    assert timers.next_deadline() == 10.0
    assert timers.take_due(9.9) is None
    assert timers.take_due(25.0) == "early"
    assert timers.take_due(25.0) == "late"
    assert timers.take_due(25.0) is None


def test_a_name_has_one_deadline() -> None:
    """A deadline that is set again replaces the former deadline of its name."""
    timers: Timers[str] = Timers()
    timers.set("it", 10.0)
    timers.set("it", 30.0)
    assert timers.next_deadline() == 30.0
    assert timers.take_due(20.0) is None


def test_a_cancelled_deadline_is_not_due() -> None:
    """A cancelled deadline is not due; cancelling it again has no effect."""
    timers: Timers[str] = Timers()
    timers.set("it", 10.0)
    timers.cancel("it")
    timers.cancel("it")
    assert "it" not in timers
    assert timers.next_deadline() is None


def test_equal_deadlines_are_due_in_the_order_of_setting() -> None:
    """Equal deadlines are due in the order in which they were set."""
    timers: Timers[str] = Timers()
    for name in ("b", "a", "c"):
        timers.set(name, 5.0)
    assert [timers.take_due(5.0) for _ in range(3)] == ["b", "a", "c"]


def test_a_deadline_that_is_moved_often_uses_no_more_memory() -> None:
    """The memory of a deadline does not grow when it is moved many times."""
    timers: Timers[str] = Timers()
    for moment in range(10_000):
        timers.set("it", float(moment))
    assert len(pickle.dumps(timers)) < 1_000
