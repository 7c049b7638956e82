"""The state of the core can be derived from its events (spec § 12.1)."""

from collections.abc import Iterator, Mapping, Sequence

import pytest

from licorne_core.messages.commands import Command, Tick
from licorne_core.messages.effects import Happened, Registered
from licorne_core.partitions.partition import Partition
from licorne_core.scheduler import Scheduler
from support.core.replicas import Listener, asks_of, cancelled_of, last_of, stopping_of, sums_of
from support.seeds import lively
from support.worlds import Step, World

SEEDS = 5_000_000


class Play:
    """A core with a listener for each of its RMs."""

    def __init__(self) -> None:
        """Start without RMs."""
        self.scheduler = Scheduler()
        self.listeners: dict[str, Listener] = {}
        self.heard = 0

    def commands(self, script: Sequence[Step]) -> Iterator[tuple[float, Command]]:
        """The commands of a script; a step without a command becomes ticks until the core is idle."""
        for now, command in script:
            if command is not None:
                yield now, command
                continue
            while (deadline := self.scheduler.next_deadline()) is not None and deadline <= now:
                yield now, Tick(decisions=5)

    def step(self, command: Command, now: float) -> None:
        """Carry out a command, pass its events to the listeners, and compare their books."""
        for effect in self.scheduler.handle(command, now):
            if isinstance(effect, Registered):
                self.listeners[effect.rm_id] = Listener()
            elif isinstance(effect, Happened):
                for fact in effect.facts:
                    records = fact.records()
                    assert len(records) == fact.count, fact
                    assert all(record.time == now for record in records), fact
                    self.listeners[effect.rm_id].hear(records)
                    self.heard += fact.count
        for rm_id, listener in self.listeners.items():
            partitions = self.scheduler.partitions.values()
            own = [partition for partition in partitions if partition.rm_id == rm_id]
            if own:
                check(own, listener)


def check(partitions: Sequence[Partition], listener: Listener) -> None:
    """Check that the listener's books equal those of the RM's partitions."""
    sums = sums_of(partitions)
    assert {key: value for key, value in listener.sums.items() if value} == sums
    listener.several = listener.several or len(partitions) > 1
    if not listener.several:
        # Events name no partition, so the last event is compared only for RMs with one partition.
        (partition,) = partitions
        assert without_empty(listener.last) == without_empty(last_of(partition))
        assert listener.asks == asks_of(partition)
        assert cancelled_of(partition) <= listener.cancelled <= stopping_of(partition)


def without_empty(found: dict[tuple[str, str], object]) -> dict[tuple[str, str], object]:
    """The state without zero amounts, because events report a zero only after a larger amount."""
    amounts = {
        key: {name: amount for name, amount in value.items() if amount}
        if isinstance(value, Mapping)
        else value
        for key, value in found.items()
    }
    return {key: value for key, value in amounts.items() if value != {}}


@pytest.mark.worlds(first=SEEDS, one_in=4)
def test_a_listener_keeps_the_same_books(part: range) -> None:
    """After every step a listener derives the same queues, nodes, usage, allocations, asks and states."""
    heard = 0
    for seed in part:
        play = Play()
        script = World(seed, budgets=False).steps
        for number, (now, command) in enumerate(play.commands(script)):
            try:
                play.step(command, now)
            except AssertionError as error:
                raise AssertionError(f"world {seed}, step {number}, {command}: {error}") from error
        heard += play.heard
    assert heard >= 80 * lively(len(part)), f"the worlds are too quiet: {heard} events"
