"""Learnt runtimes: the maximum of four of five runs, bounded and repeatable."""

from random import Random

import pytest

from licorne_core.extensions.backfill.runtimes import (
    FEWEST_SAMPLES,
    MOST_SAMPLES,
    MOST_SHAPES,
    Confidence,
    Runtimes,
)
from licorne_core.values.asks import Shape
from licorne_core.values.ids import NodeId, QueuePath

LEAF = QueuePath("root.a")
SHAPE = Shape({"vcore": 1000})


def runtimes_of(*seconds: float) -> Runtimes:
    """The runtimes learnt from some runs, in order."""
    runtimes = Runtimes()
    for each in seconds:
        runtimes.learn(LEAF, SHAPE, each)
    return runtimes


@pytest.mark.parametrize("number", range(3))
def test_few_runs_are_no_number(number: int) -> None:
    """Before the third run the runtime is unknown, and has no number."""
    assert runtimes_of(*[7.0] * number).expected(LEAF, SHAPE) == (None, Confidence.UNKNOWN)


def test_three_runs_are_enough() -> None:
    """The third run gives a runtime; two of three are fewer than four of five."""
    assert runtimes_of(7.0, 9.0, 8.0).expected(LEAF, SHAPE) == (9.0, Confidence.LEARNT)


def test_a_declared_runtime_goes_before_what_ran() -> None:
    """The RM's declaration counts, whatever the runs."""
    runtimes = runtimes_of(*[7.0] * FEWEST_SAMPLES)
    assert runtimes.expected(LEAF, SHAPE, 3600.0) == (3600.0, Confidence.DECLARED)


def test_four_of_five_of_the_latest_runs_take_no_longer() -> None:
    """After each run the learnt runtime is the shortest one that four of five did not exceed."""
    random = Random(29)
    runtimes, ran = Runtimes(), []
    for _ in range(4 * MOST_SAMPLES):
        ran.append(float(random.randint(1, 1000)))
        runtimes.learn(LEAF, SHAPE, ran[-1])
        if len(ran) >= FEWEST_SAMPLES:
            latest = ran[-MOST_SAMPLES:]
            enough = [one for one in latest if 5 * sum(other <= one for other in latest) >= 4 * len(latest)]
            assert runtimes.expected(LEAF, SHAPE) == (min(enough), Confidence.LEARNT)


def test_leaves_and_amounts_are_apart_and_required_nodes_are_not() -> None:
    """An ask learns from its own leaf and amounts, on whatever node they ran."""
    runtimes = Runtimes()
    for number in range(FEWEST_SAMPLES):
        runtimes.learn(LEAF, Shape({"vcore": 1000}, NodeId(f"n{number}")), 5.0)
    assert runtimes.expected(LEAF, SHAPE) == (5.0, Confidence.LEARNT)
    assert runtimes.expected(QueuePath("root.b"), SHAPE) == (None, Confidence.UNKNOWN)
    assert runtimes.expected(LEAF, Shape({"vcore": 2000})) == (None, Confidence.UNKNOWN)


def test_a_clock_that_went_back_is_no_negative_run() -> None:
    """A run that ended before it began counts as none at all in length."""
    assert runtimes_of(*[-5.0] * FEWEST_SAMPLES).expected(LEAF, SHAPE) == (0.0, Confidence.LEARNT)


def test_what_ended_longest_ago_is_forgotten_first() -> None:
    """Beyond the bound the entry with the oldest end is removed; a query does not refresh it."""
    runtimes = Runtimes()
    for number in range(MOST_SHAPES):
        for _ in range(FEWEST_SAMPLES):
            runtimes.learn(QueuePath(f"root.q{number}"), SHAPE, 5.0)
    runtimes.learn(QueuePath("root.q0"), SHAPE, 5.0)
    assert runtimes.expected(QueuePath("root.q1"), SHAPE) == (5.0, Confidence.LEARNT)
    runtimes.learn(QueuePath("root.new"), SHAPE, 5.0)
    known = [
        number
        for number in range(MOST_SHAPES)
        if runtimes.expected(QueuePath(f"root.q{number}"), SHAPE)[0] is not None
    ]
    assert known == [0, *range(2, MOST_SHAPES)]
