"""Repeated searches for victims, and reports of the latest search (spec § 9.2)."""

import pytest

from licorne_core.messages.commands import NodeAction, PredicatePolicy, TerminationType
from licorne_core.messages.effects import Effect, PreemptionsAsked
from licorne_core.messages.reasons import PreemptionCheck
from licorne_core.standard.preemption import search
from licorne_core.standard.preemption.search import PreemptionSearch
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver, placed, released
from support.core.steps import listed
from support.preemption.asking import NOW, A, B, cluster, queue, refusal, runs, waits
from support.preemption.records import Hold
from support.worlds.obeying import let_happen

DEFAULT = PartitionName("[rm1]default")
POOR = "{name: poor, resources: {guaranteed: {memory: 9000}}}"
ALONE = "preemption.delay: 5s, reservation.exclusive: 'true'"
"""With these properties a node has victims for only one ask."""


def full(
    number: int = 4,
    nodes_of: int = 1,
    *,
    properties: str = "",
    priority: int = 0,
    policy: PredicatePolicy | None = None,
    root: str = "preemption.delay: 5s",
) -> Driver:
    """Nodes, each filled by this number of allocations of `rich`; asks of `poor` preempt after 5 s."""
    driver = Driver()
    text = config(f"[{{name: rich, properties: {{{properties}}}}}, {POOR}]")
    text = text.replace("submitacl: '*'", f"submitacl: '*', properties: {{{root}}}")
    driver.do(register(text, predicates=policy))
    driver.do(nodes(*[node(f"n{n}", memory=number) for n in range(nodes_of)]))
    driver.do(apps(app("rich", "root.rich")))
    names = [f"r{n:03}" for n in range(number * nodes_of)]
    driver.do(asks(*[ask("rich", name, policy="s", priority=priority, memory=1) for name in names]))
    return driver


def crowded(properties: str = "") -> Driver:
    """Four allocations of `rich` with priority 5 fill the cluster, and `poor` has one application."""
    driver = full(properties=properties, priority=5)
    driver.do(apps(app("poor", "root.poor")))
    return driver


def noted(driver: Driver, key: str) -> int:
    """The number of failed searches for victims in the log of an ask."""
    shown = listed(driver.views.asks(DEFAULT, "poor"))
    (log,) = [item.allocation_log for item in shown if item.ask.key == key]
    return sum(entry.count for entry in log if "Preemption" in entry.message)


def explained(driver: Driver, key: str) -> PreemptionCheck:
    """The check of preemption in the explanation of an ask."""
    checks = driver.explain("poor", key).checks
    (check,) = [check for check in checks if isinstance(check, PreemptionCheck)]
    return check


def test_a_failed_search_is_not_repeated_before_a_change() -> None:
    """A failed search is repeated after a change such as a new allocation, not only because time passes."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", memory=1)))
    driver.wait(200)
    assert noted(driver, "p") == 1
    driver.send(nodes(node("n9", memory=1)))
    driver.do(asks(ask("rich", "r4", policy="s", priority=5, on_node="n9", memory=1)))
    driver.wait(20)
    assert noted(driver, "p") == 2


@pytest.mark.parametrize("later", [0.2, 5.0, 19.0], ids=["before", "during", "after"])
def test_a_failed_search_delays_no_ask_of_higher_priority(later: float) -> None:
    """An ask of higher priority has victims after the delay of preemption, whatever failed for equal asks."""
    driver = crowded()
    driver.do(asks(ask("poor", "low", policy="o", priority=4, memory=1)))
    driver.wait(later)
    driver.do(asks(ask("poor", "high", policy="o", priority=5, memory=1)))
    assert released(driver.wait(4.9)) == []
    assert [key for _, key, *_ in released(driver.wait(0.1))] == ["r000"]
    assert driver.explain("poor", "high").summary.endswith("waits for the end of rich/r000")
    assert explained(driver, "low").code == "PREEMPTION_NO_VICTIMS"


def test_explain_reports_a_failed_search_to_asks_of_no_higher_priority() -> None:
    """The result of a failed search is reported to equal asks, except to those of a higher priority."""
    driver = crowded()
    driver.do(asks(ask("poor", "low", policy="o", priority=3, created=START - 60, memory=1)))
    later = [("high", 4, START - 30), ("same", 3, START - 30), ("older", 3, START - 90)]
    driver.send(
        asks(*[ask("poor", key, policy="o", priority=p, created=at, memory=1) for key, p, at in later])
    )
    assert explained(driver, "high").code == "PREEMPTION_NOT_YET_TRIED"
    assert explained(driver, "high").until == 0.0
    refused = explained(driver, "low").text
    assert explained(driver, "same").text == "for low, which comes before it: " + refused
    assert explained(driver, "older").text == "for low, of the same priority: " + refused


@pytest.mark.pure
def test_each_higher_priority_has_one_search_in_vain(searches: list[str]) -> None:
    """An ask above the priorities of all earlier failed searches has a search; others wait with the last."""
    driver = full(4, priority=9)
    driver.do(apps(app("poor", "root.poor")))
    for number, priority in enumerate([4, 4, 3, 5, 4, 5, 9]):
        driver.do(asks(ask("poor", f"p{number}", policy="o", priority=priority, memory=1)))
        driver.wait(0.5)
    assert len(released(driver.wait(5))) == 1
    assert searches == ["p0", "p3", "p6"]


def test_an_ask_of_higher_priority_does_not_wait_for_reserved_nodes() -> None:
    """If equal asks wait for reserved nodes, one of higher priority has victims that they must spare."""
    driver = full(2, priority=4, root=ALONE)
    driver.do(apps(app("poor", "root.poor")))
    driver.do(asks(*[ask("poor", f"p{number}", policy="o", priority=4, memory=1) for number in range(2)]))
    driver.do(nodes(node("n9", NodeAction.CREATE_DRAIN, memory=1)))
    driver.do(asks(ask("rich", "late", policy="s", priority=5, on_node="n9", memory=1)))
    driver.do(nodes(node("n9", NodeAction.DRAIN_TO_SCHEDULABLE)))
    driver.wait(1)
    driver.do(asks(ask("poor", "high", policy="o", priority=5, memory=1)))
    assert len(released(driver.wait(4))) == 1
    assert explained(driver, "p1").code == "PREEMPTION_NODES_KEPT"
    assert [key for _, key, *_ in released(driver.wait(1))] == ["late"]


def test_no_ask_preempts_before_its_delay_when_a_wait_replaces_a_pause() -> None:
    """An ask that a pause held is not too early if a wait for reserved nodes replaces the pause, and ends."""
    driver = full(2, priority=5, root=ALONE)
    driver.do(apps(app("poor", "root.poor")))
    for key, priority in (("first", 5), ("low", 4), ("high", 5), ("late", 4)):
        driver.do(asks(ask("poor", key, policy="o", priority=priority, memory=1)))
        driver.wait(1)
    assert [key for _, key, *_ in released(driver.wait(3))] == ["r000"]
    assert explained(driver, "high").code == "PREEMPTION_NODES_KEPT"
    driver.do(nodes(node("x", NodeAction.CREATE_DRAIN, memory=1)))
    driver.do(asks(ask("rich", "x", policy="s", priority=4, on_node="x", memory=1)))
    driver.do(nodes(node("x", NodeAction.DRAIN_TO_SCHEDULABLE)))
    stopped = release("rich", "r000", why=TerminationType.PREEMPTED_BY_SCHEDULER)
    driver.do(releases(stopped, release("poor", "low"), release("poor", "high")))
    assert released(driver.wait(0.9)) == []
    assert [key for _, key, *_ in released(driver.wait(0.1))] == ["x"]


def test_a_search_is_repeated_when_allocations_become_old_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search is repeated when an allocation has run for the minimum runtime."""
    monkeypatch.setattr(search, "MOST_COUNTED", 0)
    driver = crowded("preemption.minimum.runtime: 100s")
    driver.do(asks(ask("poor", "p", policy="o", priority=5, memory=1)))
    assert released(driver.wait(99)) == []
    assert len(released(driver.wait(20))) == 1


def test_an_old_enough_reservation_yields() -> None:
    """A node reserved for an ask of lower priority may be used once the reservation is old enough."""
    other = waits(B, 1, hold=Hold(node="n1", time=NOW - 1), priority=-1)
    world = cluster([queue(A, {"vcore": 5}), queue(B)], runs(B, *range(12)), other, waits(A, 1))
    assert refusal(world, f"{A}-w1").until == NOW + 3


def test_explain_reports_the_last_search() -> None:
    """An explanation reports the latest search, and starts no search."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", memory=1), ask("poor", "q", policy="o", memory=1)))
    assert explained(driver, "p").code == "PREEMPTION_DELAYED"
    driver.wait(5)
    refused = explained(driver, "p")
    assert (refused.code, refused.passed) == ("PREEMPTION_NO_VICTIMS", False)
    spared = "in queue root it counts as priority 0, and who is spared there as 5 or more"
    assert refused.text == f"no allocation may be a victim; {spared}"
    assert explained(driver, "q").text == "for p, which comes before it: " + refused.text


def test_explain_reports_a_wait_for_the_first_search() -> None:
    """Before its first search an ask that may preempt is reported as waiting for its next turn."""
    driver = crowded()
    driver.send(asks(ask("poor", "p", policy="o", created=START - 60, memory=1)))
    assert explained(driver, "p").code == "PREEMPTION_NOT_YET_TRIED"


def test_explain_reports_a_wait_for_victims() -> None:
    """An ask with victims is explained as waiting for their end, and not for room."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", priority=5, memory=1)))
    assert [key for _, key, *_ in released(driver.wait(5))] == ["r000"]
    summary = driver.explain("poor", "p").summary
    assert summary == "node n0 is kept for it, and waits for the end of rich/r000"


# A search that fails only because of reserved nodes is repeated when a reservation ends.


def poor(driver: Driver, count: int, *, many_apps: bool, predicate: str | None = None) -> None:
    """Submit equal asks of `poor`, in one application or in an application for each."""
    names = [f"poor{number:03}" if many_apps else "poor" for number in range(count)]
    driver.do(apps(*[app(name, "root.poor") for name in dict.fromkeys(names)]))
    wanted = [
        ask(name, f"p{number:03}", policy="o", memory=1, predicate=predicate)
        for number, name in enumerate(names)
    ]
    driver.do(asks(*wanted))


def serve(driver: Driver, effects: list[Effect]) -> int:
    """Confirm stops until no more are requested; return the number of all placements."""
    count = 0
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    while told := released(effects):
        effects = driver.do(releases(*[release(app_id, key, why=why) for app_id, key, *_ in told]))
        count += len(placed(effects))
    return count


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of asks for which victims are searched for, in order."""
    made: list[str] = []
    find = PreemptionSearch.find

    def counting(self, app, request, *rest, **more):  # type: ignore[no-untyped-def]
        """Search, and record the ask."""
        made.append(request.key)
        return find(self, app, request, *rest, **more)

    monkeypatch.setattr(PreemptionSearch, "find", counting)
    return made


@pytest.mark.parametrize("many_apps", [False, True], ids=["one application", "one each"])
@pytest.mark.parametrize("nodes_of", [1, 3])
def test_concurrent_asks_do_not_delay_each_others_searches(nodes_of: int, many_apps: bool) -> None:
    """All asks are placed after the ends of their victims, without any lapse of time."""
    driver = full(4, nodes_of=nodes_of)
    poor(driver, 4 * nodes_of, many_apps=many_apps)
    assert serve(driver, driver.wait(5)) == 4 * nodes_of


@pytest.mark.pure
@pytest.mark.parametrize("many_apps", [False, True], ids=["one application", "one each"])
@pytest.mark.parametrize("count", [20, 200])
def test_searches_are_bounded_for_any_number_of_equal_asks(
    count: int, many_apps: bool, searches: list[str]
) -> None:
    """There are at most two searches for each placed ask, and one for each application that still waits."""
    driver = full(10, root=ALONE)
    poor(driver, count, many_apps=many_apps)
    assert serve(driver, driver.wait(5)) == 10
    in_the_end = count - 10 if many_apps else 1
    assert len(searches) <= 2 * 10 + in_the_end


@pytest.mark.pure
def test_a_search_without_other_victims_pauses(searches: list[str]) -> None:
    """If all victims are on nodes reserved for other asks, the search is repeated only after a pause."""
    driver = full(2, root=ALONE)
    poor(driver, 3, many_apps=False)
    assert serve(driver, driver.wait(5)) == 2
    assert searches == ["p000", "p001", "p001", "p002"]
    driver.wait(14)
    assert len(searches) == 4


def test_victims_are_searched_again_after_the_interval() -> None:
    """After the pause, a victim on a new node is found, although the first node is still reserved."""
    driver = full(1)
    poor(driver, 2, many_apps=True)
    assert len(released(driver.wait(5))) == 1
    driver.do(nodes(node("x", NodeAction.CREATE_DRAIN, memory=1)))
    driver.do(asks(ask("rich", "x", policy="s", on_node="x", memory=1)))
    driver.do(nodes(node("x", NodeAction.DRAIN_TO_SCHEDULABLE)))
    assert released(driver.wait(14)) == []
    assert [key for _, key, *_ in released(driver.wait(1))] == ["x"]


def test_an_ask_with_a_reserved_node_does_not_wait_for_reserved_nodes() -> None:
    """An ask with a reserved node of its own does not wait for nodes reserved for equal asks."""
    driver = full(2, nodes_of=2)
    driver.do(nodes(node("small", memory=1)))
    driver.do(asks(ask("rich", "s", policy="s", on_node="small", memory=1)))
    driver.do(releases(release("rich", "s")))
    driver.do(apps(app("poor0", "root.poor"), app("poor1", "root.poor"), app("poor2", "root.poor")))
    driver.do(asks(*[ask(f"poor{n}", "p", policy="o", memory=2) for n in range(3)]))
    effects = driver.wait(5)
    assert len(released(effects)) == 4


def test_explain_names_reserved_nodes_to_all_waiting_asks() -> None:
    """All equal asks are explained with the result of the search, not only the ask that was searched for."""
    driver = full(4, root=ALONE)
    poor(driver, 3, many_apps=True)
    driver.wait(5)
    for number in (1, 2):
        shown = driver.explain(f"poor{number:03}", f"p{number:03}")
        assert shown.checks[-1].code == "PREEMPTION_NODES_KEPT"
        assert "for p" not in shown.checks[-1].message()


def test_an_ask_that_loses_its_node_searches_again_at_once() -> None:
    """If the RM accepts one node for several asks, the asks that cannot use the node search again at once."""
    driver = full(policy=PredicatePolicy(deadline=100, judges_victims=True))
    poor(driver, 4, many_apps=True, predicate="x")
    effects = let_happen(driver, seconds=5)
    asked = [effect for effect in effects if isinstance(effect, PreemptionsAsked)]
    assert len(asked[0].checks) == 4
    assert len(placed(effects)) == 4


def test_the_pause_of_a_search_ends_with_its_asks() -> None:
    """After the asks that wait for a search are removed, no deadline for a search remains."""
    driver = full(2)
    poor(driver, 2, many_apps=False)
    driver.do(asks(ask("poor", "meek", memory=1)))
    driver.wait(5)
    driver.do(releases(release("poor", "p001")))
    driver.wait(60)
    deadline = driver.scheduler.next_deadline()
    assert deadline is None or deadline > driver.now
