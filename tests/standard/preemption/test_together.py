"""Asks that preempt at the same time: together they stop as few as any legal choice for all of them."""

import pytest

from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import Effect
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.driver import START, Driver, placed, released

DELAY = 1
WHY = TerminationType.PREEMPTED_BY_SCHEDULER


def town(queues: str, sizes: list[int], properties: str = "") -> Driver:
    """Nodes of so many cores, and queues whose asks preempt after a second."""
    driver = Driver()
    text = config(f"[{{name: mine, resources: {{guaranteed: {{memory: 99}}}}{properties}}}, {queues}]")
    driver.do(register(text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 1s}")))
    driver.do(nodes(*[node(f"n{number}", memory=size) for number, size in enumerate(sizes)]))
    driver.do(apps(app("mine", "root.mine")))
    return driver


def full(number: int, size: int, properties: str = "") -> Driver:
    """So many nodes, on each one job that takes all of it, of a queue without a guarantee."""
    driver = town(f"{{name: others, properties: {{{properties}}}}}", [size] * number)
    driver.do(apps(app("others", "root.others")))
    jobs = [ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=size) for n in range(number)]
    driver.do(asks(*jobs))
    return driver


def want(driver: Driver, *keys: str, size: int = 1) -> list[Effect]:
    """Asks that preempt others."""
    return driver.do(asks(*[ask("mine", key, policy="o", memory=size) for key in keys]))


def obeyed(driver: Driver, effects: list[Effect]) -> tuple[list[str], list[str]]:
    """Those that are stopped until nobody is any more, each at once, and those that are placed."""
    gone, started = [], [key for _, key, _ in placed(effects)]
    while told := released(effects):
        gone += [key for _, key, *_ in told]
        effects = driver.do(releases(*[release(app_id, key, why=WHY) for app_id, key, *_ in told]))
        started += [key for _, key, _ in placed(effects)]
    return gone, started


def test_six_small_asks_stop_one_large_job() -> None:
    """What the first victim leaves beyond the first ask is promised to the others."""
    driver = full(6, 8)
    want(driver, *"abcdef")
    gone, started = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 1
    assert sorted(started) == [*"abcdef"]


def test_explain_says_for_whose_end_it_waits() -> None:
    """An ask that was promised what another one leaves waits for the end of the same victim."""
    driver = full(2, 8)
    want(driver, "a", "b")
    driver.wait(DELAY)
    told = {driver.explain("mine", key).summary for key in "ab"}
    assert told == {"node n0 is kept for it, and waits for the end of others/j0"}


def test_what_leaves_already_counts_first() -> None:
    """Asks that come one after the other, while the victim of the first still ends, stop nobody else."""
    driver = full(3, 3)
    effects: list[Effect] = []
    for key in "abc":
        want(driver, key)
        effects += driver.wait(0.3)
    effects += driver.wait(2 * DELAY)
    gone, started = obeyed(driver, effects)
    assert len(gone) == 1
    assert sorted(started) == [*"abc"]


def test_what_leaves_is_promised_once() -> None:
    """Beyond the promises nothing is left for a third ask: it has another job stopped."""
    driver = full(3, 5)
    driver.do(nodes(node("small0", memory=1), node("small1", memory=1)))
    want(driver, "a", "b", size=2)
    want(driver, "c", size=3)
    gone, started = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 2
    assert sorted(started) == ["a", "b", "c"]


def test_others_take_nothing_of_what_is_promised() -> None:
    """An ask of the queue that lost its job fits beside both promises, and one more does not."""
    driver = full(1, 3)
    want(driver, "a", "b")
    driver.do(asks(ask("others", "x", memory=1), ask("others", "y", memory=1)))
    _, started = obeyed(driver, driver.wait(DELAY))
    assert sorted(started) == ["a", "b", "x"]


def test_who_goes_on_after_all_leaves_nothing() -> None:
    """A victim under notice may be spared: no other ask counts on what it would leave."""
    driver = full(2, 8, "preemption.notice: 60s")
    want(driver, "a")
    driver.wait(DELAY)
    want(driver, "b")
    driver.wait(DELAY)
    driver.do(releases(release("mine", "a")))
    gone, started = obeyed(driver, driver.wait(60))
    assert len(gone) == 1
    assert started == ["b"]


def test_who_has_a_node_alone_shares_it_with_nobody() -> None:
    """A reservation that is exclusive keeps the whole node."""
    driver = town("{name: others}", [8, 8], ", properties: {reservation.exclusive: 'true'}")
    driver.do(apps(app("others", "root.others")))
    driver.do(asks(*[ask("others", f"j{n}", policy="s", on_node=f"n{n}", memory=8) for n in range(2)]))
    want(driver, "a", "b")
    gone, _ = obeyed(driver, driver.wait(DELAY))
    assert len(gone) == 2


@pytest.mark.parametrize(("tags", "stopped"), [({"licorne/started": str(int(START) - 100)}, 1), ({}, 0)])
def test_an_rm_says_when_an_allocation_began(tags: dict[str, str], stopped: int) -> None:
    """One that it brings along has run for the minimum runtime then, and not since it was reported."""
    driver = town("{name: others, properties: {preemption.minimum.runtime: 60s}}", [1])
    driver.do(apps(app("others", "root.others")))
    driver.do(asks(ask("others", "j", policy="s", on_node="n0", memory=1, tags=tags)))
    want(driver, "a")
    assert len(released(driver.wait(DELAY))) == stopped
