"""Learnt runtimes: the shortest time that four of five runs did not exceed."""

from random import Random

import pytest

from licorne_core.model.apps.application import Application
from licorne_core.model.runtimes import FEWEST_SAMPLES, MOST_SAMPLES, MOST_SHAPES, Confidence, Runtimes
from licorne_core.values.asks import Ask, AskClass, Shape
from licorne_core.values.ids import AllocationKey, AppId, NodeId, QueuePath, UserGroup
from licorne_core.values.tags import RUNTIME

LEAF = QueuePath("root.a")
SHAPE = Shape({"vcore": 1000})


def runtimes_of(*seconds: float) -> Runtimes:
    """The runtimes learnt from some runs, in order."""
    runtimes = Runtimes()
    for each in seconds:
        runtimes.learn(LEAF, SHAPE, each)
    return runtimes


def expected(
    runtimes: Runtimes, queue: QueuePath = LEAF, shape: Shape = SHAPE, declared: str = ""
) -> tuple[float | None, Confidence]:
    """The expected runtime of an ask in a leaf."""
    app = Application(AppId("app"), queue, UserGroup("ann"), {RUNTIME: declared} if declared else {}, 0.0)
    return runtimes.expected(app, Ask(AllocationKey("ask"), app.app_id, AskClass(shape)))


@pytest.mark.parametrize(
    ("ran", "learnt"), [((), None), ((7.0, 7.0), None), ((7.0, 9.0, 8.0), 9.0), ((-5.0, -5.0, -5.0), 0.0)]
)
def test_three_runs_give_a_runtime(ran: tuple[float, ...], learnt: float | None) -> None:
    """The longest of three is learnt, as two are fewer than four of five; one that ended before its begin, by
    a clock set back, counts as 0 seconds. With fewer runs the runtime is None."""
    confidence = Confidence.UNKNOWN if learnt is None else Confidence.LEARNT
    assert expected(runtimes_of(*ran)) == (learnt, confidence)


def test_a_declared_runtime_precedes_a_learnt_one() -> None:
    """The runtime declared by the RM counts, whatever runs were observed."""
    runtimes = runtimes_of(*[7.0] * FEWEST_SAMPLES)
    assert expected(runtimes, declared="3600") == (3600.0, Confidence.DECLARED)


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
            assert expected(runtimes) == (min(enough), Confidence.LEARNT)


def test_runtimes_are_learnt_by_leaf_and_amounts() -> None:
    """Runs with the same leaf and amounts count, on whatever node they were."""
    runtimes = Runtimes()
    for number in range(FEWEST_SAMPLES):
        runtimes.learn(LEAF, Shape({"vcore": 1000}, NodeId(f"n{number}")), 5.0)
    assert expected(runtimes) == (5.0, Confidence.LEARNT)
    assert expected(runtimes, QueuePath("root.b")) == (None, Confidence.UNKNOWN)
    assert expected(runtimes, shape=Shape({"vcore": 2000})) == (None, Confidence.UNKNOWN)


def test_the_runtime_with_the_oldest_end_is_dropped_first() -> None:
    """Beyond the bound the entry with the oldest end is removed, even if it was queried since."""
    runtimes = Runtimes()
    for number in range(MOST_SHAPES):
        for _ in range(FEWEST_SAMPLES):
            runtimes.learn(QueuePath(f"root.q{number}"), SHAPE, 5.0)
    runtimes.learn(QueuePath("root.q0"), SHAPE, 5.0)
    assert expected(runtimes, QueuePath("root.q1")) == (5.0, Confidence.LEARNT)
    runtimes.learn(QueuePath("root.new"), SHAPE, 5.0)
    known = [
        number
        for number in range(MOST_SHAPES)
        if expected(runtimes, QueuePath(f"root.q{number}"))[0] is not None
    ]
    assert known == [0, *range(2, MOST_SHAPES)]
