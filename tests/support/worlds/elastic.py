"""Draws elastic gangs: some of a world's gangs with placeholders become elastic."""

from dataclasses import replace
from random import Random

from licorne_core.messages.commands import Command, NewApplication, UpdateAllocations, UpdateApplications
from licorne_core.values.asks import Ask

SHARE = 0.1
"""The default share of gangs that are elastic."""

OTHERS = 0.5
"""The share of other applications that become elastic where all gangs are."""


class ElasticMaker:
    """Makes gangs elastic, from a random source of its own that changes nothing else."""

    def __init__(self, seed: int, share: float) -> None:
        """Draw a `share` of the gangs."""
        self.rng = Random(f"elastic {seed}")
        self.share = share
        self.apps: set[tuple[str, str, str]] = set()

    def marking(self, command: Command) -> Command:
        """The command, with some of its gangs made elastic."""
        if isinstance(command, UpdateApplications) and self.share:
            return replace(command, new=[self._new(command.rm_id, one) for one in command.new])
        if isinstance(command, UpdateAllocations) and self.apps:
            return replace(command, asks=[self._ask(command.rm_id, one) for one in command.asks])
        return command

    def _new(self, rm_id: str, new: NewApplication) -> NewApplication:
        rng = self.rng
        is_gang = any(new.placeholder_ask.values())
        if rng.random() >= (self.share if is_gang else self.share * OTHERS):
            return new
        self.apps.add((rm_id, new.partition, new.app_id))
        least, step = rng.choice([1, 2, 2, 3, 4]), rng.choice([1, 1, 2, 3])
        tags = {**new.tags, "licorne/gang-min": str(least)}
        if step > 1 or rng.random() < 0.5:
            tags["licorne/gang-step"] = str(step)
        if rng.random() < 0.6:
            tags["licorne/gang-max"] = str(least + step * rng.choice([0, 1, 2, 3]))
        # Some commands are refused for their elastic terms.
        return replace(new, tags=tags, placeholder_ask=new.placeholder_ask if rng.random() < 0.02 else {})

    def _ask(self, rm_id: str, ask: Ask) -> Ask:
        rng = self.rng
        if (rm_id, ask.partition, ask.app_id) not in self.apps:
            return ask
        group = ask.task_group if ask.task_group or rng.random() < 0.2 else "workers"
        return replace(ask, placeholder=ask.placeholder and rng.random() < 0.02, task_group=group)
