"""Applications as an RM sees them: their order, their states, and what is refused."""

from collections import Counter

import pytest

from licorne_core.messages.effects import AllocationsReleased
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName
from support.core.builders import (
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
from support.core.driver import (
    START,
    Driver,
    keys,
    placed,
    refused,
    refused_apps,
    released,
    states,
)

DEFAULT = PartitionName("[rm1]default")
FAIR = "application.sort.policy: fair"
NO_PRIORITY = "application.sort.priority: disabled"


def leaf(*properties: str, memory: int = 100, at: tuple[float, ...] = (0.0, 1.0)) -> Driver:
    """A core with one leaf and one node; app-0, app-1 ... are submitted at these times."""
    driver = Driver()
    driver.do(register(config(f"[{{name: a, properties: {{{', '.join(properties)}}}}}]")))
    driver.do(nodes(node("n1", memory=memory)))
    for number, seconds in enumerate(at):
        driver.now = START + seconds
        driver.do(apps(app(f"app-{number}", "root.a")))
    return driver


def wave(app_id: str, count: int, priority: int = 0) -> list[Ask]:
    """Equal asks of one application."""
    return [ask(app_id, f"{app_id}-{i}", priority=priority, memory=1) for i in range(count)]


def served(driver: Driver) -> list[str]:
    """Which applications are served, in order, until the core rests."""
    return [app_id for app_id, _, _ in placed(driver.run())]


# Order of applications


@pytest.mark.row(92)
def test_fifo_serves_the_oldest_application_first() -> None:
    """The younger application waits while the older has asks that fit, and runs after."""
    driver = leaf(memory=5)
    driver.send(asks(*wave("app-1", 9)))
    driver.send(asks(*wave("app-0", 3)))
    assert served(driver) == ["app-0"] * 3 + ["app-1"] * 2


@pytest.mark.row(93, 95)
def test_fifo_runs_applications_side_by_side() -> None:
    """Applications of a fifo queue all run; one without asks delays nobody."""
    driver = leaf(at=(0.0, 1.0, 2.0))
    effects = driver.do(asks(*wave("app-1", 2)), asks(*wave("app-2", 2)))
    assert Counter(app_id for app_id, _, _ in placed(effects)) == {"app-1": 2, "app-2": 2}
    assert driver.views.application(DEFAULT, AppId("app-0")).state == "New"
    running = {a.app_id for a in driver.views.applications(DEFAULT) if a.state == "Running"}
    assert running == {"app-1", "app-2"}


@pytest.mark.row(94)
def test_fair_gives_applications_the_same() -> None:
    """In a fair queue two applications with endless asks end with the same usage."""
    driver = leaf(FAIR, memory=20)
    driver.send(asks(*wave("app-0", 50), *wave("app-1", 50)))
    order = served(driver)
    assert Counter(order) == {"app-0": 10, "app-1": 10}
    assert all(abs(Counter(order[:n])["app-0"] * 2 - n) <= 1 for n in range(20))


@pytest.mark.row(99)
@pytest.mark.parametrize(
    ("properties", "order"),
    [
        ((), ["app-1", "app-1", "app-0", "app-0"]),
        ((NO_PRIORITY,), ["app-0", "app-0", "app-1", "app-1"]),
        ((FAIR,), ["app-1", "app-1", "app-0", "app-0"]),
        ((FAIR, NO_PRIORITY), ["app-1", "app-0", "app-1", "app-0"]),
    ],
    ids=["fifo", "fifo, disabled", "fair", "fair, disabled"],
)
def test_priority_goes_first_unless_disabled(properties: tuple[str, ...], order: list[str]) -> None:
    """Priority goes before age or usage; where it is disabled it only breaks ties."""
    driver = leaf(*properties)
    driver.send(asks(*wave("app-0", 2), *wave("app-1", 2, priority=3)))
    assert served(driver) == order


@pytest.mark.row(113)
def test_the_creation_time_tells_the_age() -> None:
    """An application whose ask was created earlier is older, whenever it arrived."""
    driver = leaf(memory=1)
    driver.send(asks(*wave("app-0", 1)))
    driver.send(asks(ask("app-1", "early", created=START - 100, memory=1)))
    assert keys(driver.run()) == ["early"]
    assert driver.views.application(DEFAULT, AppId("app-1")).submission_time == START - 100


@pytest.mark.row(113)
def test_an_older_ask_behind_others_makes_its_application_older() -> None:
    """The creation time of any ask counts, also of one that is not first in its application."""
    driver = leaf(NO_PRIORITY, memory=1)
    driver.send(asks(*wave("app-0", 1, priority=5), *wave("app-1", 1, priority=5)))
    driver.send(asks(ask("app-1", "old", created=START - 100, memory=1)))
    assert keys(driver.run()) == ["app-1-0"]


# Order of asks


@pytest.mark.row(100)
def test_the_higher_priority_ask_goes_first() -> None:
    """Within an application asks are served by priority, whatever the order of arrival."""
    driver = leaf()
    order = [0, 7, -2, 7, 1]
    driver.send(asks(*(ask("app-0", f"k{i}", priority=p, memory=1) for i, p in enumerate(order))))
    assert keys(driver.run()) == ["k1", "k3", "k4", "k0", "k2"]


@pytest.mark.row(101)
def test_equal_priorities_go_by_age_then_by_arrival() -> None:
    """Asks of one priority are served by creation time, and equal ones as they came."""
    driver = leaf()
    times = [START - 1, START - 5, START - 1, START - 9]
    driver.send(asks(*(ask("app-0", f"k{i}", created=t, memory=1) for i, t in enumerate(times))))
    driver.send(asks(ask("app-0", "last", created=START - 1, priority=-1, memory=1)))
    driver.send(asks(ask("app-0", "k4", created=START - 1, memory=1)))
    assert keys(driver.run()) == ["k3", "k1", "k0", "k2", "k4", "last"]


@pytest.mark.row(127)
def test_an_ask_that_fits_nowhere_does_not_hold_up_those_behind_it() -> None:
    """An ask that no node can take is passed over, and served once a node can."""
    driver = leaf(memory=2)
    driver.send(asks(ask("app-0", "big", priority=9, memory=50), *wave("app-0", 1)))
    assert keys(driver.run()) == ["app-0-0"]
    assert keys(driver.do(nodes(node("n2", memory=50)))) == ["big"]


# States


@pytest.mark.row(105)
def test_states_are_told_as_they_are_entered() -> None:
    """Accepted with the first ask, Running, Completing when idle, Completed 30 seconds later."""
    driver = leaf()
    effects = driver.do(asks(*wave("app-0", 1)))
    assert states(effects, "app-0") == ["Accepted", "Running"]
    effects = driver.do(releases(release("app-0", "app-0-0")))
    assert states(effects, "app-0") == ["Completing"]
    assert states(driver.wait(29.9), "app-0") == []
    assert states(driver.wait(0.2), "app-0") == ["Completed"]
    (done,) = driver.views.applications(DEFAULT, state="completed")
    assert done.app_id == "app-0"
    assert [state for _, state in done.state_log] == [
        "New", "Accepted", "Running", "Completing", "Completed"
    ]  # fmt: skip


@pytest.mark.row(106)
def test_a_new_ask_wakes_a_completing_application() -> None:
    """Within the thirty seconds a new ask makes it Running again, and the timer is off."""
    driver = leaf()
    driver.do(asks(*wave("app-0", 1)), releases(release("app-0")))
    driver.wait(29.0)
    assert states(driver.do(asks(ask("app-0", "again", memory=1))), "app-0") == ["Running"]
    assert states(driver.wait(60.0), "app-0") == []


@pytest.mark.row(14)
def test_an_application_whose_last_ask_is_withdrawn_completes() -> None:
    """An accepted application without asks and allocations has nothing left to do."""
    driver = leaf(memory=0)
    driver.do(asks(*wave("app-0", 1)))
    effects = driver.do(releases(release("app-0", "app-0-0")))
    assert states(effects, "app-0") == ["Completing"]


@pytest.mark.row(107)
def test_removing_an_application_frees_all_it_has() -> None:
    """Its asks vanish, its allocations are all told released in one message, its id is free."""
    driver = leaf(memory=2)
    driver.do(asks(*wave("app-0", 5)))
    effects = driver.do(remove_apps("app-0"))
    why = ("STOPPED_BY_RM", "Application app-0 Removed")
    assert released(effects) == [("app-0", "app-0-0", *why), ("app-0", "app-0-1", *why)]
    assert sum(isinstance(effect, AllocationsReleased) for effect in effects) == 1
    assert states(effects, "app-0") == ["Completing"]
    root = driver.views.queues(DEFAULT)
    assert (root.allocated, root.pending) == ({}, {})
    assert driver.do(remove_apps("app-0", "never-was")) == []
    assert refused_apps(driver.do(apps(app("app-0", "root.a")))) == {}


@pytest.mark.row(108)
def test_an_id_is_free_after_completion() -> None:
    """The id of a living application is taken; that of a completed one is accepted again."""
    driver = leaf()
    driver.do(asks(*wave("app-0", 1)))
    again = apps(app("app-0", "root.a"))
    assert "already existed" in refused_apps(driver.do(again))["app-0"]
    driver.do(releases(release("app-0")))
    driver.wait(31.0)
    assert refused_apps(driver.do(again)) == {}
    assert len(driver.views.applications(DEFAULT, state="completed")) == 1


@pytest.mark.row(84)
def test_a_forced_application_is_taken_even_where_no_rule_places_it() -> None:
    """With application.create.force an impossible placement ends in the recovery queue."""
    driver = leaf()
    forced = app("forced", "root.no.such.queue", tags={"application.create.force": "true"})
    assert refused_apps(driver.do(apps(forced, app("plain", "root.no.such.queue")))).keys() == {
        "plain"
    }
    assert driver.views.application(DEFAULT, AppId("forced")).queue == "root.@recovery@"
    assert keys(driver.do(asks(*wave("forced", 1)))) == ["forced-0"]


# What is refused


@pytest.mark.row(110)
def test_invalid_asks_are_refused_with_their_reason() -> None:
    """Each bad ask is answered by its own text, and the good one beside them is served."""
    driver = leaf()
    effects = driver.do(
        asks(
            ask("nobody", "no app", memory=1),
            ask("app-0", "no node", on_node="n9", memory=1),
            ask("app-0", "nothing"),
            ask("app-0", "zero", memory=0),
            ask("app-0", "negative", memory=-1),
            ask("app-0", "no partition", partition="other", memory=1),
            ask("app-0", "good", memory=1),
        )
    )
    assert refused(effects) == {
        "no app": "failed to find application nobody",
        "no node": "failed to find node n9",
        "nothing": "allocation contains no resources",
        "zero": "allocation contains no resources",
        "negative": "allocation contains negative resources",
        "no partition": "Failed to find partition [rm1]other, for application app-0 "
        "and allocation no partition",
    }
    assert keys(effects) == ["good"]


@pytest.mark.row(110)
def test_one_key_in_two_applications_is_two_allocations() -> None:
    """Applications may use the same key: each has its own allocation, and frees its own."""
    driver = leaf()
    effects = driver.do(asks(ask("app-0", "k", memory=1), ask("app-1", "k", memory=2)))
    assert placed(effects) == [("app-0", "k", "n1"), ("app-1", "k", "n1")]
    driver.do(releases(release("app-0", "k")))
    assert driver.views.queues(DEFAULT).allocated == {"memory": 2}
    held = driver.views.application(DEFAULT, AppId("app-1")).allocations
    assert [allocation.key for allocation in held] == [AllocationKey("k")]
