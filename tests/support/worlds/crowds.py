"""Draws what brings asks to preempt others: full nodes, and asks of those who are due more."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from licorne_core.messages.commands import Command, Tick
from licorne_core.values.asks import Ask
from support.core.builders import app, apps, asks, node, nodes
from support.oracle.books import Amounts
from support.worlds.amounts import TYPES
from support.worlds.settings import RmSettings

USERS = [("ann", ["dev"]), ("bob", ["dev", "ops"]), ("cid", ["ops"]), ("dee", [])]

COSTS = ["0", "0.5", "7", "x", "-1"]
"""What asks say that a second of them costs; the last two make no sense."""

DrawAsk = Callable[[str, float, str], Ask]
"""Draws an ask: by partition, time and application."""


class Crowd:
    """How crowded it is with one RM. `share` of its asks may preempt others.

    Where that are most there are few nodes, for asks of sizes that fit on most of them.
    """

    def __init__(self, rng: Random, rm: str, settings: RmSettings, share: float) -> None:
        """No application was submitted yet."""
        self.rng = rng
        self.rm = rm
        self.settings = settings
        self.share = share
        self.is_dense = share > rng.random()
        self.queues: dict[str, dict[str, str]] = {name: {} for name in settings.makers}

    def shape(self) -> Amounts:
        """A size of ask."""
        rng = self.rng
        names = [name for name in TYPES if rng.random() < 0.7] or ["vcore"]
        return {name: TYPES[name] // rng.choice([1, 1, 2, 4]) or 1 for name in names}

    def capacity(self) -> Amounts:
        """A size of node."""
        return {name: self.rng.choice([2, 3, 4]) * amount for name, amount in TYPES.items()}

    def opening(self, fleet: int) -> list[Command]:
        """So many nodes at once, and an application for each leaf."""
        rng = self.rng
        commands: list[Command] = []
        for partition, maker in self.settings.makers.items():
            there = [node(f"n{number}", partition=partition, size=self.capacity()) for number in range(fleet)]
            new = []
            for number, leaf in enumerate(maker.leaves()[:10]):
                user, groups = rng.choice(USERS)
                new.append(app(f"app-{number}", leaf, user=user, groups=groups, partition=partition))
                self.note(partition, f"app-{number}", leaf)
            commands += [nodes(*there, rm=self.rm), apps(*new, rm=self.rm)]
        return commands

    def note(self, partition: str, app_id: str, queue: str) -> None:
        """An application is submitted to a queue; what comes later under its id is refused."""
        self.queues[partition].setdefault(app_id, queue)

    def rush(self, partition: str, now: float, draw: DrawAsk) -> list[Command]:
        """Some applications take what there is, and then those of another queue want theirs."""
        rng = self.rng
        name = partition.rpartition("]")[2]
        queues = self.queues[name]
        known = [*queues.values()]
        if len({*known}) < 2:
            return []
        favoured = self.settings.makers[name].favoured_leaves()
        due = rng.choice([queue for queue in known if queue in favoured] or known)
        greedy = [app_id for app_id, queue in queues.items() if queue != due]
        late = [app_id for app_id, queue in queues.items() if queue == due]
        most, few = rng.choice([4, 8, 16]), rng.choice([1, 3, 6])
        first = [draw(partition, now, rng.choice(greedy)) for _ in range(most)]
        then = [draw(partition, now, rng.choice(late)) for _ in range(few)]
        if rng.random() < 0.6:
            then = [replace(one, create_time=now - 6) for one in then]
        return [
            asks(*first, rm=self.rm),
            Tick(decisions=rng.choice([7, 256])),
            asks(*then, rm=self.rm),
            Tick(decisions=rng.choice([7, 256])),
        ]

    def with_terms(self, wanted: Ask) -> Ask:
        """The ask with what it says of preemption."""
        rng = self.rng
        if not self.share:
            return wanted
        return replace(
            wanted,
            allow_preempt_other=rng.random() < self.share,
            allow_preempt_self=rng.random() < 0.7,
            originator=rng.random() < 0.15,
            tags={"licorne/preemption-cost": rng.choice(COSTS)} if rng.random() < 0.3 else {},
        )
