"""A decided stop is withdrawn if its reason no longer applies."""

from collections.abc import Iterable

import pytest

from extensions.drains.building import cordon, drain
from extensions.holds.building import change
from licorne_core.extensions.notice.messages import NoticesGiven
from licorne_core.messages.commands import Command, FailMode, NodeAction, PredicatePolicy
from licorne_core.messages.effects import Effect
from support.core.builders import (
    answering,
    app,
    apps,
    ask,
    asks,
    config,
    foreign,
    node,
    nodes,
    refusing,
    register,
    release,
    releases,
    reload,
)
from support.core.driver import Driver, asked, placed, stopped
from support.core.notices import noticed

NOTICE = 60
DELAY = 5


def queues(
    *, guest: str = "", guarantee: int = 0, owner: str = "{guaranteed: {memory: 2}}", rest: str = ""
) -> str:
    """Queues `guest`, with a notice of a minute and further properties, and `owner`, with these resources."""
    due = f"resources: {{guaranteed: {{memory: {guarantee}}}}}, " if guarantee else ""
    return config(
        f"[{{name: guest, {due}properties: {{preemption.notice: {NOTICE}s{guest}}}}}, "
        f"{{name: owner, resources: {owner}, properties: {{preemption.delay: {DELAY}s}}}}]",
        rest=rest,
    )


def town() -> Driver:
    """Two full nodes, each with a guest of size two; the younger guest is on n1."""
    driver = Driver()
    driver.do(register(queues()), nodes(node("n1", memory=2), node("n2", memory=2)))
    driver.do(apps(app("guest", "root.guest"), app("owner", "root.owner")))
    for key, home, age in (("young", "n1", 50), ("old", "n2", 100)):
        begun = driver.now - age
        driver.do(asks(ask("guest", key, on_node=home, memory=2, policy="s", created=begun)))
    return driver


def withdrawn(effects: Iterable[Effect]) -> list[str]:
    """The victims whose notice the effects withdraw."""
    given = [effect for effect in effects if isinstance(effect, NoticesGiven)]
    return [one.key for effect in given for one in effect.withdrawn]


def wants(driver: Driver) -> None:
    """Submit an ask of the owner, so that the guest on n1 is notified."""
    driver.do(asks(ask("owner", "k", memory=2, policy="o")))
    assert noticed(driver.wait(DELAY)) == ["young"]


FOREIGN = foreign("f", "n1", memory=1)

AT_ONCE: dict[str, Command] = {
    "the node is cordoned": cordon("n1"),
    "the node is too small": nodes(node("n1", NodeAction.UPDATE, memory=1)),
    "the asker has a lower maximum": reload(queues(owner="{guaranteed: {memory: 1}, max: {memory: 1}}")),
    "preemption is off": reload(queues(rest="preemption: {enabled: false}")),
    "the victim's queue is protected": reload(queues(guest=", preemption.policy: disabled")),
    "the victims' queue is guaranteed it": reload(queues(guarantee=3)),
    "the asker has no guarantee": reload(queues(owner="{max: {memory: 4}}")),
    "the asker has a lower guarantee": reload(queues(owner="{guaranteed: {memory: 1}}")),
    "the victim has a higher priority": change("guest", priority=5),
    "the victim has to run for longer": reload(queues(guest=", preemption.minimum.runtime: 1h")),
}
"""Events that withdraw the notice of a victim on n1, by name."""


@pytest.mark.parametrize("reason", AT_ONCE)
def test_a_notice_ends_with_its_reason(reason: str) -> None:
    """A notice whose reason ends is withdrawn at once, and its victim is not stopped at the deadline."""
    driver = town()
    wants(driver)
    effects = driver.do(AT_ONCE[reason])
    assert withdrawn(effects) == ["young"]
    assert not stopped([*effects, *driver.wait(NOTICE - 1)])


def test_a_notice_without_use_is_withdrawn_at_the_deadline() -> None:
    """If another scheduler uses room on the node, so that the stop would not help, the victim continues."""
    driver = town()
    wants(driver)
    driver.do(asks(FOREIGN))
    effects = driver.wait(NOTICE)
    assert withdrawn(effects) == ["young"]
    assert stopped(effects) == []


def test_an_ask_has_another_victim_after_a_withdrawn_notice() -> None:
    """After the node of the first victim is cordoned, a victim on the other node is notified and stopped."""
    driver = town()
    wants(driver)
    assert noticed([*driver.do(cordon("n1")), *driver.wait(1)]) == ["old"]
    assert stopped(driver.wait(NOTICE)) == ["old"]
    assert placed(driver.do(releases(release("guest", "old")))) == [("owner", "k", "n2")]


def test_a_justified_notice_survives_a_reload() -> None:
    """A reload without a relevant change withdraws no notice, and does not move its deadline."""
    driver = town()
    wants(driver)
    driver.wait(20)
    effects = driver.do(reload(queues(guest=", priority.offset: '0'")))
    assert (withdrawn(effects), noticed(effects)) == ([], [])
    assert stopped(driver.wait(NOTICE - 21)) == []
    assert stopped(driver.wait(1)) == ["young"]


REQUIRED: dict[str, Command] = {
    "the node is too small": nodes(node("n1", NodeAction.UPDATE, memory=1)),
    "the asker has a lower maximum": reload(queues(owner="{max: {memory: 1}}")),
    "the victim has a higher priority": change("guest", priority=5),
}


@pytest.mark.parametrize("reason", REQUIRED)
def test_a_notice_for_a_required_node_ends_with_its_reason(reason: str) -> None:
    """A void notice for a required node is withdrawn by its deadline, even with preemption disabled."""
    driver = town()
    driver.do(cordon("n2"), reload(queues(rest="preemption: {enabled: false}")))
    driver.do(nodes(node("n3", memory=2)), cordon("n3"))
    assert noticed(driver.do(asks(ask("owner", "k", memory=2, required_node="n1")))) == ["young"]
    effects = [*driver.do(REQUIRED[reason]), *driver.wait(NOTICE)]
    assert withdrawn(effects) == ["young"]
    assert stopped(effects) == []


def enforced(most: int, *, on: bool = True, delay: bool = True, a: int = 2, b: int = 0) -> str:
    """A queue with an enforced maximum, and its leaves `a` and `b` with these guarantees."""
    after = "quota.preemption.delay: 5s, " if delay else ""
    due = {"a": a, "b": b}.items()
    leaves = ", ".join(f"{{name: {name}, resources: {{guaranteed: {{memory: {it}}}}}}}" for name, it in due)
    return config(
        f"[{{name: p, resources: {{max: {{memory: {most}}}}}, "
        f"properties: {{{after}preemption.notice: {NOTICE}s}}, queues: [{leaves}]}}]",
        rest=f"preemption: {{quotapreemptionenabled: {str(on).lower()}}}",
    )


QUOTA = {
    "the switch is off": enforced(2, on=False),
    "the delay is gone": enforced(2, delay=False),
    "the maximum is raised": enforced(4),
    "a guarantee covers it": enforced(2, a=0, b=2),
}


@pytest.mark.parametrize("reason", QUOTA)
def test_a_notice_for_a_maximum_ends_with_the_maximum(reason: str) -> None:
    """A notice is withdrawn if its maximum is removed or no longer enforced."""
    driver = Driver()
    driver.do(register(enforced(4)), nodes(node("n1", memory=4)))
    for name in ("a", "b"):
        driver.do(apps(app(f"in-{name}", f"root.p.{name}")))
        driver.do(asks(ask(f"in-{name}", name, on_node="n1", memory=2)))
    driver.do(reload(enforced(2)))
    assert noticed(driver.wait(6)) == ["b"]
    effects = driver.do(reload(QUOTA[reason]))
    assert withdrawn(effects) == ["b"]
    assert "b" not in stopped(driver.wait(NOTICE))


ENDED: dict[str, Command] = {
    "cordoned": cordon("n1"),
    "drained": drain("n1", 3600),
    "shrunk": nodes(node("n1", NodeAction.UPDATE, memory=1)),
    "removed": nodes(node("n1", NodeAction.DECOMISSION)),
    "claimed": asks(ask("daemon", "d", memory=1, required_node="n1")),
}
"""Events that take a node from an ask whose victim there is being stopped."""


def hurried() -> Driver:
    """The core of `town` without notices: the guest on n1 was asked to stop, and n3 has room for a daemon."""
    driver = town()
    calm = queues().replace(f"preemption.notice: {NOTICE}s", "")
    driver.do(reload(calm), apps(app("daemon", "root.guest")), nodes(node("n3", memory=1)))
    driver.do(asks(ask("owner", "k", memory=2, policy="o")))
    assert stopped(driver.wait(DELAY)) == ["young"]
    return driver


@pytest.mark.parametrize("reason", ENDED)
def test_an_ask_that_loses_its_victims_has_others_stopped(reason: str) -> None:
    """If an ask cannot use the node of its victim, it gets the node of another victim."""
    driver = hurried()
    effects = driver.do(ENDED[reason])
    effects += driver.do(releases(release("guest", "young")))
    effects += driver.wait(20)
    assert stopped(effects) == ["old"]
    assert placed(driver.do(releases(release("guest", "old")))) == [("owner", "k", "n2")]


def test_a_cleared_node_that_the_rm_drains_is_used() -> None:
    """The ask is placed on the node of its victim even if the RM drains that node, without another victim."""
    driver = hurried()
    driver.do(nodes(node("n1", NodeAction.DRAIN_NODE)))
    effects = driver.do(releases(release("guest", "young")))
    assert placed(effects) == [("owner", "k", "n1")]
    assert not stopped([*effects, *driver.wait(20)])


def test_an_ask_preempts_once() -> None:
    """An ask whose victim the RM never stops waits for that victim, and preempts no other."""
    driver = hurried()
    assert not stopped(driver.wait(120))


def test_a_node_that_the_rm_refuses_is_not_cleared_again() -> None:
    """If the RM refuses the node of a stopped victim, a victim on the other node is stopped."""
    driver = Driver()
    policy = PredicatePolicy(deadline=5.0, fail_mode=FailMode.CLOSED)
    calm = queues().replace(f"preemption.notice: {NOTICE}s", "")
    calm = calm.replace("submitacl: '*'", "submitacl: '*', properties: {reservation.max.nodes: '0'}")
    sizes = {"n1": 2, "n2": 2, "n3": 1, "n4": 1}
    driver.do(register(calm, predicates=policy), nodes(*(node(n, memory=m) for n, m in sizes.items())))
    driver.do(apps(app("guest", "root.guest"), app("owner", "root.owner")))
    for key, home in (("young", "n1"), ("old", "n2")):
        driver.do(asks(ask("guest", key, on_node=home, memory=2, policy="s")))
    driver.do(asks(ask("owner", "k", memory=2, policy="o", predicate="c")))
    (check,) = asked(driver.wait(DELAY))
    assert stopped(driver.do(answering(check))) == ["young"]
    (check,) = asked(driver.do(releases(release("guest", "young"))))
    assert check.allocate
    # Another guest takes the room before the ask searches again, so the RM's answer about the node is void.
    driver.send(refusing(check, "n1"))
    (check,) = asked(driver.do(asks(ask("guest", "next", memory=2, policy="s", predicate="g"))))
    assert placed(driver.do(answering(check))) == [("guest", "next", "n1")]
    effects = driver.wait(20)
    assert (asked(effects), stopped(effects)) == ([], ["old"])


def test_a_drain_ends_if_its_removed_node_is_uncordoned() -> None:
    """After a drained node is removed and uncordoned, a new node of its name is not drained."""
    driver = town()
    driver.do(drain("n1", 100))
    driver.do(nodes(node("n1", NodeAction.DECOMISSION)), cordon("n1", schedulable=True))
    driver.do(nodes(node("n1", memory=2)), asks(ask("guest", "new", memory=2)))
    assert not stopped(driver.wait(200))
