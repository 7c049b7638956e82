"""Draws acts of operators on nodes."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from licorne_core.extensions.drains.messages import Cordon, DrainNode, DrainTerms, SetNodeSchedulable
from licorne_core.messages.commands import Command, RegisterRm
from licorne_core.values.ids import NodeId, PartitionName, RmId

SECONDS = (None, 0.0, 0.0, 1.0, 2.5, 10.0, 60.0)
"""Seconds until the last allocation of a drained node is stopped; None to stop none."""


class CordonMaker:
    """Draws the acts of operators from its own random source."""

    def __init__(self, seed: int, rms: Sequence[str]) -> None:
        """Draw whether operators act in the world."""
        self._rng = Random(seed ^ 0x0FE12A)
        self._rms = rms
        self._share = self._rng.choice([0.0, 0.1, 0.3])

    def maybe_act(self) -> list[Command]:
        """Occasionally cordon, drain or uncordon a node."""
        rng = self._rng
        if rng.random() >= self._share:
            return []
        rm_id, node_id = RmId(rng.choice(self._rms)), self._node_id()
        partition = rng.choice(["", "", "", "", "", "", "second", "nowhere"])
        if rng.random() < 0.5:
            seconds = rng.choice(SECONDS)
            return [DrainNode(rm_id=rm_id, partition=partition, node_id=node_id, seconds=seconds)]
        on = rng.random() < 0.8
        return [SetNodeSchedulable(rm_id=rm_id, partition=partition, node_id=node_id, schedulable=on)]

    def marking(self, command: Command, now: float) -> Command:
        """A registration with the marks of earlier acts of operators; other commands unchanged."""
        rng = self._rng
        if not self._share or not isinstance(command, RegisterRm):
            return command
        marks: dict[tuple[PartitionName, str], Cordon] = {}
        for _ in range(rng.choice([0, 1, 2])):
            name = PartitionName(f"[{command.rm_id}]{rng.choice(['default', 'second'])}")
            start, seconds = now - rng.choice([0.0, 3.0]), rng.choice(SECONDS)
            deadline = None if seconds is None else start + seconds
            terms = DrainTerms(start=start, deadline=deadline, allocations=rng.randint(0, 4))
            marks[name, self._node_id()] = Cordon(drain=rng.choice([None, terms]))
        return replace(command, marks={"drains": marks})

    def _node_id(self) -> NodeId:
        return NodeId(f"n{self._rng.randint(0, 3)}")
