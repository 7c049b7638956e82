"""Explanations in steps, and reports of reserved nodes."""

import pytest

from extensions.drains.building import cordon
from licorne_core.messages.reasons import NodesCheck
from licorne_core.standard.reservations.review import holder_blocker
from licorne_core.values.asks import NO_REASON, ReservationBound
from licorne_core.values.errors import NotFound
from licorne_core.values.ids import PartitionName, QueuePath
from licorne_core.views import explain
from licorne_core.views.explain import why_waits
from licorne_core.views.explain_checks import MOST_QUEUES
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.builders import reload as reload_
from support.core.driver import START, Driver
from support.core.steps import last, listed

DEFAULT = PartitionName("[rm1]default")
QUEUES = (
    "[{name: etl}, {name: nightly, resources: {max: {vcore: %s}}}, "
    "{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]"
)
MANY = "reservation.max.nodes: '50', application.reservation.max.nodes: '50'"
PATIENT = f"{{{MANY}, reservation.idle.timeout: 1h}}"


def told(nightly: int, properties: str) -> str:
    """A configuration in which the queue `nightly` has a maximum of this number of cores."""
    return config(QUEUES % nightly, properties=properties)


@pytest.fixture
def driver() -> Driver:
    """Six nodes of 10 cores with an allocation of 6 cores each, without reservations."""
    driver = Driver()
    driver.do(
        register(told(100, PATIENT)),
        nodes(*(node(f"n{number}", vcore=10_000) for number in range(6))),
        apps(app("busy", "root.etl"), app("etl", "root.etl"), app("night", "root.nightly")),
        asks(*(ask("busy", f"k{number}", vcore=6_000) for number in range(6))),
    )
    return driver


def nodes_check(driver: Driver, app_id: str, key: str = "") -> NodesCheck:
    """The check of nodes in the explanation of an ask."""
    [found] = [check for check in driver.explain(app_id, key).checks if isinstance(check, NodesCheck)]
    return found


def idle_and_waiting(driver: Driver) -> None:
    """Reserve three nodes for `nightly` and one for `etl`; a lower maximum then blocks `nightly`."""
    driver.do(asks(*(ask("night", f"big{number}", vcore=8_000) for number in range(3))))
    driver.do(asks(ask("etl", "big", vcore=7_000)))
    driver.wait(3)
    driver.do(reload_(told(5, PATIENT)))
    driver.wait(3)


def test_a_reservation_reports_queue_and_reason(driver: Driver) -> None:
    """A reservation reports its queue, its amounts, and the reason why its ask does not run."""
    idle_and_waiting(driver)
    by_key = {str(found.key): found for found in listed(driver.views.reservations(DEFAULT))}
    idle, waiting = by_key["big0"], by_key["big"]
    assert (idle.queue, dict(idle.kept), idle.exclusive) == (
        "root.nightly",
        {"vcore": 8_000},
        False,
    )
    assert idle.reason.code == "NEVER_FITS"
    assert idle.reason.text == "can never start: wants vcore=8 of at most vcore=5 in queue root.nightly"
    assert START + 3 <= idle.idle_since <= START + 5
    assert (waiting.queue, waiting.idle_since) == ("root.etl", 0.0)
    assert waiting.reason == ("WAITS_FOR_ROOM", "waits for room on the node", {"vcore": 3_000})
    assert list(driver.views.reservations_of(DEFAULT, "etl")) == [waiting]
    assert listed(driver.views.reservations_on(DEFAULT, waiting.node_id)) == [waiting]
    assert driver.views.first_reservations(DEFAULT, waiting.node_id, 3) == (waiting,)
    node_report = driver.node(waiting.node_id)
    assert (node_report.reserved, dict(node_report.kept)) == (1, {"vcore": 7_000})


def test_explain_names_the_beneficiaries_of_reserved_nodes(driver: Driver) -> None:
    """The explanation of an ask without a node has the queues with reservations, amounts and reasons."""
    idle_and_waiting(driver)
    driver.do(asks(ask("busy", "fill0", vcore=4_000), ask("busy", "fill1", vcore=4_000)))
    driver.do(apps(app("late", "root.a")), asks(ask("late", "l", vcore=3_000)))
    check = nodes_check(driver, "late")
    nightly, etl = check.reserved_for
    assert (nightly.queue, nightly.nodes, nightly.idle) == ("root.nightly", 3, 3)
    assert nightly.kept == {"vcore": 24_000}
    assert nightly.reason.code == "NEVER_FITS"
    assert (etl.nodes, etl.idle, etl.reason.code) == (1, 0, "WAITS_FOR_ROOM")
    assert check.more_queues == 0
    assert (
        "4 reserved (3 for root.nightly: can never start: wants vcore=8 of at most vcore=5 in queue "
        "root.nightly; 1 for root.etl: waits for room on the node)"
    ) in check.message()


def test_explain_lists_the_queues_with_most_reservations() -> None:
    """The queues with the most reserved nodes are listed, and the others are counted."""
    driver = Driver()
    leaves = [f"q{number}" for number in range(MOST_QUEUES + 2)]
    queues = ", ".join(f"{{name: {leaf}}}" for leaf in leaves)
    driver.do(
        register(config(f"[{queues}]", properties=f"{{{MANY}}}")),
        nodes(*(node(f"n{number}", vcore=10) for number in range(8))),
        apps(*(app(leaf, f"root.{leaf}") for leaf in leaves)),
        asks(*(ask("q0", f"k{number}", vcore=6) for number in range(8))),
        asks(*(ask(leaf, "big", vcore=8) for leaf in leaves), ask("q6", "big2", vcore=8)),
    )
    driver.wait(3)
    driver.do(asks(ask("q1", "late", vcore=3)))
    check = nodes_check(driver, "q1", "late")
    assert check.causes == {"reserved": 8}
    assert [found.queue for found in check.reserved_for] == [
        "root.q6", "root.q0", "root.q1", "root.q2", "root.q3",
    ]  # fmt: skip
    assert check.more_queues == 2
    assert "; others for 2 more queues)" in check.message()


@pytest.mark.parametrize(
    ("properties", "bound"),
    [
        (
            "{}",
            ReservationBound(
                whom="for application etl", reserved=1, most=1,
                key="application.reservation.max.nodes",
            ),
        ),
        (
            "{reservation.max.nodes: '1', application.reservation.max.nodes: '9'}",
            ReservationBound(
                whom="in queue root.etl", reserved=1, most=1, key="reservation.max.nodes"
            ),
        ),
    ],
)  # fmt: skip
def test_explain_shows_the_bound_on_reservations(properties: str, bound: ReservationBound) -> None:
    """The explanation of an ask at the bound on reserved nodes has that bound."""
    driver = Driver()
    driver.do(
        register(config("[{name: etl}]", properties=properties)),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("etl", "root.etl")),
        asks(ask("etl", "k1", vcore=6), ask("etl", "k2", vcore=6)),
        asks(ask("etl", "big1", vcore=8), ask("etl", "big2", vcore=8)),
    )
    driver.wait(3)
    check = nodes_check(driver, "etl", "big2")
    found = check.bound
    assert found is not None
    assert found == bound
    assert found.message() in check.message()
    assert nodes_check(driver, "etl", "big1").bound is None


def test_very_many_reservations_of_a_node_are_read_in_steps(driver: Driver) -> None:
    """Of many reservations of a node the first few can be read at once, and all in steps, by time."""
    many = 5
    keys = [f"r{number}" for number in range(many)]
    driver.do(asks(*(ask("etl", key, vcore=9_000, required_node="n1") for key in keys)))
    driver.wait(1)
    assert driver.node("n1").reserved == many
    first = driver.views.first_reservations(DEFAULT, "n1", 2)
    assert [(one.key, one.reason.code) for one in first] == [
        ("r0", "WAITS_FOR_ROOM"),
        ("r1", "WAITS_FOR_ROOM"),
    ]
    pause, *found = driver.views.reservations_on(DEFAULT, "n1")
    assert pause is None
    assert [one and one.key for one in found] == keys
    plain = listed(driver.views.reservations_on(DEFAULT, "n1", reasoned=False))
    assert [one.reason for one in plain] == [NO_REASON] * many


def test_a_reservation_that_ends_during_a_pause_is_left_out(driver: Driver) -> None:
    """A reservation that ends while it is read is left out of lists and explanations."""
    idle_and_waiting(driver)
    driver.do(asks(ask("busy", "fill0", vcore=4_000), ask("busy", "fill1", vcore=4_000)))
    driver.do(apps(app("late", "root.a")), asks(ask("late", "l", vcore=3_000)))
    [kept] = driver.views.reservations_of(DEFAULT, "etl")
    explaining = driver.views.explain(DEFAULT, "late")
    listing = driver.views.reservations_on(DEFAULT, kept.node_id)
    assert (next(explaining), next(listing)) == (None, None)
    driver.do(cordon(kept.node_id))
    [check] = [one for one in last(explaining).checks if isinstance(one, NodesCheck)]
    reasons = {found.queue: found.reason.code for found in check.reserved_for}
    assert reasons == {
        "root.nightly": "NEVER_FITS",
        "root.etl": "RESERVATION_ENDED",
    }
    assert listed(listing) == []


def test_the_reason_of_a_reservation_agrees_with_the_review(driver: Driver) -> None:
    """A reservation is reported with a blocking check exactly if the review considers it idle."""
    idle_and_waiting(driver)
    partition = driver.partition
    reserved = partition.wakeups.reserved
    found = {one.key: one for one in reserved}
    assert {key: why_waits(partition, one).code for key, one in found.items()} == {
        key: "WAITS_FOR_ROOM"
        if holder_blocker(partition.check_context, reserved.holder(one)) is None
        else "NEVER_FITS"
        for key, one in found.items()
    }


def test_the_census_counts_reserved_amounts(driver: Driver) -> None:
    """The census has reserved nodes and amounts by queue, separately for asks that cannot use their nodes."""
    idle_and_waiting(driver)
    *_, census = driver.views.census(DEFAULT)
    assert census is not None
    night, etl = (QueuePath("root.nightly"), "idle"), (QueuePath("root.etl"), "able")
    assert census.reserved_nodes == {night: 3, etl: 1}
    assert census.reserved == {night: {"vcore": 24_000}, etl: {"vcore": 7_000}}


def test_cancelled_reservations_are_counted_by_cause() -> None:
    """A reservation that a review cancels counts as idle or yielded; a used one counts as neither."""
    driver = Driver()
    queues = "[{name: etl, resources: {guaranteed: {vcore: 30m}}}, {name: nightly%s}]"
    driver.do(
        register(config(queues % "", properties=f"{{{MANY}}}")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("etl", "root.etl"), app("night", "root.nightly")),
        asks(ask("night", "k1", vcore=6), ask("night", "k2", vcore=6)),
        asks(ask("night", "big1", vcore=8), ask("night", "big2", vcore=8)),
    )
    driver.wait(3)
    counters = driver.views.counters(DEFAULT)
    assert (counters.reservations_idle, counters.reservations_yielded) == (0, 0)
    driver.do(asks(ask("etl", "small", vcore=4)))
    driver.wait(2)
    assert (counters.reservations_idle, counters.reservations_yielded) == (0, 1)
    limit = ", resources: {max: {vcore: 12m}}"
    driver.do(reload_(config(queues % limit, properties=f"{{{MANY}}}")))
    driver.wait(5)
    assert counters.reservations_idle >= 1
    ended = (counters.reservations_idle, counters.reservations_yielded)
    driver.do(releases(release("night", "k1"), release("night", "k2")))
    driver.wait(5)
    assert (counters.reservations_idle, counters.reservations_yielded) == ended


def test_a_reserved_ask_waits_for_its_node_in_a_full_cluster() -> None:
    """A reserved ask larger than the free room of the whole cluster waits for room on its node."""
    driver = Driver()
    driver.do(
        register(config("[{name: a}]")),
        nodes(node("n1", vcore=10), node("n2", vcore=10)),
        apps(app("busy", "root.a"), app("big", "root.a")),
        asks(ask("busy", "k1", vcore=6), ask("busy", "k2", vcore=6)),
        asks(ask("big", "b", vcore=8)),
    )
    driver.wait(3)
    [before] = listed(driver.views.reservations(DEFAULT))
    other = {"n1": "n2", "n2": "n1"}[before.node_id]
    driver.do(asks(ask("busy", "more", vcore=4, on_node=other)))
    driver.wait(5)
    [found] = listed(driver.views.reservations(DEFAULT))
    assert (found.idle_since, found.reason.code) == (0.0, "WAITS_FOR_ROOM")
    assert found.reason.lacks == {"vcore": 4}


MOST = 200


def test_explain_gives_up_if_the_ask_changes_at_each_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the explained ask is removed and another added at each step, the answer says so."""
    monkeypatch.setattr(explain, "STEP", 1)
    driver = Driver()
    driver.do(register(config("[{name: a}]")), nodes(node("n", vcore=1)))
    driver.do(apps(app("one", "root.a")), asks(ask("one", "k0", vcore=2)))
    steps = driver.views.explain(DEFAULT, "one")

    def read() -> None:
        for number, _ in zip(range(MOST), steps, strict=False):
            driver.do(releases(release("one", f"k{number}")))
            driver.do(asks(ask("one", f"k{number + 1}", vcore=2)))

    with pytest.raises(NotFound, match="asks of application one change faster than one can be"):
        read()
