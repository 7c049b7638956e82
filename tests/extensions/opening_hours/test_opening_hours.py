"""Opening hours: a leaf starts asks from the beginning of its hours until their end."""

from collections.abc import Callable
from copy import deepcopy

import pytest

from licorne_core.extensions.opening_hours.extension import TIMER, OpeningClock
from licorne_core.extensions.opening_hours.terms import OpeningHours, Stretch
from licorne_core.messages.checks import RuleCheck
from licorne_core.messages.commands import Tick
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.views.audit.invariants import check_invariants
from support.core.builders import (
    MANY_RESERVED,
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
    remove_apps,
)
from support.core.driver import Driver, keys, placed, released, reserved

DEFAULT = PartitionName("[rm1]default")
TWO_O_CLOCK = 1_000_800.0
"""14:00 UTC, in Unix seconds."""
DAY = 86_400.0
OF = "[{name: a, properties: {opening.hours: '%s'}}, {name: b}]"


def started(hours: str, *, queues: str = OF, slots: int = 9) -> Driver:
    """A core at 14:00 with a leaf root.a of these hours, a node, and an application in both leaves."""
    driver = Driver()
    driver.now = TWO_O_CLOCK
    driver.do(register(config(queues % hours, properties=MANY_RESERVED)), nodes(node("n1", vcore=slots)))
    driver.do(apps(app("x", "root.a"), app("y", "root.b")))
    return driver


def wanted(driver: Driver, *names: str, app_id: str = "x") -> list[str]:
    """Submit these asks; return the keys that are placed."""
    return keys(driver.do(asks(*(ask(app_id, key, vcore=1) for key in names))))


def closed(driver: Driver, key: str, app_id: str = "x") -> RuleCheck:
    """The check of opening hours in the explanation of an ask."""
    found = driver.explain(app_id, key).checks
    (check,) = [one for one in found if isinstance(one, RuleCheck) and one.kind == "closed"]
    return check


def clock(driver: Driver) -> OpeningClock:
    """The clock of opening hours of the partition."""
    own = driver.partition.points.named("opening_hours")
    assert isinstance(own, OpeningClock)
    return own


def test_asks_start_at_the_opening() -> None:
    """All asks of a leaf start at its opening and none before; other leaves do not wait."""
    driver = started("14:10-14:20")
    assert wanted(driver, "k1", "k2") == []
    assert wanted(driver, "o1", app_id="y") == ["o1"]
    assert not placed(driver.wait(599.999))
    assert driver.scheduler.next_deadline() == TWO_O_CLOCK + 600.0
    assert keys(driver.wait(0.001)) == ["k1", "k2"]


def test_nothing_starts_after_the_hours() -> None:
    """Asks start up to the end of the hours, exclusive; allocations continue after it."""
    driver = started("13:00-14:10")
    driver.wait(599.999)
    assert wanted(driver, "k1") == ["k1"]
    driver.now = TWO_O_CLOCK + 600.0
    assert wanted(driver, "k2") == []
    assert not released(driver.wait(3600.0))
    assert driver.queue("root.a").allocated == {"vcore": 1}
    assert not placed(driver.wait(TWO_O_CLOCK + DAY - 3600.0 - 0.001 - driver.now))
    assert keys(driver.wait(0.001)) == ["k2"]


def test_hours_may_extend_past_midnight() -> None:
    """The leaf is open before and after midnight, and nothing changes at midnight."""
    driver = started("22:00-06:00")
    assert wanted(driver, "k1") == []
    assert keys(driver.wait(8 * 3600.0)) == ["k1"]
    assert driver.partition.timers.deadline(TIMER) == TWO_O_CLOCK + 16 * 3600.0
    driver.wait(4 * 3600.0)
    assert wanted(driver, "k2") == ["k2"]
    driver.wait(4 * 3600.0)
    assert wanted(driver, "k3") == []


def test_no_turn_starts_asks_after_their_hours_have_ended() -> None:
    """If more leaves close at once than a tick handles deadlines, still no closed leaf starts an ask."""
    count = 70
    queues = ", ".join(f"{{name: q{n}, properties: {{opening.hours: '13:00-14:10'}}}}" for n in range(count))
    driver = Driver(sweep=50)
    driver.now = TWO_O_CLOCK
    driver.do(register(config(f"[{queues}]")), nodes(node("n1", vcore=2 * count)))
    driver.do(apps(*(app(f"x{n}", f"root.q{n}") for n in range(count))))
    assert len(placed(driver.do(asks(*(ask(f"x{n}", f"k{n}", vcore=1) for n in range(count)))))) == count
    driver.now = TWO_O_CLOCK + 600.0
    driver.send(asks(*(ask(f"x{n}", f"m{n}", vcore=1) for n in range(count))))
    assert not placed(driver.send(Tick(decisions=256)))


def test_the_check_has_the_next_opening() -> None:
    """The check has code, queue and time of the opening, and passes while the leaf is open."""
    driver = started("08:00-12:00,22:00-06:30")
    wanted(driver, "k1")
    check = closed(driver, "k1")
    assert (check.passed, check.code, check.subject) == (False, "QUEUE_CLOSED", "root.a")
    assert check.until == TWO_O_CLOCK + 8 * 3600.0
    assert check.message() == "queue root.a is closed until 22:00 UTC"
    assert driver.explain("x", "k1").summary == check.message()
    driver.do(asks(ask("x", "big", vcore=99)))
    driver.wait(8 * 3600.0)
    check = closed(driver, "big")
    assert (check.passed, check.until) == (True, 0.0)
    assert check.message() == "queue root.a is open until 06:30 UTC"


def test_the_census_counts_asks_of_closed_leaves() -> None:
    """The census counts the waiting asks of a closed leaf under `QUEUE_CLOSED`."""
    driver = started("22:00-06:00")
    wanted(driver, "k1", "k2")
    (census,) = [one for one in driver.views.census(DEFAULT) if one is not None]
    assert census.pending == {("root.a", "QUEUE_CLOSED"): 2}


@pytest.mark.pure
def test_plans_name_the_closed_leaf() -> None:
    """A plan of asks for a closed leaf has the code `QUEUE_CLOSED` and its sentence."""
    driver = started("22:00-06:00")
    plan = deepcopy(driver.scheduler).plan_submission(
        RmId("rm1"), app("new", "root.a"), [ask("new", "w", vcore=1)], driver.now
    )
    [waits] = plan.asks
    assert (waits.node_id, waits.code) == ("", "QUEUE_CLOSED")
    assert waits.message == "queue root.a is closed until 22:00 UTC"


@pytest.mark.parametrize(("hours", "starts"), [("off", True), ("13:00-15:00", True), ("15:00-16:00", False)])
def test_a_reload_of_hours_applies_at_once(hours: str, starts: bool) -> None:
    """A reload with other hours, or none, applies to asks that wait and to new ones."""
    driver = started("22:00-06:00")
    wanted(driver, "k1")
    assert keys(driver.do(reload(config(OF % hours)))) == ["k1"] * starts
    assert wanted(driver, "k2") == ["k2"] * starts
    driver.do(reload(config(OF % "22:00-06:00")))
    assert wanted(driver, "k3") == []


def test_removed_hours_leave_no_timer() -> None:
    """Without leaves that have hours no timer is set, and no turn depends on one."""
    driver = started("22:00-06:00")
    partition = driver.partition
    assert TIMER in partition.timers
    assert partition.usage.tracking
    driver.do(remove_apps("x"), reload(config("[{name: b}, {name: c}]")))
    driver.wait(60.0)
    assert partition.tree.get("root.a") is None
    assert TIMER not in partition.timers
    assert not partition.usage.tracking


def test_leaves_inherit_hours() -> None:
    """The hours of a parent or a template apply to each leaf below it without hours of its own."""
    hours = "opening.hours: '22:00-06:00'"
    queues = (
        f"[{{name: p, properties: {{{hours}}}, queues: [{{name: a}}, {{name: b, properties: "
        f"{{opening.hours: off}}}}]}}, {{name: d, parent: true, childtemplate: {{properties: {{{hours}}}}}}}]"
    )
    rules = "placementrules: [{name: provided, create: true}]"
    driver = Driver()
    driver.now = TWO_O_CLOCK
    driver.do(register(config(queues, rest=rules)), nodes(node("n1", vcore=9)))
    driver.do(apps(app("x", "root.p.a"), app("y", "root.p.b"), app("z", "root.d.new")))
    assert [wanted(driver, "k", app_id=app_id) for app_id in ("x", "y", "z")] == [[], ["k"], []]
    assert closed(driver, "k", "z").subject == "root.d.new"
    assert {*placed(driver.wait(8 * 3600.0))} == {("x", "k", "n1"), ("z", "k", "n1")}


def test_a_reserved_ask_waits_for_the_opening() -> None:
    """After the hours a reserved ask is not placed, and its reservation soon ends."""
    driver = started("13:00-14:10", slots=2)
    assert wanted(driver, "o1", app_id="y") == ["o1"]
    driver.do(asks(ask("x", "big", vcore=2)), nodes(node("n2", vcore=1)))
    driver.wait(3.0)
    assert reserved(driver) == {"big": "n1"}
    driver.now = TWO_O_CLOCK + 600.0
    assert not placed(driver.do(releases(release("y", "o1"))))
    driver.wait(10.0)
    assert reserved(driver) == {}
    assert wanted(driver, "o2", app_id="y") == ["o2"]


def test_no_victim_is_stopped_for_a_closed_queue() -> None:
    """A closed queue preempts nothing; after its opening it preempts as usual."""
    queues = (
        "[{name: a, properties: {opening.hours: '%s', preemption.delay: 1s}, "
        "resources: {guaranteed: {vcore: 2}}}, {name: b}]"
    )
    driver = started("14:10-14:20", queues=queues, slots=2)
    driver.do(asks(*(ask("y", f"o{n}", vcore=1, policy="s") for n in range(2))))
    driver.do(asks(ask("x", "k1", vcore=1, policy="o")))
    assert not released(driver.wait(599.0))
    assert len(released(driver.wait(31.0))) == 1


def test_placeholders_wait_for_the_opening() -> None:
    """The placeholders of a gang in a closed leaf start at its opening."""
    driver = started("14:10-14:20")
    driver.do(apps(app("g", "root.a", gang={"vcore": 2})))
    driver.do(asks(*(ask("g", f"p{n}", vcore=1, group="w", placeholder=True) for n in range(2))))
    assert closed(driver, "p0", "g").passed is False
    assert keys(driver.wait(600.0)) == ["p0", "p1"]


def test_a_leaf_without_hours_has_no_state() -> None:
    """If no leaf has the property, there are no interests, no timers, and no checks in explanations."""
    driver = started("off")
    partition = driver.partition
    driver.do(asks(ask("x", "big", vcore=99)))
    assert not any(queue.interests for queue in partition.tree.all())
    assert not partition.usage.tracking
    assert TIMER not in partition.timers
    told = driver.explain("x", "big").checks
    assert "QUEUE_CLOSED" not in [check.code for check in told]


def _open_at_the_wrong_time(driver: Driver, own: OpeningClock) -> None:
    own.context.tree.root.children["a"].interests &= ~own.bit


def _later(driver: Driver, own: OpeningClock) -> None:
    own._changes.set(own.context.tree.root.children["a"], TWO_O_CLOCK + 9 * 3600.0)


def _never(driver: Driver, own: OpeningClock) -> None:
    own._changes.cancel(own.context.tree.root.children["a"])


def _without_timer(driver: Driver, own: OpeningClock) -> None:
    own.timers.cancel(TIMER)


def _others(driver: Driver, own: OpeningClock) -> None:
    own._hours[own.context.tree.root.children["a"]] = OpeningHours((Stretch(0, 3600),))


def _closed_without_hours(driver: Driver, own: OpeningClock) -> None:
    own.context.tree.root.children["b"].interests |= own.bit


def _not_followed(driver: Driver, own: OpeningClock) -> None:
    own.dirty.usage.track(own.bit, on=False)


@pytest.mark.parametrize(
    ("plant", "told"),
    [
        (_open_at_the_wrong_time, "O1"),
        (_later, "O1"),
        (_never, "O1"),
        (_without_timer, "L1"),
        (_others, "O1"),
        (_closed_without_hours, "O1"),
        (_not_followed, "O1"),
    ],
)
def test_the_recount_detects_wrong_state(plant: Callable[[Driver, OpeningClock], None], told: str) -> None:
    """The recount compares all state of a leaf with its opening hours."""
    driver = started("22:00-06:00")
    check_invariants(driver.scheduler)
    plant(driver, clock(driver))
    with pytest.raises(InvariantBroken, match=f"^{told}: "):
        check_invariants(driver.scheduler)
