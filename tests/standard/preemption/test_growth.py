"""The cost of preemption does not grow with the number of nodes and allocations."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from licorne_core.messages.commands import Command, NodeAction, TerminationType, Tick
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.slices import Tuning
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.calls import calls
from support.core.driver import START, placed, released

pytestmark = pytest.mark.pure

HELD, VICTIMS = 4, 2
"""The number of allocations on each node, and of victims for one preempting ask."""

CLAIMS = 40
"""Number of preempting asks whose cost is counted; more victims end than a leaf keeps ended allocations."""

GROWS = 1.1
"""Allowed factor of the cost with ten to forty times as many nodes."""


class Town:
    """Full nodes of a queue without a guarantee, and another queue below its guarantee.

    The books are not recounted after each step, because calls are counted.
    """

    def __init__(self, count: int, tuning: Tuning | None = None) -> None:
        """Create this number of nodes, which no search has examined yet."""
        self._scheduler, self._now, self._made = Scheduler(tuning=tuning), START, 0
        poor = "{name: poor, resources: {guaranteed: {memory: 999}}, properties: {preemption.delay: 1ms}}"
        self.do(register(config(f"[{poor}, {{name: rich}}]", rest="nodesortpolicy: fair")))
        # Half an allocation remains free, so that nodes block the ask and not the maximum of root.
        self.do(nodes(*[node(f"n{number:04}", memory=2 * HELD + 1) for number in range(count)]))
        self.do(apps(app("poor", "root.poor"), app("rich", "root.rich")))
        held = [ask("rich", f"r{number}", policy="s", memory=2) for number in range(HELD * count)]
        assert len(placed(self.do(asks(*held)))) == len(held)

    def do(self, command: Command) -> list[Effect]:
        """Pass a command, and decide until the ask is old enough to preempt."""
        effects = self._scheduler.handle(command, self._now)
        for turn in self._turns():
            effects += turn()
        return effects

    def longest_turn(self, command: Command) -> int:
        """The number of calls of the longest turn after a command."""
        self._scheduler.handle(command, self._now)
        return max(calls(turn) for turn in self._turns())

    def _turns(self) -> Iterator[Callable[[], list[Effect]]]:
        end = self._now + 0.01
        while (due := self._scheduler.next_deadline()) is not None and due <= end:
            self._now = max(self._now, due)
            yield partial(self._scheduler.handle, Tick(), self._now)

    def wanted(self) -> Command:
        """Submit another ask that may preempt."""
        self._made += 1
        return asks(ask("poor", f"c{self._made}", policy="o", memory=2 * VICTIMS))

    def claim(self, count: int) -> None:
        """Submit this number of preempting asks one after the other, and confirm victims at once."""
        for _ in range(count):
            victims = released(self.do(self.wanted()))
            assert len(victims) == VICTIMS
            why = TerminationType.PREEMPTED_BY_SCHEDULER
            assert placed(self.do(releases(*[release("rich", key, why=why) for _, key, *_ in victims])))

    def come_and_go(self, count: int) -> None:
        """Repeatedly add a node, remove one, and submit a preempting ask."""
        for number in range(count):
            self.do(nodes(node(f"m{number:04}", memory=1)))
            self.claim(1)
            self.do(nodes(node(f"m{number:04}", NodeAction.DECOMISSION)))


@pytest.mark.parametrize("act", [Town.claim, Town.come_and_go])
def test_preemption_costs_the_same_for_any_number_of_nodes(act: Callable[[Town, int], None]) -> None:
    """A preempting ask examines neither all nodes nor all allocations in the leaf of its victims."""
    costs = []
    for count in (50, 2_000):
        town = Town(count)
        town.claim(1)
        costs.append(calls(partial(act, town, CLAIMS)))
    few, many = costs
    assert many < few * GROWS


def test_the_first_search_examines_the_nodes_over_many_turns() -> None:
    """The longest turn of a first search is no longer with ten times as many nodes."""
    towns = [Town(count, Tuning(fill_work=40)) for count in (50, 500)]
    few, many = (town.longest_turn(town.wanted()) for town in towns)
    assert many < few * GROWS
