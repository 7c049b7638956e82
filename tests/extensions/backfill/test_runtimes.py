"""Learnt runtimes: the shortest time that four of five runs did not exceed."""

from random import Random

import pytest

from licorne_core.model.runtimes import FEWEST_SAMPLES, MOST_SAMPLES, MOST_SHAPES, Confidence, Runtimes
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
def test_fewer_than_three_runs_give_no_runtime(number: int) -> None:
    """Before the third run the runtime is None, and its confidence unknown."""
    assert runtimes_of(*[7.0] * number).expected(LEAF, SHAPE) == (None, Confidence.UNKNOWN)


def test_three_runs_give_a_runtime() -> None:
    """The longest of three runs is learnt, since two of three runs are fewer than four of five."""
    assert runtimes_of(7.0, 9.0, 8.0).expected(LEAF, SHAPE) == (9.0, Confidence.LEARNT)


def test_a_declared_runtime_precedes_a_learnt_one() -> None:
    """The runtime declared by the RM counts, whatever runs were observed."""
    runtimes = runtimes_of(*[7.0] * FEWEST_SAMPLES)
    assert runtimes.expected(LEAF, SHAPE, 3600.0) == (3600.0, Confidence.DECLARED)


def test_four_of_five_of_the_latest_runs_do_not_exceed_the_learnt_runtime() -> None:
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


def test_runtimes_are_learnt_by_leaf_and_amounts() -> None:
    """Runs with the same leaf and amounts count, on whatever node they were."""
    runtimes = Runtimes()
    for number in range(FEWEST_SAMPLES):
        runtimes.learn(LEAF, Shape({"vcore": 1000}, NodeId(f"n{number}")), 5.0)
    assert runtimes.expected(LEAF, SHAPE) == (5.0, Confidence.LEARNT)
    assert runtimes.expected(QueuePath("root.b"), SHAPE) == (None, Confidence.UNKNOWN)
    assert runtimes.expected(LEAF, Shape({"vcore": 2000})) == (None, Confidence.UNKNOWN)


def test_no_learnt_runtime_is_negative() -> None:
    """A run that ended before it began, by a clock set back, counts as 0 seconds."""
    assert runtimes_of(*[-5.0] * FEWEST_SAMPLES).expected(LEAF, SHAPE) == (0.0, Confidence.LEARNT)


def test_the_runtime_with_the_oldest_end_is_dropped_first() -> None:
    """Beyond the bound the entry with the oldest end is removed, even if it was queried since."""
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
