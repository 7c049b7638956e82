"""The memory of one partition: decayed usage of queues and users.

Accounts follow the books at the end of each command and turn (`settle`), for the applications whose
usage has changed meanwhile: all changes of one command have its time. An account outlives its queue: a
dynamic queue comes back with what was used under its name.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import floor
from typing import Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.messages.fairness import FairShareReport, KeptUsage, UsageOwner
from licorne_core.messages.kept import BRIDGED, MOST_KEPT
from licorne_core.model.apps.application import Application
from licorne_core.model.memory import Decayed, hours_of_due, weighted
from licorne_core.model.queues.queue import Queue
from licorne_core.model.usage import Usage
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Resources, add
from licorne_core.values.windows import HOUR

_PART: Final = 500

FOLLOWS: Final = 1 << 30


class UserShares:
    """Users of one leaf by what they have used."""

    __slots__ = ("_shares", "half_life", "path")

    def __init__(self, shares: "FairShares", path: QueuePath, half_life: float) -> None:
        """Read the accounts of the leaf."""
        self._shares = shares
        self.path = path
        self.half_life = half_life

    def account(self, user: str) -> Decayed | None:
        """The account of a user; None for one that has used nothing."""
        return self._shares.usage.get(UsageOwner(self.path, user))

    def share(self, user: str, divisors: Resources) -> float:
        """The share of a user, as of the present second."""
        account = self.account(user)
        return 0.0 if account is None else self._shares.share(account, divisors)


class FairShares:
    """All accounts of one partition.

    Always true after `settle`: the amounts of each account are those of the books.
    """

    is_on: bool
    """True if a queue has a half-life."""
    step: int
    """The second by which queues and users are ordered at present."""

    def __init__(self, touched: Usage, now: float) -> None:
        """Start without accounts."""
        self.is_on = False
        self._touched = touched
        self.step = floor(now)
        self.usage: dict[UsageOwner, Decayed] = {}
        self.parents: dict[Queue, None] = {}
        """Queues whose children are ordered by what they have used."""
        self.leaves: dict[Queue, None] = {}
        """Queues whose applications are ordered by what their users have used."""
        self._seen: dict[Application, dict[str, int]] = {}
        self._idle: dict[UsageOwner, None] = {}
        self._users: dict[QueuePath, dict[UsageOwner, None]] = {}

    # What queues have

    def attach(self, queue: Queue, now: float) -> None:
        """Give a queue what its settings ask for; its parent has it already."""
        parent, settings = queue.parent, queue.settings
        half_life = 0.0 if parent is None else parent.settings.half_life
        owner = UsageOwner(queue.path, "")
        if half_life:
            account = self._account(owner, half_life, now)
            account.follow(queue.allocated, now)
            queue.memory, queue.fair_step = account, -1
            self._idle.pop(owner, None)
        elif queue.memory is not None:
            queue.memory.follow({}, now)
            queue.memory = None
            self._rests(owner)
        self._attach_order(queue, settings.half_life, now)
        self.is_on = bool(self.parents or self.leaves)
        self._touched.follow(FOLLOWS, on=self.is_on)

    def _attach_order(self, queue: Queue, half_life: float, now: float) -> None:
        by_user = queue.is_leaf and settings_are_fair(queue)
        self.parents.pop(queue, None)
        self.leaves.pop(queue, None)
        former = queue.users
        queue.users = None
        if half_life and not queue.is_leaf:
            self.parents[queue] = None
        elif half_life and by_user:
            self.leaves[queue] = None
            queue.users = UserShares(self, queue.path, half_life)
        wanted = half_life if queue.users is not None else 0.0
        if wanted != (former.half_life if former is not None else 0.0):
            self._attach_users(queue, wanted, now)

    def _attach_users(self, leaf: Queue, half_life: float, now: float) -> None:
        """The users of a leaf have accounts of that half-life from now on; 0.0: theirs rest."""
        for owner in list(self._users.get(leaf.path, ())):
            if half_life:
                self.usage[owner].halve_in(half_life, now)
            else:
                self.usage[owner].follow({}, now)
                self._rests(owner)
        for app in leaf.applications.values():
            if half_life:
                self._touched.touched[app] = leaf
            else:
                self._seen.pop(app, None)

    def detach(self, queue: Queue) -> None:
        """The queue is gone; what it has used is remembered."""
        self.parents.pop(queue, None)
        self.leaves.pop(queue, None)
        if queue.memory is not None:
            self._rests(UsageOwner(queue.path, ""))

    def _account(self, owner: UsageOwner, half_life: float, now: float) -> Decayed:
        account = self.usage.get(owner)
        if account is None:
            account = Decayed(half_life, now)
            self._put(owner, account)
        else:
            account.halve_in(half_life, now)
        return account

    def _put(self, owner: UsageOwner, account: Decayed) -> None:
        self.usage[owner] = account
        if owner.user:
            self._users.setdefault(owner.path, {})[owner] = None

    def _drop(self, owner: UsageOwner) -> None:
        del self.usage[owner]
        self._idle.pop(owner, None)
        if owner.user:
            users = self._users[owner.path]
            del users[owner]
            if not users:
                del self._users[owner.path]

    def _rests(self, owner: UsageOwner) -> None:
        """The account is of use again if its owner comes back; of too many the oldest goes."""
        self._idle[owner] = None
        if len(self._idle) > MOST_KEPT:
            self._drop(next(iter(self._idle)))

    # What follows from a command

    def settle(self, touched: Mapping[Application, Queue], queues: Iterable[Queue], now: float) -> None:
        """Have all accounts follow the books: usage of these changed at `now`."""
        for app, leaf in touched.items():
            if leaf.users is not None:
                self._follow_user(app, leaf, leaf.users, now)
        for queue in queues:
            if queue.memory is not None:
                queue.memory.follow(queue.allocated, now)

    def _follow_user(self, app: Application, leaf: Queue, users: UserShares, now: float) -> None:
        used = add(app.allocated, app.placeholder_allocated)
        before = self._seen.get(app, {})
        if used == before:
            return
        if any(used.values()):
            self._seen[app] = used
        else:
            self._seen.pop(app, None)
        owner = UsageOwner(leaf.path, app.user.user)
        account = self._account(owner, users.half_life, now)
        amounts = dict(account.amounts)
        for name in before.keys() | used.keys():
            amounts[name] = amounts.get(name, 0) + used.get(name, 0) - before.get(name, 0)
        account.follow(amounts, now)
        if account.amounts:
            self._idle.pop(owner, None)
        else:
            self._rests(owner)

    def share(self, account: Decayed, divisors: Resources) -> float:
        """The share of an account, as of the present second."""
        if account.step != self.step:
            account.step = self.step
            share = hours_of_due(account.at_step(self.step), divisors)
            # Rounding must not decide: neither the last digits nor the library that makes them.
            account.share = float(f"{share:.10g}")
        return account.share

    def weigh(self, queue: Queue) -> None:
        """Derive what the queue is ordered by, as of the present second."""
        assert queue.memory is not None, f"{queue!r} has no memory"
        queue.fair = weighted(self.share(queue.memory, queue.denominators), queue.settings.weight)
        queue.fair_step = self.step

    def forget_shares(self) -> None:
        """Shares have to be derived anew, as what is due is another."""
        for account in self.usage.values():
            account.step = -1
        for parent in self.parents:
            for queue in parent.children.values():
                queue.fair_step = -1

    def forget_share_of(self, leaf: Queue) -> None:
        """The same for one leaf and its users."""
        leaf.fair_step = -1
        if leaf.memory is not None:
            leaf.memory.step = -1
        for owner in self._users.get(leaf.path, ()):
            self.usage[owner].step = -1

    # What is told

    def kept(self, now: float) -> Iterator[Mapping[UsageOwner, KeptUsage] | None]:
        """What is to be remembered as of `now`, after a None wherever the reader may pause.

        Of those that use nothing it is the same until something changes.
        """
        usage: dict[UsageOwner, KeptUsage] = {}
        for number, (owner, account) in enumerate(list(self.usage.items()), 1):
            time = max(now, account.time) if account.amounts else account.time
            before = account.at_step(floor(time))
            usage[owner] = KeptUsage(account.half_life, time, account.at(time), dict(account.amounts), before)
            if not number % _PART:
                yield None
        yield usage

    def restore(self, kept: Mapping[UsageOwner, KeptUsage], now: float) -> Iterator[int]:
        """Remember what was kept, before any queue is attached; each step yields its cost."""
        for number, (owner, one) in enumerate(kept.items(), 1):
            account = Decayed(one.half_life, min(one.time, now))
            account.values, account.amounts = dict(one.values), dict(one.amounts)
            account.before = dict(one.before)
            account.follow({}, min(now, account.time + BRIDGED))
            self._put(owner, account)
            self._rests(owner)
            if not number % _PART:
                yield _PART


def usage_report(account: Decayed, divisors: Resources, weight: float, now: float) -> FairShareReport:
    """An account as of `now`, or of the last change if that is later."""
    sums = account.at(now)
    return FairShareReport(
        decayed={name: value / HOUR for name, value in sorted(sums.items()) if value},
        share=weighted(hours_of_due(sums, divisors), weight),
        weight=weight,
        half_life=account.half_life,
    )


def settings_are_fair(leaf: Queue) -> bool:
    """True if the applications of the leaf are ordered fairly."""
    return leaf.settings.app_sort is AppSortPolicy.FAIR
