"""Meter of one partition: amounts times time by queue, user and group, for accounting.

Usage is constant between two changes. So its integral up to a time `t` is `amount * t` minus the sum of
each change times its time, and a change costs two additions, however many allocations run. All is in whole
numbers: a petabyte for a month is exact.
"""

from licorne_core.events.allocations import Owner
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items

MOST_OWNERS = 5_000
"""Most combinations of queue, user and group; all others of a queue count for `OTHERS` together."""

MOST_QUEUES = 20_000
"""Most accounts, those of others included; beyond them everything counts for one."""

OTHERS = "(others)"
"""Stands for the user of those that have no account of their own."""


class Account:
    """What one owner has used."""

    __slots__ = ("amounts", "ended", "lost", "moments", "preempted")

    amounts: dict[str, int]
    """Present usage, by resource name."""
    moments: dict[str, int]
    """The sum of all changes times their times, in amounts times microseconds."""
    ended: int
    """Allocations that ended."""
    preempted: int
    """Those of them that were preempted."""
    lost: dict[str, int]
    """What these had used, in amounts times microseconds."""

    def __init__(self) -> None:
        """Start without usage."""
        self.amounts = {}
        self.moments = {}
        self.ended = 0
        self.preempted = 0
        self.lost = {}


class Meter:
    """What the allocations that the RM knows have used, by owner, since the partition was made."""

    __slots__ = ("_last", "accounts", "since")

    accounts: dict[Owner, Account]

    def __init__(self, now: float) -> None:
        """Start at a time in unix seconds."""
        self.since = now
        self.accounts = {}
        self._last = 0

    def time(self, now: float) -> int:
        """Microseconds from the start to `now`, or to the last change if that is later."""
        return max(self._last, round((now - self.since) * 1e6))

    def add(self, owner: Owner, items: Items, now: float) -> None:
        """The owner uses more."""
        self._change(self._account(owner), items, 1, now)

    def take(self, owner: Owner, items: Items, now: float) -> None:
        """The owner uses less, and no allocation has ended."""
        self._change(self._account(owner), items, -1, now)

    def end(self, owner: Owner, items: Items, begin: float, now: float, *, preempted: bool) -> None:
        """An allocation that began at `begin` has ended."""
        account = self._account(owner)
        account.ended += 1
        self._change(account, items, -1, now)
        if preempted:
            account.preempted += 1
            ran = round(max(0.0, now - begin) * 1e6)
            for name, value in items:
                account.lost[name] = account.lost.get(name, 0) + value * ran

    def _change(self, account: Account, items: Items, sign: int, now: float) -> None:
        time = self._last = self.time(now)
        amounts, moments = account.amounts, account.moments
        for name, value in items:
            change = sign * value
            amounts[name] = amounts.get(name, 0) + change
            moments[name] = moments.get(name, 0) + change * time

    def _account(self, owner: Owner) -> Account:
        account = self.accounts.get(owner)
        if account is not None:
            return account
        if len(self.accounts) >= MOST_OWNERS:
            # None is ever dropped, so that what began in an account ends there.
            of_queue, of_all = Owner(owner.queue, OTHERS, ""), Owner(QueuePath(OTHERS), OTHERS, "")
            owner = of_queue
            if of_queue not in self.accounts and len(self.accounts) >= MOST_QUEUES:
                owner = of_all
            account = self.accounts.get(owner)
            if account is not None:
                return account
        account = self.accounts[owner] = Account()
        return account
