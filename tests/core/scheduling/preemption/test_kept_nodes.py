"""A search that fails only because nodes are kept is made again when one is given up (§ 9.2)."""

import pytest

from licorne_core.messages.commands import PredicatePolicy, TerminationType
from licorne_core.messages.effects import Effect, PreemptionsAsked
from licorne_core.scheduling.preemption import PreemptionSearch
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import Driver, placed, released
from support.core.obedient import let_happen
from support.core.steps import last

pytestmark = pytest.mark.pure

DEFAULT = PartitionName("[rm1]default")
POOR = "{name: poor, resources: {guaranteed: {memory: 9000}}}"


def crowded(victims: int, policy: PredicatePolicy | None = None, nodes_of: int = 1) -> Driver:
    """Nodes full of rich allocations; asks of poor preempt others after 5 s."""
    driver = Driver()
    text = config(f"[{{name: rich}}, {POOR}]")
    text = text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")
    driver.do(register(text, predicates=policy))
    driver.do(nodes(*[node(f"n{number}", memory=victims) for number in range(nodes_of)]))
    driver.do(apps(app("rich", "root.rich")))
    taken = [ask("rich", f"r{n:03}", policy="s", memory=1) for n in range(victims * nodes_of)]
    driver.do(asks(*taken))
    return driver


def poor(driver: Driver, count: int, *, many_apps: bool, predicate: str | None = None) -> None:
    """So many alike asks, of one application or of one each."""
    names = [f"poor{number:03}" if many_apps else "poor" for number in range(count)]
    driver.do(apps(*[app(name, "root.poor") for name in dict.fromkeys(names)]))
    wanted = [
        ask(name, f"p{number:03}", policy="o", memory=1, predicate=predicate)
        for number, name in enumerate(names)
    ]
    driver.do(asks(*wanted))


def confirm(driver: Driver, effects: list[Effect]) -> list[Effect]:
    """Everything that the RM was told to stop has stopped, at once."""
    why = TerminationType.PREEMPTED_BY_SCHEDULER
    gone = [release(app_id, key, why=why) for app_id, key, *_ in released(effects)]
    return driver.do(releases(*gone))


def serve(driver: Driver, effects: list[Effect]) -> int:
    """Confirm until nothing is to be stopped any more; how many are placed in all."""
    count = 0
    while released(effects):
        effects = confirm(driver, effects)
        count += len(placed(effects))
    return count


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The asks for which victims are searched for."""
    made: list[str] = []
    find = PreemptionSearch.find

    def counting(self, app, request, *rest, **more):  # type: ignore[no-untyped-def]
        """Search, and note for whom."""
        made.append(request.key)
        return find(self, app, request, *rest, **more)

    monkeypatch.setattr(PreemptionSearch, "find", counting)
    return made


@pytest.mark.parametrize("many_apps", [False, True], ids=["one application", "one each"])
@pytest.mark.parametrize("nodes_of", [1, 3])
def test_asks_that_come_together_do_not_wait_for_each_others_pause(nodes_of: int, many_apps: bool) -> None:
    """All are placed in the time that the victims take, and no clock moves."""
    driver = crowded(4, nodes_of=nodes_of)
    poor(driver, 4 * nodes_of, many_apps=many_apps)
    assert serve(driver, driver.wait(5)) == 4 * nodes_of


@pytest.mark.pure
@pytest.mark.parametrize("many_apps", [False, True], ids=["one application", "one each"])
@pytest.mark.parametrize("count", [20, 200])
def test_a_place_costs_so_many_searches_however_many_wait(
    count: int, many_apps: bool, searches: list[str]
) -> None:
    """One for whoever has the node next; those who are alike make none of their own."""
    driver = crowded(10)
    poor(driver, count, many_apps=many_apps)
    assert serve(driver, driver.wait(5)) == 10
    in_the_end = count - 10 if many_apps else 1
    assert len(searches) <= 2 * 10 + in_the_end


def test_a_search_that_fails_for_another_reason_pauses(searches: list[str]) -> None:
    """The node is kept for the second of three, and nobody else is there who may go."""
    driver = crowded(2)
    poor(driver, 3, many_apps=False)
    assert serve(driver, driver.wait(5)) == 2
    assert searches == ["p000", "p001", "p001", "p002"]
    driver.wait(14)
    assert len(searches) == 4


def test_after_the_interval_victims_are_searched_for_in_any_case() -> None:
    """The node stays kept, and there is another one by then."""
    driver = crowded(1)
    poor(driver, 2, many_apps=True)
    assert len(released(driver.wait(5))) == 1
    driver.do(nodes(node("x", memory=1)))
    driver.do(asks(ask("rich", "x", policy="s", on_node="x", memory=1)))
    assert released(driver.wait(14)) == []
    assert [key for _, key, *_ in released(driver.wait(1))] == ["x"]


def test_who_has_a_node_reserved_is_like_nobody_else() -> None:
    """Its own node is no reason to wait, though those before it wait for that."""
    driver = crowded(2, nodes_of=2)
    driver.do(nodes(node("small", memory=1)))
    driver.do(asks(ask("rich", "s", policy="s", on_node="small", memory=1)))
    driver.do(releases(release("rich", "s")))
    driver.do(apps(app("poor0", "root.poor"), app("poor1", "root.poor"), app("poor2", "root.poor")))
    driver.do(asks(*[ask(f"poor{n}", "p", policy="o", memory=2) for n in range(3)]))
    effects = driver.wait(5)
    assert len(released(effects)) == 4


def test_explain_says_that_nodes_are_kept() -> None:
    """Of all that wait, not only of the one for which the search was made."""
    driver = crowded(4)
    poor(driver, 3, many_apps=True)
    driver.wait(5)
    for number in (1, 2):
        shown = last(driver.views.explain(DEFAULT, f"poor{number:03}", f"p{number:03}"))
        assert shown.checks[-1].code == "PREEMPTION_NODES_KEPT"
        assert "for p" not in shown.checks[-1].message()


def test_who_was_slower_than_others_at_the_rm_looks_again_at_once() -> None:
    """All are asked about at once, and the RM agrees to one node for all of them."""
    driver = crowded(4, PredicatePolicy(deadline=100, judges_victims=True))
    poor(driver, 4, many_apps=True, predicate="x")
    effects = let_happen(driver, seconds=5)
    asked = [effect for effect in effects if isinstance(effect, PreemptionsAsked)]
    assert len(asked[0].checks) == 4
    assert len(placed(effects)) == 4


def test_the_interval_ends_for_asks_that_are_gone_as_well() -> None:
    """Those that waited are gone, and one that may preempt nobody is left: the core is at rest."""
    driver = crowded(2)
    poor(driver, 2, many_apps=False)
    driver.do(asks(ask("poor", "meek", memory=1)))
    driver.wait(5)
    driver.do(releases(release("poor", "p001")))
    driver.wait(60)
    deadline = driver.scheduler.next_deadline()
    assert deadline is None or deadline > driver.now
