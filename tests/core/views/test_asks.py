"""What the reports say of asks that wait: what stopped them, and who knows of it."""

from licorne_core.apps.runs import LogEntry
from licorne_core.ids import AllocationKey, AppId, PartitionName
from licorne_core.reports import AskLogEntry
from support.builders import app, apps, ask, asks, config, node, nodes, register
from support.driver import Driver
from support.waiting import hold

DEFAULT = PartitionName("[rm1]default")


def test_an_ask_shows_what_its_run_knows() -> None:
    """Asks of one size share the log of what stopped them, the latest reason last."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=1)))
    driver.do(apps(app("one", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=5), ask("one", "k2", vcore=5), ask("one", "k3", vcore=6)))
    owner = driver.scheduler.partitions[DEFAULT].applications[AppId("one")]
    run = owner.runs[ask("one", "k1", vcore=5).ask_class]
    run.attempted = True
    run.told.add(AllocationKey("k2"))
    run.log = {"late": LogEntry(20.0, 1), "early": LogEntry(10.0, 7)}

    first, second, third = driver.views.application(DEFAULT, "one").asks

    log = (
        AskLogEntry(message="early", last_time=10.0, count=7),
        AskLogEntry(message="late", last_time=20.0, count=1),
    )
    assert first.allocation_log == second.allocation_log == log
    assert (first.scheduling_attempted, first.triggered_scale_up) == (True, False)
    assert (second.scheduling_attempted, second.triggered_scale_up) == (True, True)
    assert third.ask.key == "k3"
    assert [entry.message for entry in third.allocation_log] == ["Not enough queue quota"]
    assert not third.triggered_scale_up


def test_an_application_names_its_group() -> None:
    """The group that an application counts for is the one with a limit, not all of its user's."""
    limits = "limits: [{limit: x, groups: [ops], maxresources: {vcore: 1}}]"
    driver = Driver()
    driver.do(register(config("[{name: a}]", rest=limits)))
    driver.do(apps(app("one", "root.a", groups=["dev", "ops"]), app("two", "root.a")))
    one, two = driver.views.applications(DEFAULT)
    assert (one.groups, one.group) == (("dev", "ops"), "ops")
    assert two.group == ""


def test_what_is_held_is_an_ask() -> None:
    """An allocation that the RM has not heard of is shown as an ask with its node, at its place."""
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n1", vcore=9), node("n2", vcore=8)))
    driver.do(apps(app("one", "root.a")))
    driver.do(asks(ask("one", "k1", vcore=6), ask("one", "k2", vcore=6), ask("one", "k3", vcore=7)))
    hold(driver.scheduler.partitions[DEFAULT], "one", "k1")

    report = driver.views.application(DEFAULT, "one")
    limited = driver.views.application(DEFAULT, "one", limit=1)
    [shown] = driver.views.partitions()
    holding, other = driver.views.nodes(DEFAULT, detail=True)

    assert [(item.ask.key, item.held_node) for item in report.asks] == [("k1", "n1"), ("k3", "")]
    assert [item.key for item in report.allocations] == ["k2"]
    assert (report.pending_count, report.allocation_count) == (2, 1)
    assert [item.ask.key for item in limited.asks] == ["k1"]
    assert [item.key for item in limited.allocations] == ["k2"]
    assert (shown.allocations, shown.pending_asks) == (1, 2)
    assert (holding.allocation_count, list(holding.allocations)) == (0, [])
    assert holding.allocated == {"vcore": 6}
    assert (other.allocation_count, len(other.allocations)) == (1, 1)
