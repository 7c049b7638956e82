"""The memory of one partition: decayed usage of queues and users, and budgets of resource-hours.

Accounts follow the books at the end of each command and turn (`settle`), for the applications whose
usage has changed meanwhile: all changes of one command have its time. An account outlives its queue: a
dynamic queue comes back with what was used under its name.
"""

from collections.abc import Iterator
from math import floor
from typing import Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.messages.fairness import (
    FairShareReport,
    HoursReport,
    KeptHours,
    KeptUsage,
    PartitionMemory,
    UsageOwner,
    microseconds_as_hours,
)
from licorne_core.model.apps.application import Application
from licorne_core.model.memory import MICROSECONDS, Decayed, HoursBudget, hours_of_due, weighted
from licorne_core.model.queues.queue import Queue
from licorne_core.values.ids import QueuePath
from licorne_core.values.resources import Items, Resources, add
from licorne_core.values.timers import Due, Timer, Timers
from licorne_core.values.windows import HOUR

MOST_IDLE: Final = 10_000
"""Accounts without a queue, or of users without an allocation: beyond these the oldest are forgotten."""

BRIDGED: Final = 600.0
"""Seconds that what was in use is taken to have gone on while no server knew of it."""

_PART: Final = 500
_HOURS: Final = Timer(Due.HOURS)


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

    __slots__ = (
        "_due",
        "_idle",
        "_kept_hours",
        "_seen",
        "_timers",
        "_users",
        "hours",
        "is_on",
        "leaves",
        "now",
        "parents",
        "step",
        "touched",
        "usage",
    )

    is_on: bool
    """True if a queue has a half-life or a budget."""
    now: float
    """Time of the last command or turn that changed usage, in unix seconds."""
    step: int
    """The second by which queues and users are ordered at present."""

    def __init__(self, timers: Timers[Timer], now: float) -> None:
        """Start without accounts."""
        self.is_on = False
        self.now = now
        self.step = floor(now)
        self.usage: dict[UsageOwner, Decayed] = {}
        self.hours: dict[tuple[QueuePath, str], HoursBudget] = {}
        self.parents: dict[Queue, None] = {}
        """Queues whose children are ordered by what they have used."""
        self.leaves: dict[Queue, None] = {}
        """Queues whose applications are ordered by what their users have used."""
        self.touched: dict[Application, Queue] = {}
        """Applications whose usage may have changed since the last `settle`, with their leaves."""
        self._seen: dict[Application, dict[str, int]] = {}
        self._idle: dict[UsageOwner, None] = {}
        self._users: dict[QueuePath, dict[UsageOwner, None]] = {}
        self._kept_hours: dict[tuple[QueuePath, str], KeptHours] = {}
        self._due: Timers[HoursBudget] = Timers()
        self._timers = timers

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
            queue.memory = None
            self._drop(owner)
        self._attach_order(queue, settings.half_life, now)
        self._attach_hours(queue, now)
        self.is_on = bool(self.parents or self.leaves or self.hours)

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
        """The users of a leaf have accounts of that half-life from now on; 0.0 for none."""
        for owner in list(self._users.get(leaf.path, ())):
            if half_life:
                self.usage[owner].halve_in(half_life, now)
            else:
                self._drop(owner)
        for app in leaf.applications.values():
            if half_life:
                self.touched[app] = leaf
            else:
                self._seen.pop(app, None)

    def _attach_hours(self, queue: Queue, now: float) -> None:
        before = {budget.limit.resource: budget for budget in queue.hours}
        found = []
        for limit in queue.settings.hours:
            key = (queue.path, limit.resource)
            budget = before.pop(limit.resource, None)
            if budget is None:
                budget = self.hours[key] = HoursBudget(queue.path, limit, now)
                kept = self._kept_hours.pop(key, None)
                if kept is not None:
                    budget.restore(kept, min(now, kept.time / MICROSECONDS + BRIDGED))
            elif budget.limit != limit:
                budget.change(limit, now)
            found.append(budget)
            budget.follow(queue.allocated.get(limit.resource, 0), now)
            self._plan(budget)
        for budget in before.values():
            del self.hours[queue.path, budget.limit.resource]
            self._due.cancel(budget)
        queue.hours = tuple(found)
        queue.has_hours = bool(found) or (queue.parent is not None and queue.parent.has_hours)
        self._arm()

    def detach(self, queue: Queue) -> None:
        """The queue is gone; what it has used is remembered."""
        self.parents.pop(queue, None)
        self.leaves.pop(queue, None)
        if queue.memory is not None:
            self._rests(UsageOwner(queue.path, ""))
        for budget in queue.hours:
            self._due.cancel(budget)
            key = (queue.path, budget.limit.resource)
            del self.hours[key]
            self._keep_hours(key, budget.kept(0.0))
        queue.hours = ()

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
        if len(self._idle) > MOST_IDLE:
            self._drop(next(iter(self._idle)))

    def _keep_hours(self, key: tuple[QueuePath, str], kept: KeptHours) -> None:
        """The same for the budget of a queue."""
        self._kept_hours[key] = kept
        if len(self._kept_hours) > MOST_IDLE:
            del self._kept_hours[next(iter(self._kept_hours))]

    # What follows from a command

    def settle(self, now: float) -> None:
        """Have all accounts follow the books: the applications that were touched had changes at `now`."""
        touched, self.touched = self.touched, {}
        self.now = now
        queues: dict[Queue, None] = {}
        for app, leaf in touched.items():
            if leaf.users is not None:
                self._follow_user(app, leaf, leaf.users, now)
            if leaf not in queues:
                queues.update(dict.fromkeys(leaf.lineage))
        planned = False
        for queue in queues:
            if queue.memory is not None:
                queue.memory.follow(queue.allocated, now)
            for budget in queue.hours:
                amount = queue.allocated.get(budget.limit.resource, 0)
                if amount != budget.amount:
                    budget.follow(amount, now)
                    self._plan(budget)
                    planned = True
        if planned:
            self._arm()

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

    # Time alone

    def pass_hours(self, now: float) -> list[HoursBudget]:
        """Follow the time; return the budgets of which a new window has begun, so that asks may go on."""
        opened = []
        while (budget := self._due.take_due(now)) is not None:
            if budget.follow(budget.amount, now) and not budget.spent:
                opened.append(budget)
            self._plan(budget)
        self._arm()
        return opened

    def hours_are_due(self, now: float) -> bool:
        """True if time has changed a budget that does not know it yet."""
        due = self._due.next_deadline()
        return due is not None and due <= now

    def _plan(self, budget: HoursBudget) -> None:
        at = budget.changes_at()
        if at is None:
            self._due.cancel(budget)
        else:
            self._due.set(budget, at)

    def _arm(self) -> None:
        due = self._due.next_deadline()
        if due is None:
            self._timers.cancel(_HOURS)
        elif due != self._timers.deadline(_HOURS):
            self._timers.set(_HOURS, due)

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

    def kept(self, now: float) -> Iterator[PartitionMemory | None]:
        """What is to be remembered as of `now`, after a None wherever the reader may pause.

        Of those that use nothing it is the same until something changes.
        """
        usage: dict[UsageOwner, KeptUsage] = {}
        for number, (owner, account) in enumerate(list(self.usage.items()), 1):
            time = max(now, account.time) if account.amounts else account.time
            usage[owner] = KeptUsage(account.half_life, time, account.at(time), dict(account.amounts))
            if not number % _PART:
                yield None
        hours = dict(self._kept_hours)
        hours.update({key: budget.kept(now) for key, budget in self.hours.items()})
        yield PartitionMemory(usage=usage, hours=hours)

    def restore(self, memory: PartitionMemory, now: float) -> None:
        """Remember what was kept, before any queue is attached."""
        for owner, kept in memory.usage.items():
            account = Decayed(kept.half_life, min(kept.time, now))
            account.values, account.amounts = dict(kept.values), dict(kept.amounts)
            account.follow({}, min(now, account.time + BRIDGED))
            self._put(owner, account)
            self._rests(owner)
        for key, hours in memory.hours.items():
            self._keep_hours(key, hours)


def usage_report(account: Decayed, divisors: Resources, weight: float, now: float) -> FairShareReport:
    """An account as of `now`, or of the last change if that is later."""
    sums = account.at(now)
    return FairShareReport(
        decayed={name: value / HOUR for name, value in sorted(sums.items()) if value},
        share=weighted(hours_of_due(sums, divisors), weight),
        weight=weight,
        half_life=account.half_life,
    )


def hours_report(budget: HoursBudget, now: float) -> HoursReport:
    """A budget as of `now`, or of the last change if that is later."""
    span, used = budget.at(now)
    return HoursReport(
        resource=budget.limit.resource,
        limit=float(budget.limit.amount),
        used=microseconds_as_hours(used),
        left=microseconds_as_hours(budget.most - used),
        window=float(span.end - span.begin),
        resets_at=float(span.end),
        spent=used >= budget.most,
    )


def spent_budget(leaf: Queue, items: Items) -> HoursBudget | None:
    """The first used-up budget, from the leaf up, of a resource among the items; None for none."""
    for queue in leaf.lineage:
        for budget in queue.hours:
            if budget.spent:
                for name, value in items:
                    if value and name == budget.limit.resource:
                        return budget
    return None


def settings_are_fair(leaf: Queue) -> bool:
    """True if the applications of the leaf are ordered fairly."""
    return leaf.settings.app_sort is AppSortPolicy.FAIR
