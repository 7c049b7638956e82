"""Costs of claims: they do not grow with the nodes, and with what runs there."""

from functools import partial

import pytest

from licorne_core.messages.commands import Command, TerminationType, Tick
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from support.core.builders import app, apps, ask, asks, config, node, nodes, register, release, releases
from support.core.calls import calls
from support.core.driver import START, placed, released

pytestmark = pytest.mark.pure

HELD, VICTIMS = 4, 2
"""Allocations on each node, and those that a claim needs."""

CLAIMS = 40
"""Claims whose cost is counted: their victims are more than the ended allocations that a leaf keeps."""

GROWS = 1.1
"""Factor allowed for forty times the nodes."""


class Town:
    """Full nodes of a queue that has no guarantee, and another queue that claims what it is due.

    The core is not watched: its calls are counted.
    """

    def __init__(self, count: int) -> None:
        """So many nodes, and one claim so that what is kept between searches is known."""
        self._scheduler, self._now, self._made = Scheduler(), START, 0
        poor = "{name: poor, resources: {guaranteed: {memory: 999}}, properties: {preemption.delay: 1ms}}"
        self._do(register(config(f"[{poor}, {{name: rich}}]")))
        # Half an allocation is left, so that nodes are the blocker and not the maximum of root.
        self._do(nodes(*[node(f"n{number:04}", memory=2 * HELD + 1) for number in range(count)]))
        self._do(apps(app("poor", "root.poor"), app("rich", "root.rich")))
        held = [ask("rich", f"r{number}", policy="s", memory=2) for number in range(HELD * count)]
        assert len(placed(self._do(asks(*held)))) == len(held)
        self.claim(1)

    def claim(self, count: int) -> None:
        """So many claims one after the other; victims are confirmed at once."""
        for _ in range(count):
            self._made += 1
            victims = released(self._do(asks(ask("poor", f"c{self._made}", policy="o", memory=2 * VICTIMS))))
            assert len(victims) == VICTIMS
            why = TerminationType.PREEMPTED_BY_SCHEDULER
            assert placed(self._do(releases(*[release("rich", key, why=why) for _, key, *_ in victims])))

    def _do(self, command: Command) -> list[Effect]:
        """Hand in a command, and let the core decide until the next claim is old enough."""
        effects = self._scheduler.handle(command, self._now)
        end = self._now + 0.01
        while (due := self._scheduler.next_deadline()) is not None and due <= end:
            self._now = max(self._now, due)
            effects += self._scheduler.handle(Tick(), self._now)
        return effects


def test_a_claim_costs_the_same_however_many_nodes_there_are() -> None:
    """Neither nodes nor what runs in the leaf of the victims is looked through for a claim."""
    few, many = (calls(partial(Town(count).claim, CLAIMS)) for count in (50, 2_000))
    assert many < few * GROWS, (few, many)
