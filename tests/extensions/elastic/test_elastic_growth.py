"""Members and steps cost the same in gangs and clusters of any size; searches grow in proportion."""

import sys
from collections.abc import Callable
from types import FrameType

import pytest

from licorne_core.messages.commands import Command, Tick
from licorne_core.messages.effects import Effect
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
from support.core.driver import Driver, placed, released

QUEUES = "[{name: a, resources: {guaranteed: {memory: 8}}, properties: {preemption.delay: 1s}}, {name: b}]"

NAME = "  - name: default\n"
PROMPT = "{quota.preemption.delay: 1s}"


class Scene:
    """A core whose invariants are not checked after each command, with a count of function calls."""

    def __init__(self, members: int, gangs: int = 1, spare: int = 0) -> None:
        """Submit gangs of this number of members to a cluster that they fill, except for `spare` nodes."""
        driver = Driver()
        self.scheduler, self.now = driver.scheduler, driver.now
        driver.send(register(config(QUEUES)))
        driver.send(apps(app("claims", "root.a")))
        tags = {"licorne/gang-min": "2"}
        total = members * gangs
        driver.send(nodes(*(node(f"n{number}", memory=50) for number in range(total // 50 + spare))))
        driver.send(apps(*(app(f"g{number}", "root.b", tags=tags) for number in range(gangs))))
        wanted = [
            ask(f"g{gang}", f"m{gang}-{number}", group="w", policy="s", memory=1)
            for gang in range(gangs)
            for number in range(members)
        ]
        self.calls, effects = counted(lambda: [*self.do(asks(*wanted)), *self.turns()])
        assert len(placed(effects)) == total

    def do(self, command: Command) -> list[Effect]:
        """Process a command."""
        return list(self.scheduler.handle(command, self.now))

    def turns(self) -> list[Effect]:
        """Decide until the core is idle."""
        effects: list[Effect] = []
        while (due := self.scheduler.next_deadline()) is not None and due <= self.now:
            effects += self.do(Tick())
        return effects


def counted(action: Callable[[], list[Effect]]) -> tuple[int, list[Effect]]:
    """The number of Python calls of an action, and its effects."""
    number = 0

    def count(_: FrameType, event: str, __: object) -> None:
        nonlocal number
        number += event == "call"

    sys.setprofile(count)
    try:
        effects = action()
    finally:
        sys.setprofile(None)
    return number, effects


def of_claim(scene: Scene) -> int:
    """The calls of a search for victims that ends with the stop of one step."""
    scene.do(asks(ask("claims", "k", policy="o", memory=1)))
    scene.turns()
    scene.now += 2
    calls, effects = counted(scene.turns)
    assert len(released(effects)) == 1
    return calls


def of_a_lowered_maximum(scene: Scene, members: int) -> int:
    """The calls of an enforcement after the maximum was lowered to half of the members."""
    queues = (
        f"[{{name: a}}, {{name: b, resources: {{max: {{memory: {members // 2}}}}}, properties: {PROMPT}}}]"
    )
    scene.do(
        reload(config(queues).replace(NAME, f"{NAME}    preemption: {{quotapreemptionenabled: true}}\n", 1))
    )
    scene.turns()
    scene.now += 2
    calls, effects = counted(scene.turns)
    assert len(released(effects)) == members // 2
    return calls


def of_an_end(scene: Scene) -> int:
    """The calls when a member ends and a new ask replaces it."""
    calls, effects = counted(
        lambda: [
            *scene.do(releases(release("g0", "m0-1"))),
            *scene.turns(),
            *scene.do(asks(ask("g0", "later", group="w", policy="s", memory=1))),
            *scene.turns(),
        ]
    )
    assert len(placed(effects)) == 1
    return calls


@pytest.mark.parametrize(("small", "large"), [((100, 1), (800, 1)), ((4, 25), (4, 200))])
def test_the_cost_of_members_does_not_grow_with_gangs(small: tuple[int, int], large: tuple[int, int]) -> None:
    """Calls to place members grow in proportion to members; calls at the end of a member do not grow."""
    few, many = Scene(*small), Scene(*large)
    assert many.calls < 8 * 1.3 * few.calls
    assert of_an_end(many) < 1.3 * of_an_end(few)


def test_a_step_of_one_member_examines_few_of_many_nodes() -> None:
    """With a hundred times the nodes, growth by single members takes about as many calls."""
    assert Scene(100, spare=198).calls < 1.3 * Scene(100).calls


@pytest.mark.parametrize(("small", "large"), [((100, 1), (800, 1)), ((4, 25), (4, 200))])
def test_a_search_examines_each_member_a_few_times(small: tuple[int, int], large: tuple[int, int]) -> None:
    """With eight times the members a search for victims takes at most 10.4 times the calls."""
    few, many = Scene(*small), Scene(*large)
    assert of_claim(many) < 8 * 1.3 * of_claim(few)


def test_the_enforcement_of_a_maximum_examines_each_member_a_few_times() -> None:
    """The enforcement of a maximum against eight times the members takes at most 10.4 times the calls."""
    assert of_a_lowered_maximum(Scene(800), 800) < 8 * 1.3 * of_a_lowered_maximum(Scene(100), 100)
