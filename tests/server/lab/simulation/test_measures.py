"""Measures of a run, each by a world small enough to be computed by hand."""

import pytest

from licorne_core.messages.commands import BeginReplay, Command, EndReplay, TerminationType
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.lab.simulation.measures import Measures
from licorne_server.lab.simulation.player import Player
from licorne_server.lab.simulation.summary import QueueSummary, Summary
from licorne_server.lab.simulation.waits import MOST_POINTS, Course, Waits
from support.core.builders import (
    RM,
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    register,
    release,
    releases,
    remove_apps,
)

TWO = "[{name: a, resources: {guaranteed: {memory: 4}}}, {name: b}]"


class World:
    """A core that is measured from time 0."""

    def __init__(self, queues: str, **size: int) -> None:
        scheduler = Scheduler()
        self.measures = Measures(scheduler)
        self.player = Player(scheduler, self.measures)
        self.at(0.0, register(config(queues)), nodes(node("n1", size=size)))

    def at(self, now: float, *commands: Command) -> None:
        for _ in self.player.advance(now):
            pass
        for command in commands:
            self.player.feed(now, command)
            for _ in self.player.advance(now):
                pass

    def end(self, now: float) -> Summary:
        self.at(now)
        return self.measures.summary(now)


def of(summary: Summary, queue: str) -> QueueSummary:
    """The row of a queue."""
    return next(row for row in summary.queues if row.queue == queue)


def test_a_wait_is_from_the_ask_to_its_allocation() -> None:
    """Placed asks count with their waits, and waiting ones with theirs so far, in all queues up to root."""
    world = World("[{name: a}, {name: b}]", memory=1)
    world.at(0.0, apps(app("x", "root.a"), app("y", "root.b")))
    world.at(10.0, asks(ask("x", "x1", memory=1, created=1.0)))
    world.at(20.0, asks(ask("y", "y1", memory=1)))
    world.at(50.0, releases(release("x", "x1")))
    world.at(60.0, asks(ask("x", "x2", memory=1)))
    summary = world.end(100.0)
    a, b, root = (of(summary, path) for path in ("root.a", "root.b", "root"))
    assert (a.asks, a.placed, a.waiting, a.wait_mean, a.wait_p50, a.wait_p99) == (2, 1, 1, 20.0, 0.0, 40.0)
    assert (b.asks, b.placed, b.waiting, b.wait_mean, b.wait_p50) == (1, 1, 0, 30.0, 30.0)
    assert (root.asks, root.placed, root.waiting) == (3, 2, 1)
    assert root.wait_mean == pytest.approx(70 / 3)
    assert (summary.total.asks, summary.total.wait_p99, summary.rms[0].rm_id) == (3, 40.0, RM)


def test_withdrawn_asks_have_no_wait() -> None:
    """An ask counts as withdrawn if its RM releases it, all asks, or the application."""
    world = World("[{name: a}]", memory=1)
    world.at(0.0, apps(app("x", "root.a"), app("y", "root.a"), app("z", "root.a")))
    world.at(0.0, asks(ask("x", "big", memory=2), ask("x", "other", memory=2)))
    world.at(0.0, asks(ask("y", "big", memory=2), ask("z", "big", memory=2)))
    world.at(5.0, releases(release("x", "big")), remove_apps("y"), releases(release("z")))
    row = world.end(9.0).total
    assert (row.asks, row.placed, row.withdrawn, row.waiting, row.wait_mean) == (4, 0, 3, 1, 9.0)


def test_an_allocation_that_failed_at_the_rm_waits_again() -> None:
    """A failure at the RM begins another wait."""
    world = World("[{name: a}]", memory=1)
    world.at(0.0, apps(app("x", "root.a")), asks(ask("x", "k", memory=1)))
    world.at(30.0, releases(release("x", "k", why=TerminationType.SCHEDULING_FAILED_ON_RM)))
    row = world.end(60.0).total
    # The back-off of the first failure is a second.
    assert (row.asks, row.placed, row.wait_p50, row.wait_p99) == (2, 2, 0.0, 1.0)


def test_a_restart_of_the_rm_does_not_end_a_wait() -> None:
    """After a replay an RM has the same asks, and its allocations are not placed again."""
    world = World("[{name: a}]", memory=1)
    world.at(0.0, apps(app("x", "root.a")), asks(ask("x", "runs", memory=1), ask("x", "waits", memory=1)))
    rm = RmId(RM)
    world.at(40.0, register(config("[{name: a}]")), BeginReplay(rm_id=rm), nodes(node("n1", memory=1)))
    world.at(40.0, apps(app("x", "root.a")))
    world.at(40.0, asks(ask("x", "runs", memory=1, on_node="n1"), ask("x", "waits", memory=1)))
    world.at(40.0, EndReplay(rm_id=rm, nodes=1, applications=1, allocations=2))
    world.at(50.0, releases(release("x", "runs")))
    row = world.end(60.0).total
    assert (row.asks, row.placed, row.wait_p50, row.wait_p99) == (2, 2, 0.0, 50.0)


def test_utilisation_is_usage_divided_by_capacity() -> None:
    """Half of a node for half of the time is a utilisation of a quarter."""
    world = World("[{name: a}]", memory=4, vcore=1000)
    world.at(0.0, apps(app("x", "root.a")))
    world.at(50.0, asks(ask("x", "k", memory=2)))
    summary = world.end(100.0)
    assert summary.utilisation == {"memory": 0.25, "vcore": 0.0}
    assert summary.partitions[0].utilisation == summary.utilisation


def test_time_below_guarantee_needs_waiting_asks() -> None:
    """Seconds count while usage is below the guarantee and more is requested, and only then."""
    world = World(TWO, memory=4)
    world.at(0.0, apps(app("x", "root.a"), app("y", "root.b")))
    world.at(10.0, asks(*(ask("y", f"y{i}", memory=1) for i in range(4))))
    world.at(20.0, asks(ask("x", "x1", memory=1)))
    world.at(50.0, releases(release("y", "y0")))
    summary = world.end(100.0)
    assert [(row.queue, row.below_guarantee) for row in summary.queues] == [
        ("root", 0.0),
        ("root.a", 30.0),
        ("root.b", 0.0),
    ]
    assert summary.total.below_guarantee == 30.0


def test_lost_work_is_that_of_victims() -> None:
    """A victim loses its amounts times its seconds, in its own queue."""
    properties = "resources: {guaranteed: {memory: 2}}, properties: {preemption.delay: 1s}"
    queues = f"[{{name: a, {properties}}}, {{name: b}}]"
    world = World(queues, memory=2)
    world.at(0.0, apps(app("x", "root.a"), app("y", "root.b")))
    world.at(10.0, asks(*(ask("y", f"y{i}", memory=1, policy="s") for i in range(2))))
    world.at(50.0, asks(ask("x", "x1", memory=2, policy="o")))
    summary = world.end(70.0)
    victims = of(summary, "root.b")
    assert victims.victims == 2
    told = victims.lost["memory"] / 2
    assert 40.0 <= told <= 50.0
    assert (of(summary, "root.a").victims, of(summary, "root").lost) == (0, victims.lost)


def test_a_course_has_values_for_each_interval() -> None:
    """An interval has the asks that waited in it, the waits that ended in it, and the usage."""
    world = World("[{name: a}]", memory=1)
    world.at(0.0, apps(app("x", "root.a")), asks(ask("x", "k1", memory=1)))
    world.at(10.0, asks(ask("x", "k2", memory=1)))
    world.at(30.0, releases(release("x", "k1")))
    course = world.end(40.0).course
    waiting = [point.waiting for point in course.points]
    assert sum(waiting) == 20.0
    assert {index for index, amount in enumerate(waiting) if amount} == set(range(10, 30))
    assert [(i, point.waited) for i, point in enumerate(course.points) if point.waited] == [(30, 20.0)]


def test_a_long_course_has_few_points() -> None:
    """Intervals become longer, with unchanged totals, also over a long quiet time."""
    course = Course(0.0, 1.0)
    for second in range(1, 1001):
        course.sampled(float(second), 1.0, 2, {"memory": 1}, {"memory": 4})
    course.sampled(1_000_000.0, 999_000.0, 0, {}, {"memory": 4})
    assert len(course.points) <= MOST_POINTS
    assert sum(point.seconds for point in course.points) == pytest.approx(1_000_000.0)
    assert sum(point.waiting for point in course.points) == pytest.approx(2000.0)
    assert course.points[0].waiting == pytest.approx(2000.0)


def test_waits_are_rounded_to_three_digits() -> None:
    """Quantiles are ranks among rounded waits and the mean is exact; without waits there are none."""
    waits = Waits()
    assert (waits.mean, waits.quantile(0.5)) == (None, None)
    for number in range(1, 1001):
        waits.add(number + 0.0001)
    assert waits.mean == pytest.approx(500.5001)
    assert (waits.quantile(0.5), waits.quantile(0.99), waits.quantile(1.0)) == (500.0, 990.0, 1000.0)
    waits.add(123_456.0)
    assert waits.quantile(1.0) == 123_000.0
