"""Draws acts of operators on the applications of a world."""

from collections.abc import Sequence
from random import Random

from extensions.holds.building import change, hold
from licorne_core.messages.commands import Command
from licorne_core.messages.operators import OperatorMark
from support.worlds.rms import RmMaker

PRIORITIES = (-3, 0, 1, 7)


class OperatorMaker:
    """Draws holds, priorities and moves, from its own random source."""

    def __init__(self, seed: int, rms: Sequence[RmMaker]) -> None:
        """Draw whether the world has any."""
        self._rng = Random(seed ^ 0x0B5E55)
        self._rms = rms
        self.has_some = self._rng.random() < 0.5

    def maybe(self, now: float) -> list[Command]:
        """Sometimes an act of an operator on an application, which may not exist."""
        rng = self._rng
        if not self.has_some or rng.random() > 0.2:
            return []
        rm = rng.choice(self._rms)
        name = rng.choice(list(rm.settings.makers))
        app_id = f"app-{rng.randint(0, 9)}"
        mark = OperatorMark("ann", now, "because")
        kind = rng.random()
        if kind < 0.4:
            on = rng.random() < 0.5
            return [hold(app_id, held=on, partition=name, rm=rm.rm, mark=mark)]
        queue, priority, reset = "", None, False
        if kind < 0.75:
            queue = rng.choice([*rm.settings.makers[name].leaves() * 4, "root", "root.nowhere"])
        if kind > 0.65:
            reset = rng.random() < 0.3
            priority = None if reset else rng.choice(PRIORITIES)
        changes = change(
            app_id, priority=priority, reset=reset, queue=queue, partition=name, rm=rm.rm, mark=mark
        )
        return [changes]
