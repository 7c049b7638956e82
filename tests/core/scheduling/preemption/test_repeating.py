"""When a search for victims is made again, and what is said of the last one (spec § 9.2)."""

import pytest

from licorne_core.messages.reasons import PreemptionCheck
from licorne_core.scheduling.preemption import search
from licorne_core.values.ids import PartitionName
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import START, Driver, released
from support.core.steps import last, listed
from support.preemption.asking import refusal
from support.preemption.records import Hold
from support.preemption.scenes import NOW, A, B, cluster, queue, runs, waits

DEFAULT = PartitionName("[rm1]default")
QUEUES = "[{name: rich, properties: {%s}}, {name: poor, resources: {guaranteed: {memory: 4}}}]"


def crowded(properties: str = "") -> Driver:
    """Rich has all 4, at priority 5; asks of poor preempt others after 5 s."""
    driver = Driver()
    text = config(QUEUES % properties)
    text = text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")
    driver.do(register(text), nodes(node("n1", memory=4)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    taken = [ask("rich", f"r{n}", policy="s", priority=5, memory=1) for n in range(4)]
    driver.do(asks(*taken))
    return driver


def searches(driver: Driver, key: str) -> int:
    """How often a search was in vain, as the ask's log says it."""
    shown = listed(driver.views.asks(DEFAULT, "poor"))
    (log,) = [item.allocation_log for item in shown if item.ask.key == key]
    return sum(entry.count for entry in log if "Preemption" in entry.message)


def explained(driver: Driver, key: str) -> PreemptionCheck:
    """What preemption does for the ask."""
    checks = last(driver.views.explain(DEFAULT, "poor", key)).checks
    (check,) = [check for check in checks if isinstance(check, PreemptionCheck)]
    return check


def test_a_search_in_vain_is_not_made_again_before_something_changes() -> None:
    """Time alone changes nothing here; another allocation may."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", memory=1)))
    driver.wait(200)
    assert searches(driver, "p") == 1
    driver.send(nodes(node("n2", memory=1)))
    driver.do(asks(ask("rich", "r4", policy="s", priority=5, on_node="n2", memory=1)))
    driver.wait(20)
    assert searches(driver, "p") == 2


def test_for_another_ask_of_the_group_a_search_is_made() -> None:
    """Of higher priority it may stop whom the first one may not, once it is old enough."""
    driver = crowded()
    driver.do(asks(ask("poor", "low", policy="o", memory=1)))
    driver.wait(19)
    driver.do(asks(ask("poor", "high", policy="o", priority=9, memory=1)))
    assert len(released(driver.wait(20))) == 1


def test_it_is_made_again_when_not_everybody_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who was left out may become old enough at any moment."""
    monkeypatch.setattr(search, "MOST_COUNTED", 0)
    driver = crowded("preemption.minimum.runtime: 100s")
    driver.do(asks(ask("poor", "p", policy="o", priority=5, memory=1)))
    assert released(driver.wait(99)) == []
    assert len(released(driver.wait(20))) == 1


def test_a_young_reservation_yields_in_time() -> None:
    """The only node is kept for a lesser ask that has not had its chance yet."""
    other = waits(B, 1, hold=Hold(node="n1", time=NOW - 1), priority=-1)
    world = cluster([queue(A, {"vcore": 5}), queue(B)], runs(B, *range(12)), other, waits(A, 1))
    assert refusal(world, f"{A}-w1").until == NOW + 3


def test_the_last_search_is_what_is_reported() -> None:
    """Whoever asks why starts no search; before the first one there is nothing to tell."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", memory=1), ask("poor", "q", policy="o", memory=1)))
    assert explained(driver, "p").code == "PREEMPTION_DELAYED"
    driver.wait(5)
    refused = explained(driver, "p")
    assert (refused.code, refused.passed) == ("PREEMPTION_NO_VICTIMS", False)
    spared = "in queue root it counts as priority 0, and who is spared there as 5 or more"
    assert refused.text == f"no allocation may be a victim; {spared}"
    assert explained(driver, "q").text == "for p, which comes before it: " + refused.text


def test_before_a_search_nothing_is_said_of_it() -> None:
    """It may preempt others already, and will be tried in the next turn."""
    driver = crowded()
    driver.send(asks(ask("poor", "p", policy="o", created=START - 60, memory=1)))
    assert explained(driver, "p").code == "PREEMPTION_NOT_YET_TRIED"


def test_what_is_kept_for_an_ask_is_the_summary() -> None:
    """Victims are going for it: that, and not what they still take, is why it waits."""
    driver = crowded()
    driver.do(asks(ask("poor", "p", policy="o", priority=5, memory=1)))
    assert [key for _, key, *_ in released(driver.wait(5))] == ["r0"]
    summary = last(driver.views.explain(DEFAULT, "poor", "p")).summary
    assert summary == "node n1 is kept for it, and waits for the end of rich/r0"
