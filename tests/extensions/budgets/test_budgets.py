"""Budgets over RMs: their bounds, wake-ups, and members."""

from random import Random

import pytest

from licorne_core.extensions.budgets import reports
from licorne_core.extensions.budgets.accounts import BudgetBook
from licorne_core.extensions.budgets.messages import (
    BUDGET_EXCEEDED,
    Budget,
    BudgetCheck,
    BudgetPattern,
    BudgetReport,
    SetBudgets,
    SetBudgetSlices,
)
from licorne_core.extensions.budgets.reports import budget_reports
from licorne_core.messages.commands import PredicatePolicy, RemoveRm, TerminationType, Tick
from licorne_core.values.errors import ConfigError, NotFound
from licorne_core.values.ids import PartitionName, RmId
from licorne_core.values.slices import Tuning
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
    remove_apps,
)
from support.core.calls import calls
from support.core.driver import Driver, keys, placed, released, reserved
from support.core.steps import last

QUEUES = config("[{name: a}, {name: b, queues: [{name: c}]}]")
EVERYTHING = (BudgetPattern(),)


def budget(name: str = "all", members: tuple[BudgetPattern, ...] = EVERYTHING, **limit: int) -> Budget:
    """A budget for all RMs, partitions and queues, by default."""
    return Budget(name=name, limit=limit, members=members)


def budgets(*all_of_them: Budget, floating: tuple[str, ...] = ()) -> SetBudgets:
    """Set these budgets in place of all others."""
    return SetBudgets(budgets=all_of_them, floating=frozenset(floating))


def joined(*rms: str, queues: str = QUEUES, tuning: Tuning | None = None, sweep: int = 1) -> Driver:
    """RMs that each have a large node `n` and an application `app` in root.a."""
    driver = Driver(tuning=tuning, sweep=sweep)
    for rm in rms:
        driver.do(register(queues, rm=rm), nodes(node("n", memory=100), rm=rm))
        driver.do(apps(app("app", "root.a"), rm=rm))
    return driver


def wants(driver: Driver, rm: str, *names: str, app_id: str = "app", **size: int) -> list[str]:
    """Submit asks of an RM; return the keys of all allocations that follow."""
    return keys(driver.do(asks(*(ask(app_id, name, size=size) for name in names), rm=rm)))


def ends(driver: Driver, rm: str, *names: str, app_id: str = "app") -> list[str]:
    """Release allocations of an RM; return the keys of all allocations that follow."""
    return keys(driver.do(releases(*(release(app_id, name) for name in names), rm=rm)))


def checks(driver: Driver, rm: str, key: str, app_id: str = "app") -> list[BudgetCheck]:
    """The checks of budgets in the explanation of an ask."""
    found = last(driver.views.explain(PartitionName(f"[{rm}]default"), app_id, key))
    return [check for check in found.checks if isinstance(check, BudgetCheck)]


def report(driver: Driver, name: str = "all") -> BudgetReport:
    """The report of one budget."""
    return next(found for found in budget_reports(driver.views) if found.name == name)


def test_a_budget_bounds_all_rms_together() -> None:
    """Amounts used by one RM are not available to another; their release wakes the other RM's ask."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=3)))
    assert wants(driver, "one", "k1", "k2", memory=1) == ["k1", "k2"]
    assert wants(driver, "two", "k1", "k2", memory=1) == ["k1"]
    assert ends(driver, "one", "k1") == ["k2"]
    assert [use.used for use in report(driver).rms.values()] == [{"memory": 1}, {"memory": 2}]


def test_the_check_of_a_budget_names_its_largest_users() -> None:
    """The check has the budget, the shortage, and the RMs that use the budget, the largest first."""
    driver = joined("one", "two", "idle")
    driver.do(budgets(budget(memory=3)))
    wants(driver, "one", "k1", "k2", memory=1)
    wants(driver, "two", "k1", "k2", memory=1)
    (check,) = checks(driver, "two", "k2")
    assert (check.code, check.passed, check.short) == (BUDGET_EXCEEDED, False, {"memory": 1})
    assert (check.used, check.bound, check.slice_of) == ({"memory": 3}, {"memory": 3}, "")
    assert check.holders == (("one", {"memory": 2}), ("two", {"memory": 1}))
    assert check.message() == ("exceeds budget all by memory=1; held by one memory=2, two memory=1")
    census = last(driver.views.census(PartitionName("[two]default")))
    assert census.pending == {("root.a", BUDGET_EXCEEDED): 1}


def test_a_budget_bounds_its_own_types_only() -> None:
    """A type without a limit in the budget is not bounded, and a limit of zero forbids its type."""
    driver = joined("one")
    driver.do(budgets(budget(memory=0)), nodes(node("m", vcore=10), rm="one"))
    assert wants(driver, "one", "k1", vcore=10) == ["k1"]
    assert wants(driver, "one", "k2", memory=1) == []


def test_usage_counts_in_the_budgets_above() -> None:
    """An ask stays within its budget and all budgets above, which siblings share."""
    driver = joined("one")
    leaf = (BudgetPattern(queue="root.b"),)
    other = (BudgetPattern(queue="root.a"),)
    driver.do(
        budgets(
            budget("top", (), memory=3), budget("top/b", leaf, memory=5), budget("top/a", other, memory=2)
        ),
        apps(app("below", "root.b.c"), rm="one"),
    )
    assert wants(driver, "one", "a1", "a2", "a3", memory=1) == ["a1", "a2"]
    assert wants(driver, "one", "b1", "b2", app_id="below", memory=1) == ["b1"]
    assert [check.budget for check in checks(driver, "one", "b2", "below")] == ["top/b", "top"]
    assert [check.passed for check in checks(driver, "one", "b2", "below")] == [True, False]
    assert [found.used for found in budget_reports(driver.views)] == [
        {"memory": 3},
        {"memory": 1},
        {"memory": 2},
    ]


def test_members_are_matched_by_patterns() -> None:
    """The patterns of RM, partition and queue must all match; one for a queue includes the queues below."""
    driver = joined("one", "two")
    driver.do(*(apps(app("below", "root.b.c"), rm=rm) for rm in ("one", "two")))
    own, spare = BudgetPattern(rm="t*", queue="root.b"), BudgetPattern(partition="spare")
    driver.do(budgets(budget(members=(own,), memory=1), budget("spare", (spare,), memory=0)))
    assert wants(driver, "one", "k1", "k2", memory=1) == ["k1", "k2"]
    assert wants(driver, "two", "k1", "k2", memory=1) == ["k1", "k2"]
    assert wants(driver, "one", "b1", "b2", app_id="below", memory=1) == ["b1", "b2"]
    assert wants(driver, "two", "b1", "b2", app_id="below", memory=1) == ["b1"]


def test_new_budgets_count_existing_usage() -> None:
    """Usage from before a budget counts: allocations above it continue, and no new ask starts."""
    driver = joined("one", "two")
    wants(driver, "one", "k1", "k2", "k3", memory=1)
    assert driver.do(budgets(budget(memory=2))) == []
    assert report(driver).used == {"memory": 3}
    assert report(driver).overdraft == {"memory": 1}
    assert wants(driver, "two", "k1", memory=1) == []
    assert ends(driver, "one", "k1") == []
    assert ends(driver, "one", "k2") == ["k1"]


def test_a_higher_or_removed_limit_wakes_waiting_asks() -> None:
    """Asks of all RMs are tried again when a limit rises, and when its budget is removed."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=0)))
    for rm in ("one", "two"):
        assert wants(driver, rm, "k1", "k2", memory=1) == []
    assert len(placed(driver.do(budgets(budget(memory=2))))) == 2
    assert len(placed(driver.do(budgets()))) == 2
    assert budget_reports(driver.views) == ()


@pytest.mark.parametrize("left", ["the budget is gone", "the RM is no member"])
def test_asks_that_leave_a_budget_are_woken(left: str) -> None:
    """Asks do not wait for a budget to which they no longer belong, even if that budget has no room."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=0)))
    for rm in ("one", "two"):
        assert wants(driver, rm, "k1", memory=1) == []
    kept = [] if left == "the budget is gone" else [budget(members=(BudgetPattern(rm="one"),), memory=0)]
    assert len(placed(driver.do(budgets(*kept)))) == (1 if kept else 2)


def test_the_account_of_a_budget_is_below_that_of_its_parent() -> None:
    """Whichever budgets are added and removed, the parent of an account is that of the parent budget."""
    rng, book = Random(7), BudgetBook({})
    kept = 0
    for _ in range(200):
        there: list[str] = []
        for name in ("a", "b", "a/a", "a/b", "b/a", "b/b", "a/b/a", "a/b/b"):
            above = name.rpartition("/")[0]
            there += [name] if rng.random() < 0.7 and (not above or above in there) else []
        former = dict(book.accounts)
        book.set([budget(name, memory=1) for name in there])
        for name, account in book.accounts.items():
            assert account.above is book.accounts.get(name.rpartition("/")[0])
            kept += former.get(name) is account and account.above is not None
    assert kept > 100


def test_invalid_budgets_change_nothing() -> None:
    """A budget without its parent is refused, and the former budgets stay in force."""
    driver = joined("one")
    driver.do(budgets(budget(memory=1)))
    with pytest.raises(ConfigError, match="no budget 'a' comes before"):
        driver.send(budgets(budget("a/b", memory=9)))
    with pytest.raises(NotFound, match="budget other not found"):
        driver.send(SetBudgetSlices(budget="other", slices={}))
    assert wants(driver, "one", "k1", "k2", memory=1) == ["k1"]


def test_a_slice_bounds_its_rm() -> None:
    """An RM is bounded by its own slice; asks of an RM wake when its slice is increased."""
    driver = joined("one", "two", "three")
    slices = {RmId("one"): {"memory": 2}, RmId("two"): {"memory": 1}}
    driver.do(budgets(Budget(name="all", limit={"memory": 3}, members=EVERYTHING, slices=slices)))
    assert wants(driver, "one", "k1", "k2", "k3", memory=1) == ["k1", "k2"]
    assert wants(driver, "two", "k1", "k2", memory=1) == ["k1"]
    assert wants(driver, "three", "k1", memory=1) == []
    (check,) = checks(driver, "two", "k2")
    assert (check.slice_of, check.bound) == ("two", {"memory": 1})
    assert check.message().startswith("exceeds the slice of RM two in budget all by memory=1")
    use = report(driver).rms
    assert use[RmId("one")].wanted == {"memory": 1}
    assert use[RmId("three")].wanted == {"memory": 1}
    moved = SetBudgetSlices(budget="all", slices={RmId("one"): {"memory": 1}, RmId("two"): {"memory": 2}})
    assert keys(driver.do(moved)) == ["k2"]
    assert report(driver).rms[RmId("one")].overdraft == {"memory": 1}
    assert report(driver).rms[RmId("two")].overdraft == {}
    assert ends(driver, "one", "k1") == []


def test_wanted_amounts_exclude_the_remaining_budget() -> None:
    """An RM wants the amounts that its blocked asks need together, less the remaining budget."""
    driver = joined("one")
    driver.do(budgets(budget(memory=5)))
    wants(driver, "one", "k1", "k2", memory=2)
    wants(driver, "one", "k3", "k4", memory=3)
    assert report(driver).rms[RmId("one")].wanted == {"memory": 5}


def test_the_cost_of_a_report_does_not_grow_with_the_number_of_blocked_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only so many blocked items are examined for an RM, whatever their size."""
    monkeypatch.setattr(reports, "MOST_ITEMS", 10)
    driver, counted = joined("one"), []
    driver.do(budgets(budget(memory=5)))
    for more in (10, 40):
        for size in range(more, more + 30):
            wants(driver, "one", f"k{size}", memory=size)
        counted.append(calls(lambda: report(driver)))
    assert counted[0] == counted[1]


def test_a_replay_above_the_budget_is_an_overdraft() -> None:
    """Replayed allocations above the budget are charged and never refused; nothing new starts."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=1)))
    there = [ask("app", f"k{number}", on_node="n", memory=1) for number in range(3)]
    assert len(placed(driver.do(asks(*there, rm="one")))) == 3
    assert report(driver).overdraft == {"memory": 2}
    assert wants(driver, "two", "k1", memory=1) == []
    assert ends(driver, "one", "k0", "k1", "k2") == ["k1"]


@pytest.mark.parametrize("leaves", [True, False])
def test_usage_is_removed_with_its_rm(leaves: bool) -> None:
    """When an RM leaves or registers again, its usage is removed at once, and asks of other RMs wake."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=2)))
    wants(driver, "one", "k1", "k2", memory=1)
    assert wants(driver, "two", "k1", memory=1) == []
    gone = RemoveRm(rm_id=RmId("one")) if leaves else register(QUEUES, rm="one")
    assert keys(driver.do(gone)) == ["k1"]
    assert list(report(driver).rms) == ["two"]
    driver.do(register(QUEUES, rm="one"), nodes(node("n", memory=9), rm="one"))
    driver.do(apps(app("app", "root.a"), rm="one"))
    assert wants(driver, "one", "k1", "k2", memory=1) == ["k1"]


def test_a_removed_partition_frees_its_budget() -> None:
    """A partition that is missing in an RM's new configuration loses its usage of the budget."""
    driver = Driver()
    both = QUEUES + config("[{name: a}]", name="second").removeprefix("partitions:\n")
    driver.do(register(both, rm="one"), budgets(budget(memory=1)))
    for name in ("default", "second"):
        driver.do(nodes(node(f"n-{name}", partition=name, memory=9), rm="one"))
        driver.do(apps(app("app", "root.a", partition=name), rm="one"))
    driver.do(asks(ask("app", "k1", partition="second", memory=1), rm="one"))
    assert keys(driver.do(asks(ask("app", "k2", memory=1), rm="one"))) == []
    assert keys(driver.do(reload(QUEUES, rm="one"))) == ["k2"]


def test_asks_of_a_new_registration_are_woken() -> None:
    """Freed amounts wake asks of an RM whose previous partition is still being dismantled."""
    driver = joined("one", "two", sweep=50)
    driver.do(budgets(budget(memory=1)))
    assert wants(driver, "two", "k1", memory=1) == ["k1"]
    assert wants(driver, "one", *(f"k{number}" for number in range(2_000)), memory=1) == []
    for command in (
        register(QUEUES, rm="one"),
        nodes(node("n", memory=100), rm="one"),
        apps(app("app", "root.a"), rm="one"),
        asks(ask("app", "again", size={"memory": 1}), rm="one"),
    ):
        driver.send(command)
    driver.run()
    assert ends(driver, "two", "k1") == ["again"]


def test_a_removed_application_frees_its_budget() -> None:
    """The removal of an application wakes asks of another RM that wait for the budget."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=2)))
    wants(driver, "one", "k1", "k2", memory=1)
    wants(driver, "two", "k1", "k2", memory=1)
    assert keys(driver.do(remove_apps("app", rm="one"))) == ["k1", "k2"]


def test_many_partitions_are_woken_over_several_ticks() -> None:
    """One command wakes some of many waiting RMs, and the next ticks wake all others."""
    rms = [f"rm{number}" for number in range(70)]
    driver = joined("one", *rms, sweep=50)
    driver.do(budgets(budget(memory=70)))
    driver.do(asks(ask("app", "all", memory=70), rm="one"))
    for rm in rms:
        assert wants(driver, rm, "k", memory=1) == []
    driver.send(releases(release("app", "all"), rm="one"))
    assert driver.scheduler.next_deadline() == 0.0
    assert len(placed(driver.run())) == 70


def test_members_of_a_budget_are_counted_over_several_ticks() -> None:
    """A change of budgets takes several ticks; limits apply at once to the members counted so far."""
    driver = joined("one", tuning=Tuning(slice_size=1))
    driver.do(apps(*(app(f"app-{n}", "root.b.c") for n in range(20)), rm="one"))
    for number in range(20):
        driver.do(asks(ask(f"app-{number}", f"k{number}", memory=1), rm="one"))
    driver.send(budgets(budget(memory=20)))
    assert report(driver).counting
    assert report(driver).used.get("memory", 0) < 20
    driver.send(Tick())
    assert driver.scheduler.next_deadline() == 0.0
    driver.run()
    assert not report(driver).counting
    assert report(driver).used == {"memory": 20}
    assert wants(driver, "one", "more", memory=1) == []


def test_former_members_count_until_all_new_ones_are_counted() -> None:
    """During a change a budget counts its former and its new members, and never fewer than either."""
    driver = joined("one", tuning=Tuning(slice_size=1))
    driver.do(apps(app("below", "root.b.c"), rm="one"))
    driver.do(budgets(budget(members=(BudgetPattern(queue="root.a"),), memory=4)))
    wants(driver, "one", "k1", "k2", memory=1)
    wants(driver, "one", "b1", app_id="below", memory=1)
    driver.send(budgets(budget(members=(BudgetPattern(queue="root.b"),), memory=4)))
    seen = [report(driver).used["memory"]]
    while report(driver).counting:
        driver.send(Tick())
        seen.append(report(driver).used["memory"])
    assert (seen[0], max(seen), seen[-1]) == (2, 3, 1)
    assert seen.index(3) < seen.index(1)


def test_placeholders_use_the_budget_of_their_gang() -> None:
    """Placeholders use the budget of the gang, and replacements of the same size need no more."""
    driver = joined("one", "two")
    driver.do(budgets(budget(memory=2)))
    driver.do(apps(app("gang", "root.a", gang={"memory": 2}, timeout=60), rm="one"))
    holders = [ask("gang", f"p{n}", group="g", placeholder=True, memory=1) for n in (1, 2)]
    assert keys(driver.do(asks(*holders, rm="one"))) == ["p1", "p2"]
    assert wants(driver, "two", "k1", memory=1) == []
    told = driver.do(asks(ask("gang", "r1", group="g", memory=1), rm="one"))
    ((_, gone, why, _),) = released(told)
    assert (gone, why) == ("p1", "PLACEHOLDER_REPLACED")
    replaced = TerminationType.PLACEHOLDER_REPLACED
    assert keys(driver.do(releases(release("gang", "p1", why=replaced), rm="one"))) == ["r1"]
    assert report(driver).used == {"memory": 2}
    assert ends(driver, "one", "r1", app_id="gang") == ["k1"]


GUARANTEED = config(
    "[{name: a, resources: {guaranteed: {memory: 5}}, properties: {preemption.delay: 1s}}, {name: b}]"
)


def test_an_ask_blocked_by_a_budget_does_not_preempt() -> None:
    """An ask does not preempt if a budget blocks it now, or would block it afterwards."""
    driver = Driver()
    driver.do(register(GUARANTEED), nodes(node("n", memory=10)))
    driver.do(apps(app("app", "root.a"), app("greedy", "root.b")))
    driver.do(asks(*(ask("greedy", f"g{n}", policy="s", memory=1) for n in range(10))))
    driver.do(budgets(budget(members=(BudgetPattern(queue="root.a"),), memory=0)))
    driver.do(asks(ask("app", "k", policy="o", memory=1)))
    assert released(driver.wait(60)) == []
    assert reserved(driver) == {}
    ((_, _, why, _),) = released(
        driver.do(budgets(budget(members=(BudgetPattern(queue="root.a"),), memory=1)))
    )
    assert why == "PREEMPTED_BY_SCHEDULER"


@pytest.mark.parametrize("leaves", [True, False])
def test_freed_amounts_of_victims_are_reserved_in_their_budget(leaves: bool) -> None:
    """The budget that victims free is kept for the preempting ask, until the RM of that ask leaves."""
    driver = Driver()
    driver.do(register(GUARANTEED), nodes(node("n", memory=2)), budgets(budget(memory=3)))
    driver.do(register(GUARANTEED, rm="two"), nodes(node("n", memory=9), rm="two"))
    driver.do(apps(app("app", "root.a"), app("greedy", "root.b")), apps(app("app", "root.a"), rm="two"))
    driver.do(asks(*(ask("greedy", f"g{n}", policy="s", memory=1) for n in range(2))))
    driver.do(asks(ask("app", "k", policy="o", memory=1)))
    ((_, victim, _, _),) = released(driver.wait(60))
    assert wants(driver, "two", "k1", "k2", memory=1) == ["k1"]
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    gone = RemoveRm(rm_id=RmId("rm1")) if leaves else releases(release("greedy", victim, why=why))
    assert keys(driver.do(gone)) == (["k2"] if leaves else ["k"])
    assert report(driver).used == {"memory": 2 if leaves else 3}


def test_an_ask_that_a_budget_blocks_reserves_no_node() -> None:
    """An ask that a budget blocks has no node reserved, even if nodes block it as well."""
    driver = joined("rm1")
    driver.do(nodes(node("m", memory=100)), budgets(budget(memory=150)))
    driver.do(asks(*(ask("app", f"big{n}", required_node=n, memory=70) for n in ("n", "m"))))
    driver.do(asks(ask("app", "k", memory=60)))
    driver.wait(10)
    assert reserved(driver) == {}
    driver.do(budgets(budget(memory=200)))
    driver.wait(10)
    assert list(reserved(driver)) == ["k"]


def test_new_applications_belong_to_the_budgets_of_their_queue() -> None:
    """An application belongs to its queue's budgets at once, in dynamic queues as well."""
    driver = Driver()
    rules = "placementrules: [{name: provided, create: true}]"
    driver.do(register(config("[{name: p, parent: true}]", rest=rules)), nodes(node("n", memory=9)))
    driver.do(budgets(budget(members=(BudgetPattern(queue="root.p.*"),), memory=1)))
    driver.do(apps(app("app", "root.p.new")))
    assert keys(driver.do(asks(ask("app", "k1", memory=1), ask("app", "k2", memory=1)))) == ["k1"]


def test_amounts_freed_by_a_deadline_count_in_the_same_turn() -> None:
    """When a tick ends the assumption of an ask, an ask of another partition is placed in the same tick."""
    driver = joined("two")
    policy = PredicatePolicy(deadline=2.0)
    driver.do(register(QUEUES, rm="one", predicates=policy), nodes(node("n", memory=100), rm="one"))
    driver.do(apps(app("app", "root.a"), rm="one"), budgets(budget(memory=1)))
    driver.do(asks(ask("app", "asked", predicate="p", memory=1), rm="one"))
    driver.do(asks(ask("app", "k", memory=1), rm="two"))
    # The next turn belongs to another RM.
    driver.do(asks(ask("app", "other", memory=1000), rm="one"))
    driver.now += 2.0
    # Another ask makes a turn due.
    driver.send(asks(ask("app", "huge", memory=1000), rm="two"))
    assert keys(driver.send(Tick())) == ["k"]
