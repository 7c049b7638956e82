"""Meter of one partition: amounts times time by queue, user and group, for accounting.

Usage is constant between two changes. So its integral up to a time `t` is `amount * t` minus the sum of
each change times its time, and a change costs two additions, however many allocations run. All numbers are
integers: a petabyte for a month is exact.
"""

from licorne_core.messages.events.allocations import Owner
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items, Resources

MOST_OWNERS = 5_000
"""Maximum number of combinations of queue, user and group; others of a queue share the name `OTHERS`."""

MOST_QUEUES = 20_000
"""Maximum number of accounts, including accounts of `OTHERS`; beyond it, one account counts everything."""

OTHERS = "(others)"
"""Stands for all users without an account of their own."""


class UsageAccount:
    """Usage of one owner over time."""

    __slots__ = ("amounts", "ended", "lost", "moments", "passing", "preempted")

    amounts: dict[str, int]
    """Current usage, by resource name."""
    moments: dict[str, int]
    """The sum of all changes times their times, in amounts times microseconds."""
    ended: int
    """Number of allocations that ended."""
    preempted: int
    """Number of ended allocations that were preempted."""
    lost: dict[str, int]
    """Usage of the preempted allocations, in amounts times microseconds."""
    passing: "UsageAccount | None"
    """The part of usage by allocations that passed a claim (`Allocation.passed`); None if there were none."""

    def __init__(self) -> None:
        """Start without usage."""
        self.amounts = {}
        self.moments = {}
        self.ended = 0
        self.preempted = 0
        self.lost = {}
        self.passing = None

    def change(self, items: Items, time: int, *, sign: int = 1) -> None:
        """Add amounts to the usage, or subtract them (`sign` is -1), at a time in microseconds."""
        for name, value in items:
            change = sign * value
            self.amounts[name] = self.amounts.get(name, 0) + change
            self.moments[name] = self.moments.get(name, 0) + change * time

    def of_passing(self) -> "UsageAccount":
        """The part of allocations that passed a claim."""
        found = self.passing or UsageAccount()
        self.passing = found
        return found

    def used(self, time: int) -> dict[str, int]:
        """Usage until a time, in amounts times microseconds."""
        return {name: value * time - self.moments[name] for name, value in self.amounts.items()}


class Meter:
    """Usage by owner, over the allocations that were sent to the RM since the creation of the partition."""

    accounts: dict[Owner, UsageAccount]
    last: int
    """Time of the last change, in microseconds since `since`."""

    def __init__(self, now: float) -> None:
        """Start at a time in unix seconds."""
        self.since = now
        self.accounts = {}
        self.last = 0

    def time(self, now: float) -> int:
        """Microseconds from the start to `now`, or to the last change if that is later."""
        return max(self.last, round((now - self.since) * 1e6))

    def change(self, owner: Owner, items: Items, now: float, *, passed: bool, sign: int = 1) -> None:
        """Add to the owner's usage, or subtract (`sign` is -1). `handlers/lifecycle.py` has it written out.

        If the allocation `passed` a claim, that part of the usage changes as well.
        """
        account = self.account_of(owner)
        time = self.last = self.time(now)
        account.change(items, time, sign=sign)
        if passed:
            account.of_passing().change(items, time, sign=sign)

    def move(self, owner: Owner, other: Owner, used: Resources, passing: Resources, now: float) -> None:
        """Assign all usage of an application to another owner from now on."""
        time = self.last = self.time(now)
        for account, sign in ((self.account_of(owner), -1), (self.account_of(other), 1)):
            account.change(tuple(used.items()), time, sign=sign)
            if passing:
                account.of_passing().change(tuple(passing.items()), time, sign=sign)

    def end(self, owner: Owner, allocation: Allocation, begin: float, now: float, *, preempted: bool) -> None:
        """Count an ended allocation; if it was preempted, its usage since `begin` counts as lost."""
        items = allocation.ask.ask_class.items
        self.change(owner, items, now, passed=allocation.passed is not None, sign=-1)
        account = self.account_of(owner)
        account.ended += 1
        if preempted:
            account.preempted += 1
            ran = round(max(0.0, now - begin) * 1e6)
            for name, value in items:
                account.lost[name] = account.lost.get(name, 0) + value * ran

    def account_of(self, owner: Owner) -> UsageAccount:
        """The account of an owner, or the common account of further owners of its queue.

        No account is ever dropped, so that an allocation ends in the account in which it began.
        """
        account = self.accounts.get(owner)
        if account is None and len(self.accounts) >= MOST_OWNERS:
            of_queue = Owner(owner.queue, OTHERS, "")
            is_full = of_queue not in self.accounts and len(self.accounts) >= MOST_QUEUES
            owner = Owner(QueuePath(OTHERS), OTHERS, "") if is_full else of_queue
            account = self.accounts.get(owner)
        if account is None:
            account = self.accounts[owner] = UsageAccount()
        return account
