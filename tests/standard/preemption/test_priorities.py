"""Law 6: ask and victim are compared as children of their lowest common queue (spec §§ 4.10, 4.11)."""

from itertools import product
from typing import Any

import pytest

from licorne_core.messages.effects import AllocationsMade
from licorne_core.standard.preemption.laws import Law
from support.core.builders import app, apps, ask, asks, config, node, nodes, register
from support.core.driver import Driver
from support.preemption.asking import cluster, parent, queue, refusal, runs, victims, waits
from support.preemption.records import Cluster, QueueRecord

OFFSETS = (-5, 0, 5)
FENCES = (False, True)
ASKS = (0, 3, 8)
VICTIM = 3
TABLE = [*product(OFFSETS, FENCES, ASKS)]
"""Offset, fence, and the priority of the ask; the allocation has the priority VICTIM."""

RICH, POOR = "root.up.both.rich", "root.up.both.poor"
PLACES = ("root", "root.up", "root.up.both", RICH, POOR)


def scene(where: str, offset: int, fence: bool, priority: int) -> Cluster:
    """A running allocation of `rich` and an equal ask of `poor`; the queue `where` has these settings."""
    settings: dict[str, Any] = {"priority_offset": offset, "priority_fence": fence}

    def made(path: str) -> QueueRecord:
        """The queue of this path, with the settings if the path is `where`."""
        here = settings if path == where else {}
        if path == POOR:
            return queue(path, {"vcore": 4}, **here)
        return queue(path, **here) if path == RICH else parent(path, **here)

    world = cluster(
        [made(path) for path in PLACES[1:]],
        runs(RICH, 1, priority=VICTIM),
        waits(POOR, 1, priority=priority),
        vcore=1,
    )
    root = made("root")
    return Cluster(
        queues=(root, *world.queues[1:]),
        nodes=world.nodes,
        requests=world.requests,
        now=world.now,
    )


def first_served(where: str, offset: int, fence: bool, priority: int) -> set[str]:
    """The queues whose ask is placed first when both wait for one place, with both orders of their names."""
    found: set[str] = set()
    for rich, poor in (("a", "b"), ("b", "a")):
        names = {RICH: rich, POOR: poor, "root.up": "up", "root.up.both": "both", "root": "root"}
        policy = "fence" if fence else "default"
        text = f"properties: {{priority.offset: '{offset}', priority.policy: {policy}}}"
        here = {path: f"{{name: {name}, %s}}" for path, name in names.items()}
        filled = {path: text if path == where else "properties: {}" for path in names}
        leaves = ", ".join(here[path] % filled[path] for path in (RICH, POOR))
        both = here["root.up.both"] % f"{filled['root.up.both']}, queues: [{leaves}]"
        up = here["root.up"] % f"{filled['root.up']}, queues: [{both}]"
        whole = config(f"[{up}]")
        if where == "root":
            whole = whole.replace("submitacl: '*'", f"submitacl: '*', {text}")
            assert text in whole
        driver = Driver()
        driver.do(register(whole))
        driver.do(apps(app("rich", f"root.up.both.{rich}"), app("poor", f"root.up.both.{poor}")))
        driver.do(asks(ask("rich", "r", priority=VICTIM, memory=1)))
        driver.do(asks(ask("poor", "p", priority=priority, memory=1)))
        effects = driver.do(nodes(node("n1", memory=1)))
        made = [e for e in effects if isinstance(e, AllocationsMade)]
        found.update(one.ask.app_id for effect in made for one in effect.allocations)
    return found


@pytest.mark.parametrize("where", PLACES[:3])
@pytest.mark.parametrize(("offset", "fence", "priority"), TABLE)
def test_settings_of_common_ancestors_are_unused(where: str, offset: int, fence: bool, priority: int) -> None:
    """Offset and fence of common ancestors have no effect: an ask preempts if its priority is at least 3."""
    expected = [f"{RICH}-1"] if priority >= VICTIM else Law.NO_VICTIMS
    assert victims(scene(where, offset, fence, priority), f"{POOR}-w1") == expected


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(("offset", "fence", "priority"), TABLE)
def test_an_ask_preempts_only_if_it_is_not_behind_in_the_order_of_queues(
    where: str, offset: int, fence: bool, priority: int
) -> None:
    """An ask preempts exactly if the order of queues does not put it behind the victim."""
    stops = victims(scene(where, offset, fence, priority), f"{POOR}-w1") == [f"{RICH}-1"]
    assert stops == ("poor" in first_served(where, offset, fence, priority))


def test_an_ask_of_the_highest_priority_preempts_all_priorities() -> None:
    """An ask of the highest priority may preempt allocations of every priority."""
    top = 2**31 - 1
    world = cluster(
        [
            queue("root.a", {"vcore": 4}, priority_offset=top),
            queue("root.b", priority_offset=top),
        ],
        runs("root.b", 1, priority=9),
        waits("root.a", 1, priority=1),
        vcore=1,
    )
    assert victims(world, "root.a-w1") == ["root.b-1"]


def test_a_refusal_has_both_compared_priorities() -> None:
    """A refusal has the lowest common queue, and the priorities of ask and victim as compared there."""
    world = scene(RICH, 5, False, 0)
    (found,) = refusal(world, f"{POOR}-w1").spared
    assert found == ("root.up.both", 0, 8)


def test_explain_has_both_compared_priorities() -> None:
    """The explanation of a refusal has both compared priorities, and the queue of the comparison."""
    driver = Driver()
    queues = "[{name: rich, properties: {priority.policy: fence, priority.offset: '7'}}, %s]"
    poor = "{name: poor, resources: {guaranteed: {memory: 4}}, properties: {priority.offset: '2'}}"
    text = config(queues % poor)
    text = text.replace("submitacl: '*'", "submitacl: '*', properties: {preemption.delay: 5s}")
    driver.do(register(text), nodes(node("n1", memory=1)))
    driver.do(apps(app("rich", "root.rich"), app("poor", "root.poor")))
    driver.do(asks(ask("rich", "r", policy="s", memory=1)))
    driver.do(asks(ask("poor", "p", policy="o", priority=4, memory=1)))
    driver.wait(5)
    shown = driver.explain("poor", "p").checks[-1]
    assert shown.message() == (
        "no allocation may be a victim; in queue root it counts as priority 6, "
        "and who is spared there as 7 or more"
    )
