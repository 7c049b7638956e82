"""Reports of waiting asks: their blocker, and whether the RM was notified."""

from dataclasses import replace

from licorne_core.messages.commands import PredicatePolicy
from licorne_core.values.ids import PartitionName
from licorne_core.values.slices import RUN
from licorne_core.views.applications import AskLogEntry
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver
from support.core.reports import applications_in
from support.core.steps import last, listed

DEFAULT = PartitionName("[rm1]default")


def test_an_ask_shows_its_blockers() -> None:
    """Each reason has a count and its latest time, in order of time; asks of one size share their reasons."""
    limits = "limits: [{limit: x, users: [ann], maxresources: {vcore: 6m}}]"
    driver = Driver()
    driver.do(register(config("[{name: a, resources: {max: {vcore: 4m}}}]", rest=limits)))
    driver.do(nodes(node("n1", vcore=100)), apps(app("one", "root.a"), app("two", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=4)))
    driver.do(asks(ask("one", "k2", vcore=3), ask("one", "k3", vcore=3)))
    driver.wait(10)
    driver.do(asks(ask("two", "t", vcore=2)))

    second, third = listed(driver.views.asks(DEFAULT, "one"))
    other = last(driver.views.asks(DEFAULT, "two"))

    assert [second.ask.key, third.ask.key] == ["k2", "k3"]
    by_user = AskLogEntry(message="Not enough user quota", last_time=START, count=1)
    by_queue = AskLogEntry(message="Not enough queue quota", last_time=START + 10, count=1)
    assert second.allocation_log == third.allocation_log == (by_user,)
    assert not second.scheduling_attempted
    assert other.allocation_log == (by_queue,)
    assert other.scheduling_attempted


def test_a_reported_ask_is_marked() -> None:
    """Only asks that were reported to the RM are marked, not other asks of the same size."""
    driver = Driver()
    driver.do(register(config("[{name: a, resources: {max: {vcore: 9m}}}]")))
    driver.do(nodes(node("n1", vcore=1)), apps(app("one", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=5), ask("one", "k2", vcore=5)))
    before = listed(driver.views.asks(DEFAULT, "one"))
    driver.wait(2)
    after = listed(driver.views.asks(DEFAULT, "one"))
    assert [item.triggered_scale_up for item in before] == [False, False]
    assert [item.triggered_scale_up for item in after] == [True, False]


def test_an_application_shows_the_group_with_a_limit() -> None:
    """An application reports only the group in which it counts, not all groups of its user."""
    limits = "limits: [{limit: x, groups: [ops], maxresources: {vcore: 1}}]"
    driver = Driver()
    driver.do(register(config("[{name: a}]", rest=limits)))
    driver.do(apps(app("one", "root.a", groups=["dev", "ops"]), app("two", "root.a")))
    one, two = applications_in(driver.views, DEFAULT)
    assert (one.groups, one.group) == (("dev", "ops"), "ops")
    assert two.group == ""


def test_an_assumed_allocation_is_listed_as_an_ask() -> None:
    """An allocation that was not yet sent to the RM is listed as an ask with its node, at its place."""
    driver = Driver()
    driver.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=2.0)))
    driver.do(nodes(node("n1", vcore=9), node("n2", vcore=8)), apps(app("one", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=6, predicate="p"), ask("one", "k2", vcore=6)))
    driver.do(asks(ask("one", "k3", vcore=7)))

    report = driver.app("one")
    [shown] = driver.views.partitions()
    holding, other = [driver.node(name) for name in ("n1", "n2")]
    on_nodes = [listed(driver.views.allocations_on(DEFAULT, name)) for name in ("n1", "n2")]

    explained = driver.explain("one")

    asked = listed(driver.views.asks(DEFAULT, "one"))
    assert [(item.ask.key, item.assumed_node) for item in asked] == [("k1", "n1"), ("k3", "")]
    known = listed(driver.views.allocations(DEFAULT, "one"))
    assert [item.key for item, *_ in known] == ["k2"]
    assert (report.pending_count, report.allocation_count) == (2, 1)
    assert (shown.allocations, shown.pending_asks) == (1, 2)
    assert (holding.allocation_count, other.allocation_count) == (0, 1)
    assert on_nodes == [[], known]
    assert holding.allocated == {"vcore": 6}
    assert (explained.key, explained.verdict, explained.node_id) == ("k1", "assumed", "n1")


def test_very_many_asks_are_sorted_in_steps() -> None:
    """A reader may pause between steps, and does not see asks that were removed meanwhile."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), apps(app("one", "root.a")))
    many = 3 * RUN
    driver.do(asks(*[ask("one", f"k{n}", priority=n % 7, vcore=1) for n in range(many)]))
    in_order = [report.ask.key for report in listed(driver.views.asks(DEFAULT, "one"))]
    walk = driver.views.asks(DEFAULT, "one")
    assert [next(walk) for _ in range(3)] == [None] * 3
    driver.do(releases(release("one", in_order[0])))
    assert [report.ask.key for report in walk if report is not None] == in_order[1:]


def test_an_application_that_counts_as_running_does_not_block_itself() -> None:
    """An application with a reserved node already counts as running, so the count does not block its asks."""
    driver = Driver()
    driver.do(register(config("[{name: a, maxapplications: 1}]")))
    driver.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    occupied = replace(ask("", "other", on_node="n1", vcore=8), tags={"foreign": "default"})
    driver.do(asks(occupied), asks(ask("one", "k", vcore=5, created=START - 10)))
    assert last(driver.views.asks(DEFAULT, "one")).reserved_node == "n1"
    explanation = driver.explain("one", "k")
    assert [check.code for check in explanation.checks if not check.passed] == [
        "NO_NODE_FITS",
        "PREEMPTION_NOT_ALLOWED",
    ]


def test_asks_ahead_are_counted_by_priority_and_age() -> None:
    """The asks ahead are counted over all sizes, by priority and age, without removed asks."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    driver.do(apps(app("one", "root.a")))
    sizes = [5, 5, 5, 5, 6, 7, 7, 8]
    wanted = [
        ask("one", f"k{number}", vcore=size, priority=number * 3 % 4) for number, size in enumerate(sizes)
    ]
    driver.do(asks(*wanted), releases(release("one", "k1"), release("one", "k2")))
    order = sorted(
        (number for number in range(len(sizes)) if number not in (1, 2)),
        key=lambda number: (-wanted[number].priority, number),
    )
    ahead = [driver.explain("one", f"k{n}").asks_ahead for n in order]
    assert ahead == [*range(len(order))]
    assert driver.explain("one", "").key == f"k{order[0]}"
    shown = listed(driver.views.asks(DEFAULT, "one"))
    assert [report.ask.key for report in shown] == [f"k{n}" for n in order]
