"""Timers: deadlines as data."""

import pickle

from licorne_core.values.timers import Timers


def test_names_come_due_in_order() -> None:
    """Deadlines are taken in order, and none before its time."""
    timers: Timers[str] = Timers()
    timers.set("late", 20.0)
    timers.set("early", 10.0)
    assert timers.next_deadline() == 10.0
    assert timers.take_due(9.9) is None
    assert timers.take_due(25.0) == "early"
    assert timers.take_due(25.0) == "late"
    assert timers.take_due(25.0) is None


def test_setting_a_name_again_moves_its_deadline() -> None:
    """A name has one deadline: the last one set."""
    timers: Timers[str] = Timers()
    timers.set("it", 10.0)
    timers.set("it", 30.0)
    assert timers.next_deadline() == 30.0
    assert timers.take_due(20.0) is None


def test_cancelled_names_do_not_come_due() -> None:
    """A cancelled deadline is forgotten; cancelling twice is harmless."""
    timers: Timers[str] = Timers()
    timers.set("it", 10.0)
    timers.cancel("it")
    timers.cancel("it")
    assert "it" not in timers
    assert timers.next_deadline() is None


def test_equal_deadlines_come_in_the_order_of_setting() -> None:
    """Equal deadlines are taken in the order of setting."""
    timers: Timers[str] = Timers()
    for name in ("b", "a", "c"):
        timers.set(name, 5.0)
    assert [timers.take_due(5.0) for _ in range(3)] == ["b", "a", "c"]


def test_moving_a_deadline_often_costs_no_memory() -> None:
    """A deadline that is moved again and again costs no memory."""
    timers: Timers[str] = Timers()
    for moment in range(10_000):
        timers.set("it", float(moment))
    assert len(pickle.dumps(timers)) < 1_000
