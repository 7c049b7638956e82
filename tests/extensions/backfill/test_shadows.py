"""Shadow starts of blocked asks, and the asks that pass them."""

from collections.abc import Callable

import pytest

from licorne_core.extensions.backfill import START_BY
from licorne_core.extensions.backfill.extension import PartitionStarts, starts_of
from licorne_core.extensions.backfill.unplanned import MOST_AGAIN, MOST_FIRST, RETRY_TIME
from licorne_core.messages.claims import BehindReservationCheck
from licorne_core.messages.commands import NodeAction, Tick
from licorne_core.messages.effects import Effect
from licorne_core.messages.events.records import EventType
from licorne_core.values.asks import Ask, Passed
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import AllocationKey, AppId
from licorne_core.values.slices import Tuning
from licorne_core.values.tags import RUNTIME
from licorne_core.views.explain import explain
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
    reload,
)
from support.core.driver import START, Driver, placed, reserved
from support.core.steps import last

CONSERVATIVE = "{backfill: conservative, reservation.max.nodes: '0'}"
EASY = "{backfill: easy, reservation.max.nodes: '9'}"


def world(*sizes: int, properties: str = EASY, tuning: Tuning | None = None) -> Driver:
    """A core with a leaf, applications `first`, `second` and `third`, and nodes of these sizes."""
    driver = Driver(tuning=tuning)
    driver.do(register(config("[{name: a}]", rest="nodesortpolicy: fair", properties=properties)))
    driver.do(nodes(*(node(f"n{number}", vcore=size) for number, size in enumerate(sizes))))
    for name in ("first", "second", "third"):
        driver.do(apps(app(name, "root.a")))
        driver.now += 0.001
    driver.now = START
    return driver


def job(app_id: str, key: str, vcore: int, seconds: int | None = None, node_id: str | None = None) -> Ask:
    """An ask, with a declared runtime unless that is None."""
    tags = {} if seconds is None else {RUNTIME: str(seconds)}
    return ask(app_id, key, vcore=vcore, tags=tags, required_node=node_id)


def starts(driver: Driver) -> dict[str, tuple[float, list[str]]]:
    """The shadow starts: seconds after the start of the test, and nodes."""
    shadows = starts_of(driver.partition).shadows
    return {
        one.request.key: (round(one.start - START, 3), [node.node_id for node in one.places])
        for one in shadows
    }


def at(driver: Driver, seconds: float) -> None:
    """Advance the time to this number of seconds after the start of the test."""
    driver.wait(START + seconds - driver.now)


def test_a_blocked_ask_holds_the_earliest_start_and_shorter_asks_pass() -> None:
    """Asks use the planned node if they end before the start, or leave the planned room free."""
    driver = world(10, 4)
    driver.do(asks(job("first", "runs", 6, 100), job("first", "small", 4)))
    assert starts(driver) == {}
    driver.do(asks(job("second", "large", 8, 50)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    effects = driver.do(asks(job("third", "long", 3), job("third", "ends", 2, 100), job("third", "rest", 2)))
    assert placed(effects) == [("third", "ends", "n0"), ("third", "rest", "n0")]
    assert reserved(driver) == {}
    at(driver, 99.0)
    effects = driver.do(releases(release("third", "ends"), release("first", "runs")))
    assert placed(effects) == [("second", "large", "n0")]
    assert starts(driver) == {"long": (149.0, ["n0"])}


def test_an_ask_that_would_delay_a_start_is_told_the_holder() -> None:
    """The explanation of a blocked ask names the holder and its shadow start."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 9)))
    driver.do(asks(job("third", "late", 2, 101)))
    partition = driver.partition
    report = last(explain(partition, partition.applications[AppId("third")], "late"))
    (check,) = [one for one in report.checks if one.code == "BEHIND_RESERVATION"]
    held = Passed("backfill", AppId("second"), AllocationKey("large"), START + 100)
    assert check == BehindReservationCheck(held=held, claim="shadow start", nodes=1)
    assert (
        report.summary
        == check.message()
        == (
            "would delay the shadow start of ask large of application second on 1 node: "
            "it declares no end before that"
        )
    )
    report = last(explain(partition, partition.applications[AppId("second")], "large"))
    assert "BEHIND_RESERVATION" not in [one.code for one in report.checks]


def test_a_start_after_the_deadline_of_the_ask_has_one_event() -> None:
    """The event has the deadline and the start; a start that moves again has no second event."""
    driver = world(10)
    counters = starts_of(driver.partition).shadows.counters
    by = {RUNTIME: "50", START_BY: str(int(START) + 100)}
    driver.do(asks(job("first", "runs", 6, 100)))
    driver.do(asks(ask("second", "large", vcore=10, tags=by)))
    assert (starts(driver), counters.deadlines_at_risk) == ({"large": (100.0, ["n0"])}, 0)
    at(driver, 115.0)
    assert (starts(driver), counters.deadlines_at_risk) == ({"large": (120.0, ["n0"])}, 1)
    records = [record for fact in driver.facts for record in fact.records()]
    (told,) = [record for record in records if record.message.startswith("DEADLINE_AT_RISK")]
    assert (told.time, told.type, told.object_id) == (START + 105, EventType.REQUEST, "large")
    assert told.message == (
        f"DEADLINE_AT_RISK: planned to start at {START + 110:.0f}, wants to start by {START + 100:.0f}"
    )


def test_an_ask_that_ends_too_late_does_not_pass() -> None:
    """The expected end of an ask counts from now, so the longest runtime that may pass shrinks with time."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 10, 50)))
    at(driver, 41.0)
    assert placed(driver.do(asks(job("third", "late", 1, 60)))) == []
    assert placed(driver.do(asks(job("third", "ends", 1, 59)))) == [("third", "ends", "n0")]


def test_without_known_ends_a_node_is_reserved_instead() -> None:
    """If a needed end is unknown, the ask has no shadow start, and a node is reserved after a wait."""
    driver = world(10, 4)
    driver.do(asks(job("first", "runs", 6)), asks(job("second", "large", 8, 50)))
    assert (starts(driver), reserved(driver)) == ({}, {})
    at(driver, 2.0)
    assert (starts(driver), reserved(driver)) == ({}, {"large": "n0"})


def test_a_start_is_planned_by_learnt_runtimes() -> None:
    """Without a declared runtime, earlier runs of the same amounts give the end of an allocation."""
    driver = world(10)
    for number in range(3):
        driver.do(asks(job("first", f"k{number}", 6)))
        driver.now += 20.0
        driver.do(releases(release("first", f"k{number}")))
    driver.now = START + 100
    driver.do(asks(job("first", "runs", 6)), asks(job("second", "large", 8, 50)))
    assert starts(driver) == {"large": (120.0, ["n0"])}


def test_an_overrun_moves_the_start_in_growing_steps() -> None:
    """An overdue allocation is expected to end soon; the holder keeps its room meanwhile."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 10, 50)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    at(driver, 104.0)
    assert starts(driver) == {"large": (100.0, ["n0"])}
    at(driver, 105.0)
    assert starts(driver) == {"large": (110.0, ["n0"])}
    at(driver, 115.0)
    assert starts(driver) == {"large": (120.0, ["n0"])}
    assert placed(driver.do(asks(job("third", "short", 1, 60)))) == []
    assert placed(driver.do(releases(release("first", "runs")))) == [("second", "large", "n0")]


def test_a_start_is_planned_again_when_its_node_is_drained() -> None:
    """The start moves to another node; without one, a node is reserved as soon as one returns."""
    driver = world(10, 10, 1)
    driver.do(
        asks(job("first", "runs", 6, 100), job("first", "goes", 6, 200)), asks(job("second", "large", 8))
    )
    assert starts(driver) == {"large": (100.0, ["n0"])}
    driver.do(nodes(node("n0", NodeAction.DRAIN_NODE)))
    assert starts(driver) == {"large": (200.0, ["n1"])}
    driver.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    assert starts(driver) == {}
    driver.do(nodes(node("n0", NodeAction.DRAIN_TO_SCHEDULABLE)))
    at(driver, 3.0)
    assert (starts(driver), reserved(driver)) == ({}, {"large": "n0"})


def test_one_ask_holds_a_start_at_a_time_and_the_next_follows_at_once() -> None:
    """With `easy` only the first blocked ask holds a start; once placed, the next blocked ask holds one."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 10, 100)))
    driver.do(asks(job("second", "large", 9, 50)), asks(job("second", "next", 10, 50)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    at(driver, 100.0)
    effects = driver.do(asks(job("third", "late", 1, 60)), releases(release("first", "runs")))
    assert placed(effects) == [("second", "large", "n0")]
    assert starts(driver) == {"next": (150.0, ["n0"])}


def test_sixteen_asks_hold_starts_at_a_time() -> None:
    """With `conservative` the first sixteen of seventeen blocked asks hold starts, one after the other."""
    driver = world(10, properties="{backfill: conservative}")
    driver.do(asks(job("first", "runs", 10, 100)))
    driver.do(asks(*(job("second", f"k{number:02}", 10, 50) for number in range(17))))
    assert starts(driver) == {f"k{number:02}": (100.0 + 50.0 * number, ["n0"]) for number in range(16)}


def test_a_start_is_planned_before_another_one_if_it_ends_in_time() -> None:
    """An ask that takes longer, or declares no runtime, is planned after the end of the other holder."""
    driver = world(10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "long", 6, 100), job("first", "short", 4, 50)))
    driver.do(asks(job("second", "all", 10, 50)), asks(job("second", "fits", 4, 50)))
    driver.do(asks(job("third", "longer", 3, 51), job("third", "unknown", 1)))
    told = {"all": 100.0, "fits": 50.0, "longer": 150.0, "unknown": 150.0}
    assert starts(driver) == {key: (start, ["n0"]) for key, start in told.items()}
    # Others are planned on the room of the removed ask at once.
    driver.do(releases(release("second", "all")))
    told = {"fits": 50.0, "longer": 100.0, "unknown": 100.0}
    assert starts(driver) == {key: (start, ["n0"]) for key, start in told.items()}


def test_an_ask_holds_a_start_after_the_wait_set_by_its_leaf() -> None:
    """With the property `reserve.after: 30s` an ask holds no start in its first 30 seconds."""
    driver = world(10, properties="{backfill: easy, reserve.after: 30s}")
    driver.do(asks(job("first", "runs", 6, 100)), asks(job("second", "large", 8)))
    at(driver, 29.0)
    assert starts(driver) == {}
    at(driver, 30.0)
    assert starts(driver) == {"large": (100.0, ["n0"])}


def test_backfill_begins_and_ends_with_a_reload() -> None:
    """A reload with backfill gives waiting asks runtimes and starts; without backfill no start is held."""
    driver = world(10, properties="{reservation.max.nodes: '0'}")
    driver.do(
        asks(job("first", "runs", 6, 100)), asks(job("second", "large", 8), job("third", "short", 5, 9))
    )
    driver.do(reload(config("[{name: a}]", properties=EASY)))
    assert starts(driver) == {"large": (100.0, ["n0"])}
    driver.do(releases(release("second", "large")))
    assert starts(driver) == {"short": (100.0, ["n0"])}
    driver.do(reload(config("[{name: a}]")))
    assert starts(driver) == {}


def gang(driver: Driver, app_id: str, members: int, seconds: int) -> None:
    """An application whose placeholders are placed together, and the asks for them."""
    driver.do(apps(app(app_id, "root.a", tags={RUNTIME: str(seconds)}, gang={"vcore": members})))
    wanted = [
        ask(app_id, f"p{number}", vcore=1, group="members", placeholder=True) for number in range(members)
    ]
    driver.do(asks(*wanted))


def test_a_gang_holds_one_start_for_all_its_members() -> None:
    """All members start together at the earliest time with enough nodes; shorter asks pass until then."""
    driver = world(1, 1, 1)
    driver.do(asks(job("first", "a", 1, 50), job("first", "b", 1, 80), job("first", "c", 1, 200)))
    gang(driver, "wide", 2, 30)
    assert starts(driver) == {"p0": (80.0, ["n0", "n1"])}
    at(driver, 50.0)
    effects = driver.do(
        releases(release("first", "a")), asks(job("third", "late", 1, 31), job("third", "passes", 1, 30))
    )
    assert placed(effects) == [("third", "passes", "n0")]
    at(driver, 80.0)
    effects = driver.do(releases(release("first", "b"), release("third", "passes")))
    assert placed(effects) == [("wide", "p0", "n0"), ("wide", "p1", "n1")]


def test_a_gang_holds_an_idle_node_rather_than_one_whose_end_is_learnt() -> None:
    """Of nodes with room at the start, busy nodes are held first, but not those whose end is only learnt."""
    driver = world(1, 1, 1, 1)
    for number in range(3):
        driver.do(asks(job("first", f"k{number}", 1)))
        driver.now += 20.0
        driver.do(releases(release("first", f"k{number}")))
    driver.do(asks(job("first", "a", 1, 50), job("first", "b", 1, 50), job("first", "learnt", 1)))
    gang(driver, "wide", 3, 30)
    assert starts(driver) == {"p0": (110.0, ["n3", "n0", "n1"])}


def test_a_gang_starts_earlier_when_room_is_freed_early() -> None:
    """An earlier start is searched for, on other nodes as well."""
    driver = world(1, 1, 1)
    driver.do(asks(job("first", "a", 1, 50), job("first", "b", 1, 80), job("first", "c", 1, 200)))
    gang(driver, "wide", 2, 30)
    at(driver, 60.0)
    effects = driver.do(releases(release("first", "a"), release("first", "c")))
    assert placed(effects) == [("wide", "p0", "n0"), ("wide", "p1", "n2")]


def test_a_gang_that_changes_is_planned_again() -> None:
    """The start of a gang moves when the gang gains a placeholder, and moves back after its release."""
    driver = world(1, 1, 1)
    driver.do(asks(job("first", "a", 1, 50), job("first", "b", 1, 80), job("first", "c", 1, 200)))
    gang(driver, "wide", 2, 30)
    driver.do(asks(ask("wide", "more", vcore=1, group="members", placeholder=True)))
    assert starts(driver) == {"p0": (200.0, ["n0", "n1", "n2"])}
    driver.do(releases(release("wide", "more")))
    assert starts(driver) == {"p0": (80.0, ["n0", "n1"])}


def test_the_error_of_a_start_counts_from_its_first_published_time() -> None:
    """A moved start keeps its first published time, from which the error is measured."""
    driver = world(4)
    driver.do(asks(job("first", "runs", 4, seconds=100)))
    driver.do(asks(job("second", "large", 4, seconds=50)))
    at(driver, 120)
    shadows = starts_of(driver.partition).shadows
    [shadow] = shadows
    assert shadow.start > shadow.first_told == START + 100
    driver.do(releases(release("first", "runs")))
    driver.wait(1)
    [errors] = shadows.counters.eta_errors.values()
    assert errors.total == 20.0


def test_a_gang_that_keeps_growing_does_not_delay_other_asks() -> None:
    """The search restarts with each new placeholder and is soon given up, so that others have their turn."""
    driver = world(*[1] * 40, tuning=Tuning(fill_work=4))
    driver.do(asks(*(job("first", f"runs{number}", 1, 50) for number in range(39))))
    gang(driver, "wide", 2, 30)
    driver.wait(3)
    assert "p0" in starts(driver)
    driver.send(asks(job("second", "small", 1, 1)))
    effects: list[Effect] = []
    for number in range(20):
        driver.send(asks(ask("wide", f"more{number}", vcore=1, group="members", placeholder=True)))
        effects += driver.send(Tick(decisions=5))
    assert [key for _, key, _ in placed(effects)] == ["small"]


def test_a_gang_with_too_many_sizes_holds_no_start() -> None:
    """No room is held for such a gang, and the starts of other asks are planned at once."""
    driver = world(*[20] * 20)
    driver.do(asks(*(job("first", f"runs{number}", 20, 50) for number in range(20))))
    driver.do(apps(app("wide", "root.a", tags={RUNTIME: "30"}, gang={"vcore": 153})))
    sizes = range(1, 18)
    driver.do(
        asks(*(ask("wide", f"p{size}", vcore=size, group="members", placeholder=True) for size in sizes))
    )
    driver.wait(10)
    assert starts(driver) == {}
    driver.do(asks(job("second", "large", 20, 50)))
    driver.wait(3)
    assert list(starts(driver)) == ["large"]


def test_a_class_without_a_start_is_searched_for_once_for_all_applications() -> None:
    """A hundred applications with one ask of the class cost one search, and then one in 15 seconds."""
    driver = world(10, 4, properties=CONSERVATIVE)
    search = driver.partition.claims
    driver.do(asks(job("first", "runs", 10)))
    driver.do(apps(*(app(f"app{number}", "root.a") for number in range(100))))
    driver.do(asks(job("app0", "k", 8, 50)))
    once = search.work
    driver.do(asks(*(job(f"app{number}", "k", 8, 50) for number in range(1, 100))))
    at(driver, RETRY_TIME - 0.1)
    assert search.work == once
    at(driver, RETRY_TIME + 0.1)
    assert once < search.work <= 2 * once


def test_classes_without_a_start_are_searched_for_in_turn() -> None:
    """In 15 seconds at most sixteen classes that failed before are searched for, and sixteen others."""
    driver = world(100, properties=CONSERVATIVE)
    search = driver.partition.claims
    driver.do(asks(job("first", "runs", 40)))
    driver.do(asks(job("third", "k", 61, 1)))
    first = search.work
    driver.do(asks(job("third", "again", 62, 1)))
    each = search.work - first
    driver.do(asks(*(job("third", f"k{number}", 61, 2 + number) for number in range(40))))
    began = search.work
    assert began <= first + each * (MOST_AGAIN + 2)
    at(driver, 3 * RETRY_TIME)
    assert each * 24 <= search.work - began <= each * 3 * (MOST_AGAIN + MOST_FIRST)
    assert starts(driver) == {}


def test_an_application_without_starts_does_not_delay_another() -> None:
    """However many classes of an application have no start, an ask of another application is planned."""
    driver = world(100, 10, properties=CONSERVATIVE)
    driver.do(asks(job("first", "runs", 100, node_id="n0"), job("first", "ends", 10, 300, node_id="n1")))
    driver.do(asks(*(job("second", f"k{number}", 11 + number) for number in range(80))))
    driver.wait(1)
    driver.do(asks(job("third", "good", 10, 5)))
    driver.wait(1)
    assert starts(driver) == {"good": (300.0, ["n1"])}


def test_an_ask_larger_than_every_node_costs_no_search() -> None:
    """Hundreds of such asks, or of a shape that no node holds, do not delay the start of another ask."""
    driver = world(10, properties=CONSERVATIVE)
    search = driver.partition.claims
    driver.do(nodes(node("wide", vcore=1, memory=9)))
    driver.do(asks(*(job("first", f"k{number}", 11 + number, 50) for number in range(500))))
    driver.do(asks(ask("first", "shape", vcore=9, memory=9, tags={RUNTIME: "50"})))
    assert search.work == 0
    driver.do(asks(job("second", "runs", 5, 100)), asks(job("second", "waits", 9, 50)))
    assert starts(driver) == {"waits": (100.0, ["n0"])}


def test_a_search_reads_only_what_has_changed_since_the_last_one() -> None:
    """Unchanged nodes are not read again, and an earlier start is searched for on changed nodes only."""
    driver = world(*[10] * 60, properties=EASY)
    search = driver.partition.claims
    driver.do(asks(*(job("first", f"runs{number}", 6, 100 + number) for number in range(60))))
    driver.do(asks(job("second", "large", 8, 50)))
    first = search.work
    assert starts(driver) == {"large": (100.0, ["n0"])}
    at(driver, 6.0)
    driver.do(releases(release("first", "runs7")))
    assert starts(driver) == {}
    driver.do(asks(job("second", "next", 10, 50)))
    assert search.work - first <= first / 2
    told = starts(driver)
    assert list(told) == ["next"]
    second = search.work
    at(driver, 12.0)
    driver.do(asks(job("third", "passes", 1, 2)))
    assert second < search.work <= second + 40
    assert starts(driver) == told


def test_a_search_of_many_nodes_takes_several_turns() -> None:
    """No turn exceeds the budget of work, however many nodes and allocations there are."""
    driver = world(*[10] * 60, properties=EASY, tuning=Tuning(fill_work=40))
    search = driver.partition.claims
    driver.do(asks(*(job("first", f"runs{number}", 6, 100 + number) for number in range(60))))
    driver.send(asks(job("second", "large", 8, 50)))
    parts = []
    while not starts(driver):
        before = search.work
        driver.send(Tick(decisions=5))
        parts.append(search.work - before)
    assert max(parts) <= 60
    assert len(parts) >= 8


def test_nothing_is_kept_of_removed_nodes() -> None:
    """With a removed node the data about its ends is dropped, even if no start is searched for any more."""
    driver = world(*[10] * 5)
    partition = driver.partition
    driver.do(asks(*(job("first", f"runs{number}", 6, 100) for number in range(5))))
    driver.do(asks(job("second", "large", 8, 50)))
    assert starts_of(partition).ends.known == 5
    driver.do(nodes(*(node(f"n{number}", NodeAction.DECOMISSION) for number in range(4))))
    assert starts_of(partition).ends.known == 1
    driver.do(nodes(node("n4", NodeAction.DECOMISSION)))
    assert (starts_of(partition).ends.known, starts_of(partition).ends.undeclared) == (0, 0)


def no_claim(own: PartitionStarts) -> None:
    """Drop the claims, so that the pass does not try the holder."""
    own.context.claims.held.clear()


def no_room(own: PartitionStarts) -> None:
    """Drop the claims on nodes, so that others may use the planned room."""
    for one in own.context.nodes.values():
        one.claims.clear()


def no_holder(own: PartitionStarts) -> None:
    """Take the claim from the ask."""
    for shadow in own.shadows:
        shadow.request.claim = None


def no_deadline(own: PartitionStarts) -> None:
    """Cancel the timer that plans an overdue start again."""
    for shadow in own.shadows:
        own.timers.cancel(shadow.timer)


def no_interest(own: PartitionStarts) -> None:
    """Drop the interests of applications, so that new asks have no runtime."""
    for one in own.context.applications.values():
        one.interests = 0


@pytest.mark.parametrize("slip", [no_claim, no_room, no_holder, no_deadline, no_interest])
def test_the_recount_notices_a_slip(slip: Callable[[PartitionStarts], None]) -> None:
    """The recount compares starts, claims, nodes, asks, deadlines and interests."""
    driver = world(10)
    driver.do(asks(job("first", "runs", 6, 100)))
    driver.do(asks(job("second", "large", 8, 50)))
    partition = driver.partition
    own = starts_of(partition)
    own.recount(partition.applications, settled=True)
    slip(own)
    with pytest.raises(InvariantBroken):
        own.recount(partition.applications, settled=True)
