"""The meter equals a plain integration over all allocations, in random worlds."""

from collections import Counter

import pytest

from licorne_core.messages.events.allocations import Owner
from licorne_core.model.apps.requests import ACCOUNTS, Account
from licorne_core.model.meter import Meter, UsageAccount
from licorne_core.partitions.partition import Partition
from support.core.driver import Driver
from support.seeds import lively
from support.worlds import World
from support.worlds.playing import Players

Amounts = Counter[tuple[Owner, str]]


def accounts(meter: Meter, *, passing: bool) -> dict[Owner, UsageAccount]:
    """The accounts of the meter by owner: of all allocations, or only of backfilled ones."""
    if not passing:
        return meter.accounts
    return {owner: one.passing for owner, one in meter.accounts.items() if one.passing is not None}


def running(partition: Partition, *, passing: bool) -> Amounts:
    """The amounts of allocations that the RM knows, all or only backfilled ones, by owner and resource."""
    amounts: Amounts = Counter()
    for app in partition.applications.values():
        for request in app.requests.values():
            counts = Account.KNOWN in ACCOUNTS[request.state]
            if counts and not (passing and (request.allocation is None or request.allocation.passed is None)):
                for name, value in request.ask.ask_class.items:
                    amounts[app.owner, name] += value
    return amounts


def metered(meter: Meter, *, passing: bool) -> Amounts:
    """The present non-zero amounts of the meter, by owner and resource."""
    found: Amounts = Counter()
    for owner, account in accounts(meter, passing=passing).items():
        for name, value in account.amounts.items():
            found[owner, name] += value
    return +found


class Integration:
    """Sums of amount times time over all steps, of all allocations or only of backfilled ones."""

    def __init__(self, meter: Meter, *, passing: bool) -> None:
        """Start at time 0 without usage."""
        self.meter = meter
        self.passing = passing
        self.time = 0
        self.used: Amounts = Counter()
        self.before: Amounts = Counter()

    def go_on(self, partition: Partition, now: float) -> None:
        """Add the usage since the last step, and compare."""
        time = self.meter.time(now)
        for place, value in self.before.items():
            self.used[place] += value * (time - self.time)
        self.time, self.before = time, running(partition, passing=self.passing)
        assert metered(self.meter, passing=self.passing) == self.before
        for owner, account in accounts(self.meter, passing=self.passing).items():
            for name, value in account.amounts.items():
                assert value * time - account.moments[name] == self.used[owner, name], (owner, name)


@pytest.mark.worlds(first=5_300_000, one_in=16)
def test_the_meter_equals_a_plain_integration(part: range) -> None:
    """After every step the meter has the same usage per owner, in total and of backfilled allocations."""
    steps = 0
    for seed in part:
        play, known = Players(Driver(sweep=10)), dict[tuple[Meter, bool], Integration]()
        for step in World(seed, backfill=0.5).steps:
            play.step(step)
            for partition in play.driver.scheduler.partitions.values():
                meter = partition.meter
                for passing in (False, True):
                    found = known.setdefault((meter, passing), Integration(meter, passing=passing))
                    found.go_on(partition, play.driver.now)
                    steps += bool(found.before)
    assert steps >= lively(len(part)), "the worlds are too quiet"
