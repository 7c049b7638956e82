"""Shortest first: the order in which applications pass planned starts.

With `backfill.order: shortest`, each fifo leaf has a second order of its applications (`SecondOrder`). It
applies once the maximum number of starts is planned: until then the next application in the usual order has
to get a planned start, and afterwards no application that is tried has one. Planned starts use declared
runtimes, so a wrong expectation here delays none of them.

The expected runtime of an application is the mean of its user's last two, and at most its declared one.
"""

from itertools import islice
from math import inf
from typing import Final

from licorne_core.config.schema import AppSortPolicy, PartitionConfig
from licorne_core.extensions.backfill import NAME, ORDER, ORDER_UNTIL, STANDARD_UNTIL, Backfill, PassOrder
from licorne_core.extensions.backfill.shadows import Shadows
from licorne_core.extensions.backfill.unplanned import LookBudget
from licorne_core.model.apps.application import Application
from licorne_core.model.claims import Claims
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.order import app_key
from licorne_core.values.ids import AppId
from licorne_core.values.ranking import Key, SecondOrder
from licorne_core.values.timers import Clock, Due, Timer, Timers
from licorne_core.views.audit.rules import require

TIMER: Final = Timer(Due.EXTENSION, name=NAME)

MOST_USERS: Final = 10_000
"""Maximum number of users with recorded runs; the user whose last end is the oldest is dropped."""

LAST: Final = 2
"""Number of recorded applications of a user, the latest; with fewer, no runtime is expected."""

MOST_KINDS: Final = 64
"""Maximum number of kinds of asks of an application whose declared runtimes count; with more, none counts."""

MOST_RANKED, COST_OF_A_RANK = 512, 5
"""Maximum number of applications that are ranked again after an end; the cost of each in a `LookBudget`."""

RANKED_AT_ONE: Final = 16
"""Number of applications ranked again at the cost of one deadline: a user may submit hundreds together."""

IN_ORDER: Final = -1.0
"""Runtime that stands for an application in the usual order, which is before all others."""


class UserRuns:
    """For the last applications of each user, the longest runtime of an allocation that has ended."""

    def __init__(self) -> None:
        """Start without runs."""
        self._runs: dict[str, dict[AppId, float]] = {}

    def learn(self, user: str, app_id: AppId, seconds: float) -> None:
        """Record the end of an allocation of an application."""
        runs = self._runs.pop(user, {})
        if not runs and len(self._runs) >= MOST_USERS:
            del self._runs[next(iter(self._runs))]
        self._runs[user] = runs
        runs[app_id] = max(seconds, runs.pop(app_id, 0.0))
        if len(runs) > LAST:
            del runs[next(iter(runs))]

    def expected(self, user: str) -> float:
        """The runtime of the next application of the user in seconds; inf for unknown."""
        runs = self._runs.get(user, {})
        return sum(runs.values()) / LAST if len(runs) == LAST else inf


class Passing:
    """The second orders of one partition, and their inputs.

    Always true: an application is among the waiting applications of its user if and only if it is in a second
    order. There it has a deadline until it is tried in the usual order.
    """

    def __init__(self, shadows: Shadows, claims: Claims, timers: Timers[Timer]) -> None:
        """Start without an order, as of `Backfill.OFF`."""
        self._shadows, self._claims = shadows, claims
        self.runs = UserRuns()
        self.budget = LookBudget()
        self.clock: Clock[Application] = Clock(timers, TIMER)
        self.is_on = False
        self._until = inf
        self._now = 0.0
        self._waiting: dict[str, dict[Application, None]] = {}
        """Applications in second orders, by user; the one that was ranked longest ago is first."""
        self._stale: dict[str, int] = {}
        """By user: number of applications that have still to be ranked again."""

    def configure(self, config: PartitionConfig) -> None:
        """Apply the settings of root; `follow` applies them to leaves."""
        settings = config.root.settings
        order: PassOrder | None = settings.of(ORDER)
        until: float = settings.of(ORDER_UNTIL, STANDARD_UNTIL)
        self.is_on = order is PassOrder.SHORTEST
        self._until = until or inf

    def follow(self, leaf: Queue) -> None:
        """Add or remove the second order of the leaf; after a change no application is ranked in it."""
        has_one = self.is_on and self._shadows.mode is not Backfill.OFF
        has_one = has_one and leaf.settings.app_sort is AppSortPolicy.FIFO
        if has_one != (leaf.ranking.second is not None):
            assert not len(leaf.ranking), f"{leaf!r} ranks applications"
            leaf.ranking.second = Passers(self) if has_one else None

    @property
    def leads(self) -> bool:
        """True while no further start may be planned."""
        return not self._shadows.has_room()

    def entered(self, app: Application) -> None:
        """Note an application in a second order."""
        self._waiting.setdefault(app.user.user, {})[app] = None
        if self._until < inf and not self._is_in_order(app):
            until = app.submission_time + self._until
            if self.clock.deadline(app) != until:
                self.clock.set(app, until)

    def left(self, app: Application) -> None:
        """Forget an application that is no longer in a second order."""
        waiting = self._waiting.get(app.user.user, {})
        if app in waiting:
            del waiting[app]
            self.clock.cancel(app)
            if not waiting:
                del self._waiting[app.user.user]
                self._stale.pop(app.user.user, None)

    def ended(self, app: Application, seconds: float, now: float) -> None:
        """Learn from the end of an allocation, and rank applications of its user again if their key changes.

        Applications beyond the budget are ranked after the next ends.
        """
        user = app.user.user
        before = self.runs.expected(user)
        self.runs.learn(user, app.app_id, seconds)
        if self.runs.expected(user) != before and user in self._waiting:
            self._stale[user] = len(self._waiting[user])
        most = MOST_RANKED
        while self._stale and most and self.budget.has(now):
            name, left = next(iter(self._stale.items()))
            waiting = self._waiting[name]
            left = min(left, len(waiting))
            count = min(left, most)
            for one in list(islice(waiting, count)):
                self._rekey(one)
                del waiting[one]
                waiting[one] = None
            self.budget.spend(COST_OF_A_RANK * count)
            most -= count
            if left > count:
                self._stale[name] = left - count
            else:
                del self._stale[name]

    def pass_time(self, now: float, most: int) -> int:
        """Rank applications whose wait for the usual order is over; return the cost."""
        self._now = now
        count = 0
        while count < most * RANKED_AT_ONE and (app := self.clock.take_due(now)) is not None:
            count += 1
            self._rekey(app)
        self.clock.arm()
        return 1 + count // RANKED_AT_ONE

    def key(self, app: Application) -> Key:
        """Sort key of the application in the second order of its leaf."""
        own, runtime = app_key(app, app.leaf), IN_ORDER
        if not self._is_in_order(app):
            runtime = min(_declared(app), self.runs.expected(app.user.user))
        if app.leaf.settings.priority_sort:
            return (own[0], runtime, *own[1:])
        units = app.gang.units
        return (float(units is not None and units.behind), runtime, *own)

    def check(self, app: Application) -> None:
        """Compare the second order of the application's leaf with the usual one, and with the deadlines."""
        usual, second = app.leaf.ranking, app.leaf.ranking.second
        order = usual if second is None else second.ranking
        is_known = app in self._waiting.get(app.user.user, {})
        require("S4", is_known == (second is not None and app in usual), f"{app!r} is known: {is_known}")
        alike = (app in usual, usual.is_active(app)) == (app in order, order.is_active(app))
        require("S4", alike, f"{app!r} has another state in the second order")
        due = not is_known or self._until == inf or self._is_in_order(app) or app in self.clock
        require("S4", due and self.clock.is_armed, f"{app!r} has no deadline")

    def _is_in_order(self, app: Application) -> bool:
        """True if the application was submitted long enough ago to be tried in the usual order."""
        return app.submission_time + self._until <= max(self._now, self._claims.now)

    def _rekey(self, app: Application) -> None:
        second = app.leaf.ranking.second
        if second is not None:
            second.ranking.rekey(app, self.key(app))


class Passers(SecondOrder[Application]):
    """The second order of one leaf."""

    def __init__(self, passing: Passing) -> None:
        """Start empty."""
        super().__init__()
        self._passing = passing

    @property
    def leads(self) -> bool:
        """True while no further start may be planned."""
        return self._passing.leads

    def key(self, item: Application) -> Key:
        """Sort key of the application, by its expected runtime."""
        return self._passing.key(item)

    def put(self, item: Application) -> None:
        """Rank the application by its expected runtime."""
        super().put(item)
        self._passing.entered(item)

    def discard(self, item: Application) -> None:
        """Remove the application, if ranked."""
        self.ranking.discard(item)
        self._passing.left(item)

    def clear(self) -> None:
        """Remove all applications."""
        for app in self.ranking.items():
            self._passing.left(app)
        self.ranking.clear()


def _declared(app: Application) -> float:
    """The longest declared runtime of its pending asks, in seconds; inf if one declares none."""
    if len(app.groups) > MOST_KINDS:
        return inf
    return max((group.ask_class.runtime for group in app.groups.values() if group.waiting), default=inf)
