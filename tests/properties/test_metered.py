"""The meter equals a plain integration over all allocations, in random worlds."""

from collections import Counter

import pytest

from licorne_core.messages.events.allocations import Owner
from licorne_core.model.apps.requests import ACCOUNTS, Account
from licorne_core.model.meter import Meter
from licorne_core.partitions.partition import Partition
from support.core.driver import Driver
from support.seeds import lively
from support.worlds import World
from support.worlds.playing import Players

Amounts = Counter[tuple[Owner, str]]


def running(partition: Partition) -> Amounts:
    """Amounts of all allocations sent to the RM, by owner and resource."""
    amounts: Amounts = Counter()
    for app in partition.applications.values():
        for request in app.requests.values():
            if Account.KNOWN in ACCOUNTS[request.state]:
                for name, value in request.ask.ask_class.items:
                    amounts[app.owner, name] += value
    return amounts


def metered(meter: Meter) -> Amounts:
    """Present amounts of the meter."""
    found: Amounts = Counter()
    for owner, account in meter.accounts.items():
        for name, value in account.amounts.items():
            found[owner, name] += value
    return +found


class Integration:
    """Adds up amount times time from one step to the next."""

    def __init__(self, meter: Meter) -> None:
        """Start with the partition."""
        self.meter = meter
        self.time = 0
        self.used: Amounts = Counter()
        self.before: Amounts = Counter()

    def go_on(self, partition: Partition, now: float) -> None:
        """Add the usage since the last step, and compare."""
        time = self.meter.time(now)
        for place, value in self.before.items():
            self.used[place] += value * (time - self.time)
        self.time, self.before = time, running(partition)
        assert metered(self.meter) == self.before
        for owner, account in self.meter.accounts.items():
            for name, value in account.amounts.items():
                assert value * time - account.moments[name] == self.used[owner, name], (owner, name)


@pytest.mark.worlds(first=5_300_000, one_in=16)
def test_the_meter_is_a_plain_integration(part: range) -> None:
    """After every step each owner has the integral of its allocations, to the microsecond."""
    steps = 0
    for seed in part:
        play, known = Players(Driver(sweep=10)), dict[Meter, Integration]()
        for step in World(seed).steps:
            play.step(step)
            for partition in play.driver.scheduler.partitions.values():
                found = known.setdefault(partition.meter, Integration(partition.meter))
                found.go_on(partition, play.driver.now)
                steps += bool(found.before)
    assert steps >= lively(len(part)), "the worlds are too quiet"
