"""Reports of asks that are within quota and fit on no node, for an autoscaler (spec § 8.12)."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import pytest

from licorne_core.extensions.autoscaler import scan as outstanding
from licorne_core.extensions.autoscaler.messages import ContainerStatesChanged
from licorne_core.extensions.autoscaler.scan import REASON
from licorne_core.messages.commands import NodeAction, PredicatePolicy, Tick
from licorne_core.messages.effects import Effect
from licorne_core.model.apps.groups import SLACK, AskGroup
from licorne_core.model.apps.requests import Request, RequestEvent
from licorne_core.standard.predicates import owed
from licorne_core.values.asks import AskClass
from support.core.builders import (
    app,
    apps,
    ask,
    asks,
    config,
    node,
    nodes,
    refusing,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, asked, placed
from support.core.steps import last, lines_of_core


def told(effects: Iterable[Effect]) -> list[str]:
    """The reported asks as `application/key`, all with the same reason."""
    states = [s for e in effects if isinstance(e, ContainerStatesChanged) for s in e.states]
    assert {state.reason for state in states} <= {REASON}
    return [f"{state.app_id}/{state.key}" for state in states]


def cluster(queues: str = "[{name: a}]", rest: str = "") -> Driver:
    """One node of 10, and an application in root.a."""
    core = Driver()
    core.do(register(config(queues, rest=rest)), nodes(node("n1", vcore=10)))
    core.do(apps(app("one", "root.a")))
    return core


@pytest.mark.row(129)
def test_each_waiting_ask_is_reported_once_after_a_second() -> None:
    """Each ask beyond the size of the cluster is reported once, a second after its arrival."""
    core = cluster()
    wanted = [ask("one", f"k{number}", vcore=4) for number in range(4)]
    assert told(core.do(asks(*wanted))) == []
    assert told(core.wait(0.9)) == []
    assert told(core.wait(0.2)) == ["one/k2", "one/k3"]
    assert told(core.do(asks(ask("one", "later", vcore=4)))) == []
    assert told(core.wait(2)) == ["one/later"]
    core.do(releases(release("one", "k2")))
    assert told(core.wait(60)) == []


def test_a_resized_ask_is_not_reported_again() -> None:
    """An ask that was reported and is then resized is not reported again (spec § 5.3.5)."""
    core = cluster()
    assert told(core.do(asks(ask("one", "k", vcore=11)))) == []
    assert told(core.wait(2)) == ["one/k"]
    core.do(asks(ask("one", "k", vcore=12), ask("one", "other", vcore=12)))
    assert told(core.wait(2)) == ["one/other"]


def test_an_ask_beyond_its_queues_maximum_is_not_reported() -> None:
    """An ask beyond its queue's maximum is reported only once the maximum is raised."""
    core = cluster("[{name: a, resources: {max: {vcore: 15m}}}]")
    core.do(asks(*(ask("one", f"k{number}", vcore=5) for number in range(5))))
    assert told(core.wait(2)) == ["one/k2"]
    core.do(reload(config("[{name: a, resources: {max: {vcore: 25m}}}]")))
    assert told(core.wait(2)) == ["one/k3", "one/k4"]


def test_an_ask_beyond_its_users_limit_is_not_reported() -> None:
    """An ask beyond a limit of its user is not reported."""
    limits = "limits: [{limit: all, users: ['*'], maxresources: {vcore: 12m}}]"
    core = cluster(rest=limits)
    core.do(asks(*(ask("one", f"k{number}", vcore=6) for number in range(3))))
    assert told(core.wait(2)) == ["one/k1"]


def test_asks_that_require_a_node_are_not_reported() -> None:
    """An ask that requires a node is not reported."""
    core = cluster()
    core.do(asks(ask("one", "k", vcore=20, required_node="n1"), ask("one", "j", vcore=20)))
    assert told(core.wait(5)) == ["one/j"]


def test_a_new_ask_under_a_reused_key_is_reported() -> None:
    """A new ask under the key of a released one is reported."""
    core = cluster()
    core.do(asks(ask("one", "k", vcore=20)))
    assert told(core.wait(2)) == ["one/k"]
    core.do(releases(release("one", "k")))
    core.do(asks(ask("one", "k", vcore=20)))
    assert told(core.wait(2)) == ["one/k"]


def test_an_untried_ask_is_not_reported() -> None:
    """An ask that was not tried yet is not reported."""
    core = cluster()
    core.do(asks(ask("one", "k1", vcore=1), ask("one", "large", vcore=20)))
    core.send(asks(ask("one", "k2", vcore=1)))
    core.now += 2
    assert told(core.run()) == ["one/large"]


def test_asks_in_new_queues_are_reported_after_a_reload() -> None:
    """A report after a reload includes asks in the new queues."""
    core = cluster("[{name: a, resources: {max: {vcore: 50m}}}]")
    core.do(asks(ask("one", "large", vcore=20)))
    core.send(reload(config("[{name: a, resources: {max: {vcore: 40m}}}]")))
    core.now += 1
    assert told(core.send(Tick())) == ["one/large"]


def asking() -> Driver:
    """The same cluster, with an RM that judges nodes and has not answered yet."""
    core = Driver(reservations=False)
    core.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=0.5)))
    core.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    return core


def test_an_ask_that_was_assumed_after_its_report_is_not_reported_again() -> None:
    """An ask that is refused again after its report has no second report."""
    core = asking()
    (check,) = asked(core.do(asks(ask("one", "k", vcore=1, predicate="p"))))
    core.do(refusing(check))
    assert told(core.wait(20)) == ["one/k"]
    (check,) = asked(core.do(nodes(node("n1", NodeAction.UPDATE, vcore=11))))
    core.do(refusing(check))
    assert told(core.wait(20)) == []


@pytest.mark.row(129)
def test_an_ask_with_an_unanswered_check_is_not_reported() -> None:
    """An ask whose check is open or was not answered is not reported."""
    core = asking()
    core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate=f"p{n}") for n in range(15))))
    # Ten asks are assumed, and five have no room beside them.
    effects = core.wait(0.4)
    assert told([*effects, *core.wait(60)]) == []


@pytest.mark.row(129)
def test_an_ask_blocked_by_open_checks_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """An ask that is not tried because of too many open checks is not reported."""
    monkeypatch.setattr(owed, "MAX_ASSUMED", 2)
    core = Driver(reservations=False)
    core.do(register(config("[{name: a}]"), predicates=PredicatePolicy(deadline=30)))
    core.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    core.do(asks(*(ask("one", f"k{n}", vcore=1, predicate=f"p{n}") for n in range(9))))
    assert told(core.wait(20)) == []


def test_asks_of_applications_that_may_not_start_are_not_reported() -> None:
    """An ask of an application that waits for the start of another one is not reported."""
    core = cluster("[{name: a, properties: {application.sort.policy: stateaware}}]")
    core.do(apps(app("two", "root.a")))
    core.do(asks(ask("two", "k", vcore=20, created=core.now - 10)))
    core.send(asks(ask("one", "k", vcore=20, created=core.now - 20)))
    assert told(core.wait(3)) == ["one/k"]


def test_many_asks_are_reported_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn reports some of the asks, and all turns together report each ask once."""
    monkeypatch.setattr(outstanding, "PART", 3)
    core = cluster()
    core.do(asks(*(ask("one", f"k{number}", vcore=20 + number % 4) for number in range(20))))
    core.now += 1
    turns = []
    while (deadline := core.scheduler.next_deadline()) is not None and deadline <= core.now:
        turns.append(told(core.send(Tick())))
    assert max(map(len, turns)) <= 3
    assert sorted(key for turn in turns for key in turn) == sorted(f"one/k{n}" for n in range(20))


def _tick(core: Driver, effects: list[Effect]) -> None:
    effects += core.scheduler.handle(Tick(), core.now)


@pytest.mark.pure
def test_the_cost_of_a_report_is_linear_in_the_asks_of_a_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four times the asks of a class execute four times the lines in total, and no more in one turn."""
    monkeypatch.setattr(outstanding, "PART", 20)
    totals, largest = [], []
    for count in (200, 800):
        core = cluster()
        core.do(asks(*(ask("one", f"k{number}", vcore=20) for number in range(count))))
        core.now += 1
        turns: list[int] = []
        said: list[str] = []
        while (deadline := core.scheduler.next_deadline()) is not None and deadline <= core.now:
            turn: list[Effect] = []
            turns.append(lines_of_core(partial(_tick, core, turn)))
            said += told(turn)
        assert said == [f"one/k{number}" for number in range(count)]
        totals.append(sum(turns))
        largest.append(max(turns))
    assert totals[1] <= 4.2 * totals[0]
    assert largest[1] <= 1.1 * largest[0]


def test_applications_without_asks_count_as_work_of_a_report(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many applications without asks make a report take several turns."""
    monkeypatch.setattr(outstanding, "PART", 10)
    core = cluster()
    core.do(apps(*(app(f"idle-{number}", "root.a") for number in range(30))))
    core.do(asks(ask("one", "k", vcore=20)))
    core.now += 1
    turns = []
    while (deadline := core.scheduler.next_deadline()) is not None and deadline <= core.now:
        turns.append(told(core.send(Tick())))
    assert [turn for turn in turns if turn] == [["one/k"]]
    # Each application is examined twice: for the limits of its user, and for its asks.
    assert len(turns) >= 2 * 31 // 10


def test_entries_for_reports_are_bounded_by_pending_asks() -> None:
    """The entries that a group keeps for its reports are at most as many as its pending asks."""
    group = AskGroup(None, (AskClass.of({"vcore": 1}), "", False))
    requests = [Request(ask("one", f"k{number}", vcore=1), 0.0, number) for number in range(300)]
    group.push(requests[0].place)
    assert group.unreported() == [requests[0].place]
    for request in requests[1:]:
        group.push(request.place)
        request.follow(RequestEvent.RELEASE)
        group.drop(request)
        assert len(group.unreported()) <= SLACK + 2 * (group.waiting + 1)
    assert requests[0].place in group.unreported()


def test_an_rm_without_the_callback_gets_no_reports() -> None:
    """An RM without the callback has no reports, but views show the state (row 129)."""
    core = Driver()
    core.do(replace(register(config("[{name: a}]")), container_states=False))
    core.do(nodes(node("n1", vcore=10)), apps(app("one", "root.a")))
    core.do(asks(ask("one", "k", vcore=20)))
    assert told(core.wait(5)) == []
    waiting = last(core.views.asks(core.views.resolve("default"), "one"))
    assert waiting.triggered_scale_up


def test_asks_of_queues_that_share_a_maximum_are_counted_together() -> None:
    """Asks of queues below one maximum share its headroom in a report."""
    queues = "[{name: p, resources: {max: {vcore: 30m}}, queues: [{name: a}, {name: b}]}]"
    core = Driver()
    core.do(register(config(queues)), nodes(node("n1", vcore=10)))
    core.do(apps(app("one", "root.p.a"), app("two", "root.p.b")))
    made = core.do(
        asks(*(ask("one", f"k{number}", vcore=10) for number in range(2))),
        asks(*(ask("two", f"j{number}", vcore=10) for number in range(2))),
    )
    assert placed(made) == [("one", "k0", "n1")]
    assert len(told(core.wait(2))) == 2
