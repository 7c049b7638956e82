"""The memory of one partition: decayed usage of queues and users.

At the end of each command and turn, the accounts take over the usage of applications and queues whose usage
has changed. All changes of one command count from its time. An account outlives its queue: a dynamic queue
that is created again has the usage stored under its name.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import floor
from typing import Any, Final

from licorne_core.config.schema import AppSortPolicy
from licorne_core.extensions.fair_memory import NAME, STANDARD_WEIGHT, WEIGHT
from licorne_core.extensions.fair_memory.decayed import Decayed, hours_of_due, weighted
from licorne_core.extensions.fair_memory.messages import KeptUsage, UsageOwner
from licorne_core.extensions.fair_memory.recount import check_accounts, check_users
from licorne_core.messages.kept import BRIDGED, MOST_KEPT
from licorne_core.model.apps.application import Application
from licorne_core.model.queues.queue import Precedence, Queue
from licorne_core.points import Extension, Former
from licorne_core.scheduling.rules import CheckContext
from licorne_core.values.ids import AppId, QueuePath
from licorne_core.values.resources import Resources, add

_PART: Final = 500


class PastQueueUsage(Precedence):
    """Past usage of a queue, which orders it among its siblings."""

    __slots__ = ("_fair", "_memory", "_step", "account")

    def __init__(self, memory: "FairMemory", account: Decayed) -> None:
        """Use the account of the queue."""
        self._memory = memory
        self._fair = 0.0
        self._step = -1
        self.account = account

    def of_queue(self, queue: Queue) -> float:
        """Decayed usage relative to entitlement and weight, as of the current second."""
        memory = self._memory
        if self._step != memory.step:
            self._fair = weighted(memory.share(self.account, queue.denominators), weight_of(queue))
            self._step = memory.step
        return self._fair

    def forget(self) -> None:
        """Drop the share, because the entitlement of the queue has changed."""
        self._step = self.account.step = -1


class UserShares(Precedence):
    """Users of one leaf, ordered by their past usage."""

    __slots__ = ("_memory", "half_life", "path")

    def __init__(self, memory: "FairMemory", path: QueuePath, half_life: float) -> None:
        """Use the accounts of the leaf."""
        self._memory = memory
        self.path = path
        self.half_life = half_life

    def account(self, user: str) -> Decayed | None:
        """The account of a user; None if the user has no past usage."""
        return self._memory.usage.get(UsageOwner(self.path, user))

    def of_user(self, user: str, leaf: Queue) -> float:
        """The share of a user, as of the current second."""
        account = self.account(user)
        return 0.0 if account is None else self._memory.share(account, leaf.denominators)

    def forget(self) -> None:
        """Drop the shares, because the entitlement of the leaf has changed."""
        self._memory.forget_users(self.path)


class FairMemory(Extension):
    """All accounts of one partition.

    Always true after `settle`: the amounts of each account equal those of the books.
    """

    step: int
    """The second whose usage currently orders queues and users."""

    def __init__(self, name: str, bit: int, context: CheckContext) -> None:
        """Start without accounts."""
        super().__init__(name, bit, context)
        self.step = floor(context.dirty.usage.time)
        self.usage: dict[UsageOwner, Decayed] = {}
        self.parents: dict[Queue, None] = {}
        """Queues whose children are ordered by past usage."""
        self.leaves: dict[Queue, None] = {}
        """Leaves whose users are ordered by past usage."""
        self._seen: dict[Application, dict[str, int]] = {}
        self._idle: dict[UsageOwner, None] = {}
        self._users: dict[QueuePath, dict[UsageOwner, None]] = {}

    # Accounts of queues

    def settled(self, queue: Queue, before: Former | None, now: float) -> None:
        """Create the accounts that the settings of a queue require; those of its parent exist already."""
        half_life = 0.0 if queue.parent is None else half_life_of(queue.parent)
        owner = UsageOwner(queue.path, "")
        former = self.account_of(queue)
        if half_life:
            account = self._account(owner, half_life, now)
            account.follow(queue.allocated, now)
            queue.precedence = PastQueueUsage(self, account)
            self._idle.pop(owner, None)
        elif former is not None:
            former.follow({}, now)
            queue.precedence = None
            self._detach(owner)
        self._attach_order(queue, half_life_of(queue), now)
        self.dirty.usage.track(self.bit, on=bool(self.parents or self.leaves))

    def account_of(self, queue: Queue) -> Decayed | None:
        """The account of a queue; None if its siblings are not ordered by past usage."""
        precedence = queue.precedence
        return precedence.account if isinstance(precedence, PastQueueUsage) else None

    def users_of(self, leaf: Queue) -> UserShares | None:
        """The users of a leaf that are ordered by past usage; None if they are not."""
        precedence = leaf.precedence_inside
        return precedence if isinstance(precedence, UserShares) else None

    def _attach_order(self, queue: Queue, half_life: float, now: float) -> None:
        by_user = queue.is_leaf and _is_fair(queue)
        self.parents.pop(queue, None)
        self.leaves.pop(queue, None)
        former = self.users_of(queue)
        queue.precedence_inside = users = None
        if half_life and not queue.is_leaf:
            self.parents[queue] = None
        elif half_life and by_user:
            self.leaves[queue] = None
            queue.precedence_inside = users = UserShares(self, queue.path, half_life)
        wanted = half_life if users is not None else 0.0
        if wanted != (former.half_life if former is not None else 0.0):
            self._attach_users(queue, wanted, now)

    def _attach_users(self, leaf: Queue, half_life: float, now: float) -> None:
        """Create accounts with this half-life for the users of a leaf; with 0.0, detach their accounts."""
        for owner in list(self._users.get(leaf.path, ())):
            if half_life:
                self.usage[owner].halve_in(half_life, now)
            else:
                self.usage[owner].follow({}, now)
                self._detach(owner)
        for app in leaf.applications.values():
            if half_life:
                self.dirty.usage.touched[app] = leaf
            else:
                self._seen.pop(app, None)

    def removed(self, queue: Queue) -> None:
        """Keep the account of a removed queue."""
        self.parents.pop(queue, None)
        self.leaves.pop(queue, None)
        if self.account_of(queue) is not None:
            self._detach(UsageOwner(queue.path, ""))
        self.dirty.usage.track(self.bit, on=bool(self.parents or self.leaves))

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

    def _detach(self, owner: UsageOwner) -> None:
        """Retain an account without its owner, who may exist again later; drop the oldest of too many."""
        self._idle[owner] = None
        if len(self._idle) > MOST_KEPT:
            self._drop(next(iter(self._idle)))

    # After a command

    def settle(self, touched: Mapping[Application, Queue], queues: Sequence[Queue], now: float) -> None:
        """Update all accounts from the books."""
        for app, leaf in touched.items():
            users = self.users_of(leaf)
            if users is not None:
                self._follow_user(app, leaf, users, now)
        for queue in queues:
            account = self.account_of(queue)
            if account is not None:
                account.follow(queue.allocated, now)

    def begin(self, now: float) -> bool:
        """Order by the usage up to the current second; only while accounts exist."""
        step = floor(now)
        if step != self.step:
            self.step = step
            for queue in (*self.parents, *self.leaves):
                self.dirty.ranks.rekey(queue)
        return True

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
            self._detach(owner)

    def share(self, account: Decayed, divisors: Resources) -> float:
        """The share of an account, as of the current second."""
        if account.step != self.step:
            account.step = self.step
            share = hours_of_due(account.at_step(self.step), divisors)
            # Neither the last digits nor the mathematical library may affect the order.
            account.share = float(f"{share:.10g}")
        return account.share

    def forget_users(self, path: QueuePath) -> None:
        """Drop the shares of the users of a leaf, because their entitlement has changed."""
        for owner in self._users.get(path, ()):
            self.usage[owner].step = -1

    # Retained usage

    def retained(self, now: float) -> Iterator[Mapping[Any, Any] | None]:
        """Usage to retain as of `now`, after a None wherever the reader may pause.

        An account without current usage is unchanged until its usage changes.
        """
        usage: dict[UsageOwner, KeptUsage] = {}
        for number, (owner, account) in enumerate(list(self.usage.items()), 1):
            time = max(now, account.time) if account.amounts else account.time
            before = account.at_step(floor(time))
            usage[owner] = KeptUsage(account.half_life, time, account.at(time), dict(account.amounts), before)
            if not number % _PART:
                yield None
        yield usage

    def restore(self, kept: Mapping[Any, Any], now: float) -> Iterator[int]:
        """Restore retained usage, before any queue is attached; each step yields its cost."""
        usage: Mapping[UsageOwner, KeptUsage] = kept
        for number, (owner, one) in enumerate(usage.items(), 1):
            account = Decayed(one.half_life, min(one.time, now))
            account.values, account.amounts = dict(one.values), dict(one.amounts)
            account.before = dict(one.before)
            account.follow({}, min(now, account.time + BRIDGED))
            self._put(owner, account)
            self._detach(owner)
            if not number % _PART:
                yield _PART

    # Removal and checks

    def dispose(self) -> Iterator[int]:
        """Drop references to queues and applications."""
        for known in (self.parents, self.leaves):
            while known:
                known.popitem()
                yield 1
        while self._seen:
            self._seen.popitem()
            yield 1

    def recount(self, applications: Mapping[AppId, Application], *, settled: bool) -> None:
        """Compare all accounts with settings and books (`recount.py`)."""
        accounts = {queue: self.account_of(queue) for queue in self.context.tree.all()}
        check_accounts(accounts, settled=settled)
        check_users({leaf: users.account for leaf in self.leaves if (users := self.users_of(leaf))})


def half_life_of(queue: Queue) -> float:
    """Half-life of the usage of children or users, in seconds; 0.0 if usage is not remembered."""
    half_life: float | None = queue.settings.of(NAME)
    return half_life or 0.0


def weight_of(queue: Queue) -> float:
    """The divisor of the queue's decayed usage."""
    weight: float | None = queue.settings.of(WEIGHT)
    return STANDARD_WEIGHT if weight is None else weight


def _is_fair(leaf: Queue) -> bool:
    """True if the applications of the leaf are ordered fairly."""
    return leaf.settings.app_sort is AppSortPolicy.FAIR


KIND: Final = FairMemory
