"""Decayed usage agrees with its closed form."""

from math import expm1, log
from random import Random

import pytest

from licorne_core.extensions.fair_memory.decayed import Decayed, hours_of_due, weighted


def test_constant_usage_has_a_closed_form() -> None:
    """Decayed usage of a constant rate tends to the rate times the half-life divided by ln 2."""
    account = Decayed(60.0, 0.0)
    account.follow({"vcore": 500, "memory": 0}, 0.0)
    for seconds in (1e-6, 0.5, 60.0, 3600.0):
        closed = 500 * 60 / log(2) * (1 - 0.5 ** (seconds / 60))
        assert account.at(seconds) == {"vcore": pytest.approx(closed, rel=1e-8)}
    account.follow({}, 60.0)
    used = account.at(60.0)["vcore"]
    assert account.at(120.0)["vcore"] == used / 2
    assert account.at(60.0 + 6000)["vcore"] == pytest.approx(used / 2**100)


def test_reads_do_not_change_decayed_usage() -> None:
    """Additional reads, and updates with the same amounts, do not change the sums."""
    quiet, busy = Decayed(7.0, 0.0), Decayed(7.0, 0.0)
    for account in (quiet, busy):
        account.follow({"gpu": 3}, 0.1)
    for step in range(1, 1000):
        busy.at(step / 10)
        busy.at_step(step // 10)
        busy.follow({"gpu": 3, "vcore": 0}, step / 10)
    for account in (quiet, busy):
        account.follow({"gpu": 1}, 100.3)
    assert quiet.values == busy.values
    assert quiet.at_step(100) == busy.at_step(100)


def test_very_small_usage_is_summed() -> None:
    """Usage of a thousandth of a core for a millisecond at a time is counted."""
    account = Decayed(1e6, 0.0)
    for number in range(1000):
        for amount, time in ((1, number), (0, number + 0.001)):
            account.follow({"vcore": amount}, time)
    assert account.at(1000.0)["vcore"] == pytest.approx(1.0, rel=1e-3)


def test_decayed_usage_is_constant_within_a_second() -> None:
    """The sums that are reported in a second do not depend on changes within it."""
    account = Decayed(60.0, 0.0)
    account.follow({"gpu": 2}, 0.0)
    at_ten = account.at(10.0)["gpu"]
    account.follow({"gpu": 1}, 10.25)
    account.follow({"gpu": 7}, 10.75)
    assert account.at_step(10) == {"gpu": at_ten}
    assert account.at_step(11) == account.at(11.0)


@pytest.mark.parametrize("half_life", [1e-4, 0.3, 60.0, 1e7])
def test_changes_within_a_second_count_from_their_own_times(half_life: float) -> None:
    """Any number of changes in a second gives the sum of the amounts, each decayed since its own time."""
    draw = Random(7)
    account = Decayed(half_life, 0.25)
    now, used, closed = 0.25, 0, 0.0
    for _ in range(300):
        passed = draw.choice((1e-6, 0.01, 0.1, 1.5))
        lives = passed / half_life
        closed = closed * 0.5**lives - used * expm1(-log(2) * lives) * half_life / log(2)
        now, used = now + passed, draw.randrange(3)
        account.follow({"gpu": used}, now)
        assert account.at(now).get("gpu", 0.0) == pytest.approx(closed, rel=1e-7, abs=1e-12)
    assert account.at(now - 1.0) == account.at(now)


def test_a_changed_half_life_does_not_change_earlier_usage() -> None:
    """Earlier usage keeps its value, and then decays by the new half-life."""
    account = Decayed(60.0, 0.0)
    account.follow({"gpu": 1}, 0.0)
    account.follow({}, 30.0)
    used = account.at(30.0)["gpu"]
    account.halve_in(10.0, 40.0)
    assert account.at(50.0)["gpu"] == pytest.approx(used * 0.5 ** (10 / 60) / 2)
    account.follow({"gpu": 1}, 50.5)
    at_fifty, now = account.at_step(50), account.at(50.75)["gpu"]
    account.halve_in(60.0, 50.75)
    assert account.at_step(50) == at_fifty
    assert account.at(50.75) == {"gpu": now}


def test_decayed_usage_counts_hours_at_the_full_share() -> None:
    """The largest quotient of usage and share counts, in hours; without a share it is 0."""
    assert hours_of_due({"vcore": 3600.0, "memory": 7200.0}, {"vcore": 1, "memory": 4}) == 1.0
    assert hours_of_due({"gpu": 3600.0}, {"vcore": 1}) == 0.0
    assert hours_of_due({"gpu": 7200.0}, {"gpu": 0}) == 2.0


def test_a_queue_of_weight_zero_is_last() -> None:
    """A queue of weight 0 is ordered after all others, even without usage."""
    assert weighted(0.0, 0.0) > weighted(1e300, 0.5) > weighted(1.0, 1.0)
