"""Shadow starts of asks whose leaf is closed before: they begin within its opening hours.

The tests begin at 13:46:40, and the leaf opens 800 seconds later.
"""

import pytest

from extensions.backfill.test_budget_starts import times as starts
from extensions.backfill.test_shadows import job
from licorne_core.extensions.backfill import projection
from licorne_core.values.ids import PartitionName
from licorne_core.values.tags import RUNTIME
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
from support.core.driver import START, Driver, placed
from support.core.steps import last

LEAVES = """[{name: day}, {name: late, properties: {opening.hours: '%s'}},
  {name: night, properties: {opening.hours: '22:00-23:00'}}]"""
LATE = "14:00-15:00"
OPENS = 800.0
DAY = 86_400.0


def text(mode: str = "easy", hours: str = LATE) -> str:
    """The configuration of a leaf that is always open, and of one with these hours."""
    properties = f"{{backfill: {mode}, reservation.max.nodes: '0'}}"
    return config(LEAVES % hours, rest="nodesortpolicy: fair", properties=properties)


def world(*sizes: int, mode: str = "easy", hours: str = LATE) -> Driver:
    """A core with the two leaves, an application in each, and nodes of these sizes."""
    driver = Driver()
    driver.do(register(text(mode, hours)))
    driver.do(nodes(*(node(f"n{number}", vcore=size) for number, size in enumerate(sizes))))
    driver.do(apps(*(app(name, f"root.{name}") for name in ("late", "day", "night"))))
    return driver


def at(driver: Driver, seconds: float) -> list[tuple[str, str, str]]:
    """Advance the time to this number of seconds after the start of the test; return what is placed."""
    return placed(driver.wait(START + seconds - driver.now))


@pytest.mark.parametrize("mode", ["easy", "conservative"])
def test_an_ask_of_a_closed_leaf_holds_a_start_at_the_opening(mode: str) -> None:
    """Asks that end before the opening pass it, others do not, and it starts on time; reports say when."""
    driver = world(4, mode=mode)
    driver.do(asks(job("late", "night", 4, 100)))
    assert starts(driver) == {"night": OPENS}
    assert driver.explain("late", "night").summary == "queue root.late is closed until 14:00 UTC"
    (entry,) = driver.views.listed("calendar", PartitionName("[rm1]default"))
    assert (entry.app_id, entry.start.starts_at - START) == ("late", OPENS)
    wanted = asks(job("day", "short", 4, 800), job("day", "long", 4, 801), job("day", "open", 1))
    assert placed(driver.do(wanted)) == [("day", "short", "n0")]
    at(driver, 799.0)
    driver.do(releases(release("day", "short")))
    assert at(driver, 800.0) == [("late", "night", "n0")]


def test_a_closed_leaf_takes_no_start_from_an_open_one() -> None:
    """With easy the first blocked ask of open leaves holds a start too, and no delay by the earlier one."""
    driver = world(4, 4)
    driver.do(asks(job("late", "night", 4, 100), job("late", "next", 4, 100)))
    driver.do(asks(job("day", "a", 4, 50), job("day", "b", 4, 60)))
    driver.do(asks(job("day", "today", 4, 100), job("day", "more", 4, 100)))
    assert starts(driver) == {"night": OPENS, "today": 50.0}
    at(driver, 50.0)
    assert placed(driver.do(releases(release("day", "a")))) == [("day", "today", "n0")]
    assert starts(driver) == {"night": OPENS, "more": 60.0}


def test_a_start_takes_none_from_closed_leaves_once_its_own_is_open() -> None:
    """It then counts among those of open leaves, on time or late, as soon as there is a place for it."""
    driver = world(4, 4)
    driver.do(asks(job("day", "runs", 4, 810), job("day", "long", 4, 3000)), asks(job("late", "one", 4, 850)))
    driver.do(asks(job("day", "next", 4, 850)), asks(job("night", "x", 4, 850)))
    assert starts(driver) == {"one": 810.0, "next": 1660.0}
    at(driver, 816.0)
    assert starts(driver) == {"one": 820.0, "next": 1670.0}
    driver.do(releases(release("day", "next")))
    assert starts(driver) == {"one": 820.0, "x": 29_600.0}
    driver = world(4)
    driver.do(*(asks(job(*of, 4, 2000)) for of in (("day", "runs"), ("late", "one"), ("night", "x"))))
    at(driver, OPENS)
    assert starts(driver) == {"one": 2000.0, "x": 29_600.0}


def test_a_start_takes_none_from_open_leaves_once_its_own_closes_again() -> None:
    """With other hours a leaf that was open is closed until the start, which waits again."""
    driver = world(4, 4)
    driver.do(
        *(asks(job(*of)) for of in (("day", "r", 4, 3000), ("day", "s", 4, 3500), ("late", "one", 4, 300)))
    )
    at(driver, 801.0)
    driver.do(reload(text(hours="14:30-16:00")), asks(job("day", "next", 4, 100)))
    assert starts(driver) == {"one": 3000.0, "next": 3300.0}


def test_a_start_behind_a_maximum_takes_none_from_others_once_its_leaf_is_open() -> None:
    """Until then it waits behind none; with easy, an ask elsewhere gets the only start behind none."""
    driver = Driver()
    leaves = f"[{{name: p, resources: {{max: {{vcore: 4m}}}}, queues: {LEAVES % LATE}}}, {{name: other}}]"
    driver.do(register(config(leaves, properties="{backfill: easy, reservation.max.nodes: '0'}")))
    driver.do(nodes(node("n0", vcore=4), node("n1", vcore=4)))
    driver.do(apps(app("late", "root.p.late"), app("day", "root.p.day"), app("other", "root.other")))
    driver.do(asks(job("day", "runs", 4, 850)), asks(job("other", "long", 4, 5000)))
    driver.do(asks(job("late", "night", 4, 850)))
    at(driver, 856.0)
    driver.do(asks(job("other", "next", 4, 900)))
    assert starts(driver) == {"night": 860.0, "next": 1710.0}


def test_no_start_is_planned_for_the_time_after_a_closing() -> None:
    """Room that is free only after the closing is held from the next opening; others may start before."""
    driver = world(4, hours="13:00-14:00")
    driver.do(asks(job("day", "runs", 3, 900)), asks(job("late", "large", 4, 50)))
    assert starts(driver) == {"large": DAY - 2800.0}
    driver.do(asks(job("day", "next", 4, 50)))
    assert starts(driver) == {"large": DAY - 2800.0, "next": 900.0}


def test_another_start_of_a_leaf_is_planned_once_it_opens_or_closes() -> None:
    """An ask that found no place among the starts of its kind gets one among those of the other kind."""
    driver = world(4, hours="14:00-14:10")
    driver.do(asks(job("day", "runs", 4, 1000)))
    driver.do(asks(job("night", "one", 4, 300)), asks(job("late", "two", 4, 300)))
    assert starts(driver) == {"one": 29_600.0}
    at(driver, OPENS)
    assert starts(driver) == {"one": 29_600.0, "two": 1000.0}
    driver = world(4, hours="13:40-13:50")
    driver.do(asks(job("day", "runs", 4, 1000)), asks(job("day", "next", 4, 300)), asks(job("late", "x", 4)))
    assert starts(driver) == {"next": 1000.0}
    at(driver, 200.0)
    assert starts(driver) == {"next": 1000.0, "x": DAY - 400.0}
    driver = Driver()
    leaves = f"[{{name: p, resources: {{max: {{vcore: 4m}}}}, queues: {LEAVES % '13:40-13:50'}}}]"
    driver.do(register(config(leaves, properties="{backfill: easy, reservation.max.nodes: '0'}")))
    driver.do(nodes(node("n0", vcore=9)), apps(app("late", "root.p.late"), app("day", "root.p.day")))
    driver.do(*(asks(job(*of, 4, 1000)) for of in (("day", "runs"), ("day", "next"), ("late", "x"))))
    assert starts(driver) == {"next": 1000.0}
    driver.do(asks(job("late", "y", 4, 1000)))
    at(driver, 200.0)
    assert starts(driver) == {"next": 1000.0, "x": DAY - 400.0}


@pytest.mark.parametrize(
    ("hours", "moved"), [("14:10-15:00", 1400.0), ("13:50-13:55,14:30-15:00", 200.0), ("off", None)]
)
def test_other_hours_move_the_start(hours: str, moved: float | None) -> None:
    """After a reload the start is at the first opening by the present hours, or the ask starts at once."""
    driver = world(4)
    driver.do(asks(job("late", "night", 4, 100)))
    effects = driver.do(reload(text(hours=hours)))
    assert (starts(driver), placed(effects)) == (
        ({}, [("late", "night", "n0")]) if moved is None else ({"night": moved}, [])
    )


def test_a_start_that_becomes_late_is_planned_for_the_next_opening() -> None:
    """An allocation that runs on until the closing delays the start to the next day, and no other start."""
    driver = world(4, 4, mode="conservative", hours="13:00-13:48")
    driver.do(asks(job("day", "a", 4, 70), job("day", "b", 4, 200)), asks(job("late", "large", 4, 50)))
    driver.do(asks(job("day", "next", 4, 50)))
    assert starts(driver) == {"large": 70.0, "next": 120.0}
    at(driver, 76.0)
    assert starts(driver) == {"large": DAY - 2800.0, "next": 80.0}


def test_a_start_that_goes_to_the_next_opening_moves_no_other() -> None:
    """It is planned beside those reported after it, on the same node today and tomorrow."""
    driver = world(4, mode="conservative", hours="13:00-13:48")
    driver.do(asks(job("day", "a", 4, 70)), asks(job("late", "large", 4, 5)))
    driver.do(asks(*(job("late", key, 4, 50) for key in ("second", "third", "fourth"))))
    others = {"second": 75.0, "third": DAY - 2800.0, "fourth": DAY - 2750.0}
    assert starts(driver) == {"large": 70.0} | others
    at(driver, 75.0)
    assert starts(driver) == {"large": DAY - 2700.0} | others


def test_a_closing_plans_a_late_start_again() -> None:
    """A start that is past when its leaf closes goes to the next opening at once, not after the grace."""
    driver = world(4, hours="13:00-13:48")
    driver.do(asks(job("day", "a", 4, 78)), asks(job("late", "large", 4, 50)))
    at(driver, 80.0)
    assert starts(driver) == {"large": DAY - 2800.0}


def test_a_closed_ask_below_a_maximum_holds_a_start_beside_an_open_one() -> None:
    """With easy the start of an open ask behind the maximum takes none from an ask of a closed leaf."""
    driver = Driver()
    leaves = f"[{{name: p, resources: {{max: {{vcore: 4m}}}}, queues: {LEAVES % LATE}}}]"
    driver.do(register(config(leaves, properties="{backfill: easy, reservation.max.nodes: '0'}")))
    driver.do(nodes(node("n0", vcore=4)), apps(app("late", "root.p.late"), app("day", "root.p.day")))
    driver.do(asks(job("day", "runs", 1, 700)), asks(job("day", "next", 4, 50)))
    driver.do(asks(job("late", "night", 3, 50)))
    assert starts(driver) == {"next": 700.0, "night": OPENS}


@pytest.mark.parametrize("hours", ["off", "13:00-15:00"])
def test_a_search_until_the_leaf_closes_reads_changed_nodes_only(hours: str) -> None:
    """While a leaf stays open until the present start, an earlier one is searched as without hours."""
    driver = world(*[4] * 100, hours=hours)
    driver.do(asks(*(job("day", f"r{number}", 3, 900 + number) for number in range(100))))
    driver.do(asks(*(job("day", f"q{number}", 1, 900 + number) for number in range(100))))
    driver.do(asks(job("late", "large", 4, 50)))
    driver.do(releases(release("day", "q50")))
    before = driver.partition.check_context.claims.work
    driver.do(releases(release("day", "q51")))
    worked = driver.partition.check_context.claims.work - before
    assert (starts(driver), worked < 50) == ({"large": 900.0}, True)


def test_a_gang_of_a_closed_leaf_holds_one_start() -> None:
    """All members of a gang start together, at the first time with room for them in the opening hours."""
    driver = world(1, 1)
    driver.do(apps(app("wide", "root.late", tags={RUNTIME: "30"}, gang={"vcore": 2})))
    driver.do(asks(job("day", "a", 1, 1000)))
    driver.do(asks(*(ask("wide", f"p{n}", vcore=1, group="members", placeholder=True) for n in range(2))))
    assert starts(driver) == {"p0": 1000.0}
    at(driver, 1000.0)
    found = placed(driver.do(releases(release("day", "a"))))
    assert sorted(found) == [("wide", "p0", "n1"), ("wide", "p1", "n0")]


def test_the_estimate_of_an_ask_without_a_start_counts_the_opening_hours() -> None:
    """An ask behind others of its leaf is expected to start at the opening, when they leave it room."""
    driver = world(4)
    driver.do(asks(job("late", "one", 4, 100), job("late", "two", 4, 100)))
    start = last(
        driver.views.listed("expected_start", PartitionName("[rm1]default"), "late", "two", driver.now)
    )
    assert start.starts_at - START == OPENS + 100.0


def test_an_estimate_ends_once_nothing_else_may_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks whose room depends on an unknown runtime are tried in one opening of their leaf, not in all."""
    monkeypatch.setattr(projection, "MOST_LOOKS", 50)
    driver = Driver()
    leaves = "[{name: day}, {name: am, properties: {opening.hours: '00:00-12:00'}}, "
    leaves += "{name: pm, properties: {opening.hours: '12:00-24:00'}}]"
    driver.do(register(config(leaves, properties="{backfill: easy, reservation.max.nodes: '0'}")))
    driver.do(nodes(node("n0", vcore=4)), apps(*(app(name, f"root.{name}") for name in ("am", "pm", "day"))))
    driver.do(asks(job("day", "runs", 4)))
    driver.do(asks(job("am", "x", 4, 10), job("pm", "y", 4, 10), job("day", "z", 2, 10)))
    start = last(driver.views.listed("expected_start", PartitionName("[rm1]default"), "day", "z", driver.now))
    assert (start.confidence, start.asks_ahead) == ("unknown", 0)


def test_an_ask_waits_for_no_opening_further_away_than_a_number_of_them() -> None:
    """Room that is free only after the next 64 openings is held from none of them."""
    driver = world(4, mode="conservative")
    driver.do(asks(job("day", "runs", 4, 70 * int(DAY))), asks(job("late", "night", 4, 100)))
    assert starts(driver) == {}
