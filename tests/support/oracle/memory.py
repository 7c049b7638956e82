"""Usage over time: every interval with the amounts in use, summed for each decision."""

from copy import copy
from math import floor, log
from typing import NamedTuple

from support.oracle.books import Amounts, AppRecord, total
from support.oracle.queues import QueueRecord, lineage

Owner = tuple[str, str]
"""The path of a queue, or the path of a leaf and a user."""

WINDOWS = {"hour": 3600, "day": 86400, "week": 604800}
MONDAY = 4 * 86400


class Stretch(NamedTuple):
    """The amounts of an owner over an interval, in Unix seconds."""

    begin: float
    end: float
    amounts: Amounts


class Account:
    """The intervals of one owner; `opening` is the decayed usage at the begin of the first.

    `former` is the account under the previous half-life, if there was one.
    """

    def __init__(self, half_life: float, now: float) -> None:
        """Start without usage."""
        self.half_life = half_life
        self.begin = now
        self.opening: dict[str, float] = {}
        self.stretches: list[Stretch] = []
        self.former: Account | None = None

    def decayed(self, time: float) -> dict[str, float]:
        """Amounts times seconds, halved for every half-life that has passed since."""
        if self.former is not None and time < self.begin:
            return self.former.decayed(time)
        sums = {
            name: value * 0.5 ** (max(0.0, time - self.begin) / self.half_life)
            for name, value in self.opening.items()
        }
        for stretch in self.stretches:
            if stretch.begin >= time:
                continue
            end = min(stretch.end, time)
            since = 0.5 ** ((time - end) / self.half_life)
            before = 0.5 ** ((time - stretch.begin) / self.half_life)
            for name, amount in stretch.amounts.items():
                gained = amount * (since - before) * self.half_life / log(2)
                sums[name] = sums.get(name, 0.0) + gained
        return sums

    def start_over(self, half_life: float, now: float) -> None:
        """Use another half-life from now on; the present value remains."""
        if half_life != self.half_life:
            self.former = copy(self)
            self.opening, self.begin = self.decayed(now), now
            self.half_life, self.stretches = half_life, []


class Memory:
    """The past usage of one partition."""

    def __init__(self) -> None:
        """Start without usage."""
        self.time: float | None = None
        self.accounts: dict[Owner, Account] = {}
        self.hours: dict[tuple[str, str, str], list[Stretch]] = {}

    def advance(self, queues: dict[str, QueueRecord], apps: dict[str, AppRecord], now: float) -> None:
        """Extend the present usage to now, if a queue has a half-life or a budget of hours."""
        last, self.time = self.time, now
        if not any(queue.half_life or budgets(queue) for queue in queues.values()):
            return
        self._open(queues, now)
        for app in apps.values():
            self._open_user(queues, app, now)
        if last is None or now <= last:
            return
        for (path, user), account in self.accounts.items():
            if path in queues and _half_life(queues, path, user):
                account.stretches.append(Stretch(last, now, _in_use(apps, path, user)))
        for (path, *budget), stretches in self.hours.items():
            if path in queues and budget in [[*one[:2]] for one in budgets(queues[path])]:
                stretches.append(Stretch(last, now, _in_use(apps, path, "")))

    def follow(self, queues: dict[str, QueueRecord], now: float) -> None:
        """Apply other settings of queues; windows of another kind begin without usage."""
        for path, resource, window in list(self.hours):
            windows = (
                [one[1] for one in budgets(queues[path]) if one[0] == resource] if path in queues else []
            )
            if windows not in ([], [window]):
                del self.hours[path, resource, window]
        self.time = now
        self._open(queues, now)

    def _open(self, queues: dict[str, QueueRecord], now: float) -> None:
        """Create accounts for all queues that need one, and for their users."""
        for path, queue in queues.items():
            half_life = _half_life(queues, path, "")
            if half_life:
                self.accounts.setdefault((path, ""), Account(half_life, now)).start_over(half_life, now)
            for resource, window, _ in budgets(queue):
                self.hours.setdefault((path, resource, window), [])
        for (path, user), account in self.accounts.items():
            half_life = _half_life(queues, path, user) if path in queues else 0.0
            if half_life:
                account.start_over(half_life, now)

    def _open_user(self, queues: dict[str, QueueRecord], app: AppRecord, now: float) -> None:
        half_life = _half_life(queues, app.queue, app.user)
        if half_life:
            self.accounts.setdefault((app.queue, app.user), Account(half_life, now))

    def share(self, path: str, user: str, due: Amounts, now: float) -> float:
        """The usage in hours of the share, up to the last whole second: the maximum over all types."""
        account = self.accounts.get((path, user))
        if account is None:
            return 0.0
        highest = 0.0
        for name, value in account.decayed(floor(now)).items():
            if name in due:
                highest = max(highest, (value / due[name] if due[name] > 0 else value) / 3600)
        return float(f"{highest:.10g}")

    def used_up(self, queue: QueueRecord, resource: str, now: float) -> bool:
        """True if the queue has no hours of the resource left in the present window."""
        for name, window, most in budgets(queue):
            if name != resource:
                continue
            length, offset = WINDOWS[window], MONDAY if window == "week" else 0
            begin = (now - offset) // length * length + offset
            used = sum(
                stretch.amounts.get(resource, 0) * _micros(stretch.end - max(begin, stretch.begin))
                for stretch in self.hours[queue.path, resource, window]
                if stretch.end > begin
            )
            return used >= most * _micros(3600)
        return False


def _micros(span: float) -> int:
    return round(span * 1_000_000)


def _in_use(apps: dict[str, AppRecord], path: str, user: str) -> Amounts:
    """The usage of the applications of a queue, or of a user in a leaf."""
    return total(
        one.ask.size
        for app in apps.values()
        if path in lineage(app.queue) and (not user or app.user == user)
        for one in app.allocations.values()
    )


def _half_life(queues: dict[str, QueueRecord], path: str, user: str) -> float:
    """The half-life of an owner: for a queue, the setting of its parent; 0 for none."""
    if user:
        leaf = queues[path]
        return leaf.half_life if leaf.is_leaf and leaf.app_order == "fair" else 0.0
    parent = queues[path].parent
    return queues[parent].half_life if parent else 0.0


def budgets(queue: QueueRecord) -> list[tuple[str, str, int]]:
    """The resource, window and hours of each budget that the queue itself has."""
    found = []
    for key, text in queue.properties.items():
        if key.startswith("budget."):
            amount, _, window = text.partition("/")
            resource = key.removeprefix("budget.").removesuffix("-hours")
            found.append((resource, window, int(amount.removesuffix("m"))))
    return found
