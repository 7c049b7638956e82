"""Shadow starts in plain words: the start of a blocked ask, and the asks that may pass it.

Everything is recomputed from the records for each decision; only published starts are kept.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

from licorne_core.values.asks import Ask
from support.oracle.books import (
    ALLOCATED,
    AllocationRecord,
    Amounts,
    AppRecord,
    AskClass,
    AskRecord,
    Kind,
    NodeRecord,
    add_to,
)
from support.oracle.order import Look, apps_in_order, node_key
from support.oracle.queues import QueueRecord, seconds
from support.oracle.terms import WishRecord

GRACE = 5.0
SLACK = 1.0
RETRY_SECONDS = 15.0
MOST_AGAIN = 16
MOST_FIRST = 16
REPLAN_SECONDS = 5.0
MOST = {"off": 0, "easy": 1, "conservative": 16}
FEWEST_RUNS = 3
MOST_RUNS = 64
LAST_RUNS = 2

Name = tuple[str, str]


@dataclass
class ShadowRecord:
    """The start of an ask on a node, told first at `serial`. Times are in unix seconds.

    `going` is what was there when it was `planned` and was to end by the start. `looked` is when it was
    planned last, or an earlier one was looked for; -inf if something has ended since. `late` is by
    how much it has moved with others since it was planned. `beside` are the other starts, those of then and
    those that were planned since.
    """

    node_id: str
    start: float
    end: float
    planned: float
    going: set[Name]
    serial: int = 0
    looked: float = 0.0
    stale: bool = False
    overdue: bool = False
    late: float = 0.0
    beside: set[tuple[int, float]] = field(default_factory=set)

    @property
    def name(self) -> tuple[int, float]:
        """Who holds it, and when it is."""
        return self.serial, self.start


@dataclass
class Pauses:
    """The times of the next searches for asks of a class without a start.

    `ends` are the ends of the pauses. `tries` are the failed searches since `since`: the application, and
    whether the class had failed before.
    """

    ends: dict[AskClass, float] = field(default_factory=dict)
    since: float = 0.0
    tries: list[tuple[str, bool]] = field(default_factory=list)

    def copy(self) -> "Pauses":
        """An independent copy."""
        return Pauses(dict(self.ends), self.since, list(self.tries))

    def until(self, app: AppRecord, ask: AskRecord, now: float) -> float:
        """The end of the pause, or of the time with too many searches."""
        if self.ends.get(ask.ask_class, now) > now:
            return self.ends[ask.ask_class]
        again = ask.ask_class in self.ends
        alike = [app_id for app_id, was_again in self.tries if was_again == again]
        most = MOST_AGAIN if again else MOST_FIRST if app.app_id in alike else 2 * MOST_FIRST
        is_over = now >= self.since + RETRY_SECONDS
        return now if is_over or len(alike) < most else self.since + RETRY_SECONDS

    def pause(self, look: Look, app: AppRecord, ask: AskRecord) -> float:
        """Record a failed search; return the end of the pause, before which all others have a turn."""
        if look.now >= self.since + RETRY_SECONDS:
            waiting = {one.ask_class for other in look.apps.values() for one in other.awake()}
            self.ends = {one: end for one, end in self.ends.items() if one in waiting}
            self.since, self.tries = look.now, []
        self.tries.append((app.app_id, ask.ask_class in self.ends))
        self.ends[ask.ask_class] = look.now
        time = look.now + RETRY_SECONDS * max(1.0, len(self.ends) / MOST_AGAIN)
        self.ends[ask.ask_class] = time
        return time

    def end(self, ask: AskRecord) -> None:
        """Record a found start."""
        self.ends.pop(ask.ask_class, None)


class Unplanned(NamedTuple):
    """Asks of a kind have no start before a time."""

    app_id: str
    kind: Kind
    until: float


class Hold(NamedTuple):
    """A decision: the ask holds that start."""

    app_id: str
    key: str
    shadow: ShadowRecord


class StartQuestion(NamedTuple):
    """The RM is asked about a node for an ask, before the ask has a start on it."""

    app_id: str
    key: str
    node_id: str


class Lapse(NamedTuple):
    """A decision: the ask loses its start, as there is none any more, or it is stopped."""

    app_id: str
    key: str


def mode(queues: dict[str, QueueRecord]) -> str:
    """The partition's backfill."""
    return queues["root"].properties.get("backfill", "off")


def waits_before(queue: QueueRecord) -> float:
    """How old an ask of the leaf must be to hold a start, in seconds."""
    return seconds(queue.properties.get("reserve.after", "0s"))


def declared(app: AppRecord, ask: Ask) -> float:
    """The declared runtime of an ask in seconds, or else its application's; inf without."""
    return float(ask.tags.get("licorne/runtime", app.tags.get("licorne/runtime", "inf")))


def note_end(
    runs: dict[object, list[float]],
    last_runs: dict[str, dict[str, float]],
    apps: dict[str, AppRecord],
    app: AppRecord,
    allocation: AllocationRecord,
    now: float,
) -> None:
    """An allocation has ended by itself: for how long it ran is remembered, and starts may be earlier."""
    for _, _, shadow in holders(apps):
        shadow.looked = -inf
    if allocation.state == ALLOCATED and not allocation.ask.brought:
        ran = now - allocation.started
        known = runs.setdefault(_alike(app, allocation.ask), [])
        known.append(ran)
        del known[:-MOST_RUNS]
        of_user = last_runs.setdefault(app.user, {})
        of_user[app.app_id] = max(ran, of_user.pop(app.app_id, 0.0))
        for app_id in [*of_user][:-LAST_RUNS]:
            del of_user[app_id]


def runtime_for_order(look: Look) -> Callable[[AppRecord], float] | None:
    """The expected runtime of applications that may pass, if it orders them; -1 after the bound."""
    root = look.queues["root"].properties
    is_shortest = root.get("backfill.order", "arrival") == "shortest" and mode(look.queues) != "off"
    if not is_shortest or len(holders(look.apps)) + look.asked_for_starts < MOST[mode(look.queues)]:
        return None
    until = seconds(root.get("backfill.order.until", "43200s")) or inf

    def runtime(app: AppRecord) -> float:
        if app.submitted + until <= look.now:
            return -1.0
        declared_most = max((ask.runs for ask in app.awake()), default=inf)
        ran = look.last_runs.get(app.user, {}).values()
        return min(declared_most, sum(ran) / LAST_RUNS if len(ran) == LAST_RUNS else inf)

    return runtime


def holders(apps: dict[str, AppRecord]) -> list[tuple[AppRecord, AskRecord, ShadowRecord]]:
    """All asks with a start, those published first first."""
    found = [
        (app, ask, ask.shadow) for app in apps.values() for ask in app.asks.values() if ask.shadow is not None
    ]
    return sorted(found, key=lambda one: one[2].serial)


def may_be_earlier(look: Look, shadow: ShadowRecord) -> bool:
    """True if an earlier start is to be looked for: after a while, or as something ended or another moved."""
    known = {other.name for _, _, other in holders(look.apps)}
    return look.now >= shadow.looked + REPLAN_SECONDS or not shadow.beside <= known


def is_due_by_time(apps: dict[str, AppRecord], one: Hold | StartQuestion) -> bool:
    """True if a start is told, and nothing but time calls for a better one: no turn comes for that."""
    shadow = apps[one.app_id].asks[one.key].shadow
    known = {other.name for _, _, other in holders(apps)}
    return shadow is not None and not shadow.stale and shadow.beside <= known


def passed_by(look: Look, app: AppRecord, key: str) -> tuple[str, str, float] | None:
    """The start told first of those that are told to asks which come before one that is placed now."""
    order = [
        (one.app_id, ask.key) for one in apps_in_order(look, newcomers=True) for ask in one.asks_in_order()
    ]
    tried = list(apps_in_order(look))
    for holder, ask, shadow in holders(look.apps):
        name = (holder.app_id, ask.key)
        if holder in tried and order.index(name) < order.index((app.app_id, key)):
            return (*name, shadow.start)
    return None


def lets(look: Look, node: NodeRecord, ask: AskRecord) -> bool:
    """True if the ask ends before every start on the node, or leaves the held room free then."""
    return ask.required_node is not None or all(
        _ends_before(look, node, ask, shadow) or _leaves_free(look, node, shadow, ask)
        for _, holder, shadow in holders(look.apps)
        if shadow.node_id == node.node_id and holder is not ask
    )


def _ends_before(look: Look, node: NodeRecord, ask: AskRecord, other: ShadowRecord) -> bool:
    """Whether it ends by a start, or need not as its own was told before, and its time has come.

    Where it holds a start, a later-told one was planned by its learnt runtime, and one told before has to
    bear a delay of a second.
    """
    own: ShadowRecord | None = ask.shadow
    if own is None or own.node_id != node.node_id:
        return look.now + ask.runs <= other.start
    if own.serial < other.serial:
        return own.start <= look.now or look.now + _runs_after(ask, other) <= other.start
    return _counts_from(own, look.now) + ask.runs <= other.start


def _counts_from(own: ShadowRecord, now: float) -> float:
    return now if now < own.start else max(own.start - own.late, now - SLACK)


def started(holder_ask: AskRecord, app_id: str, apps: dict[str, AppRecord], now: float) -> None:
    """A holder starts on its node: what comes at its end moves with it, and counts on this end."""
    own: ShadowRecord = holder_ask.shadow
    there = [one for _, _, one in holders(apps) if one.node_id == own.node_id and one is not own]
    after, moved, delay = [one for one in there if one.serial > own.serial], [own], now - own.start
    ends = [own.end]
    while ends and delay > 0:
        end = ends.pop()
        for one in [one for one in after if one not in moved and end <= one.start < end + delay]:
            moved.append(one)
            ends.append(one.end)
            one.start, one.end, one.late = one.start + delay, one.end + delay, one.late + delay
    for one in there:
        is_after = one.serial > own.serial
        since, runs = (
            (now, _runs_after(holder_ask, one)) if is_after else (_counts_from(own, now), holder_ask.runs)
        )
        if since + runs <= one.start:
            one.going.add((app_id, holder_ask.key))


def _runs_after(ask: AskRecord, other: ShadowRecord) -> float:
    own: ShadowRecord | None = ask.shadow
    if own is None or other.serial < own.serial or ask.runs < inf:
        return ask.runs
    return own.end - own.start


def _leaves_free(look: Look, node: NodeRecord, shadow: ShadowRecord, ask: AskRecord) -> bool:
    left = dict(look.usage.available[node.node_id])
    for app, one, started in _there(look, node):
        name = (app.app_id, one.key)
        since = started >= shadow.planned and started + one.runs <= shadow.start
        if name in shadow.going or since:
            add_to(left, one.size)
    for _, holder, other in holders(look.apps):
        end = other.end - min(SLACK, max(0.0, other.late - shadow.late))
        counts = other is shadow or other.start <= shadow.start < end
        if other.node_id == node.node_id and counts and holder is not ask:
            add_to(left, _minus(holder.size))
    add_to(left, _minus(look.usage.kept_on.get(node.node_id, {})))
    return all(left.get(name, 0) >= value for name, value in ask.size.items())


def ask_first(look: Look, app: AppRecord, ask: AskRecord, found: ShadowRecord) -> StartQuestion | None:
    """The question about the node of a start, unless the RM has agreed, or did at the publication."""
    told = ask.shadow is not None and ask.shadow.node_id == found.node_id
    if told or not look.must_ask(ask, look.nodes[found.node_id], allocate=False):
        return None
    return StartQuestion(app.app_id, ask.key, found.node_id)


def start_for(
    look: Look, app: AppRecord, ask: AskRecord, unplanned: list[Unplanned], all_pauses: list[Pauses]
) -> tuple[Hold | StartQuestion | None, bool]:
    """The start that the ask holds from now on, or whether it may have a node reserved instead."""
    most = MOST[mode(look.queues)]
    if not most or ask.required_node is not None:
        return None, True
    has_one = ask.reservation is not None and ask.reservation.node_id is not None
    rests = app.wishes.get(ask.kind, WishRecord()).plans_from > look.now
    rests = rests or (app.app_id, ask.kind) in [one[:2] for one in unplanned]
    old = look.now >= ask.created + waits_before(look.queues[app.queue])
    if ask.shadow is not None or has_one or not old or not look.reserving:
        return None, rests and ask.shadow is None
    if rests:
        return None, True
    if look.is_asked(app) or len(holders(look.apps)) + look.asked_for_starts >= most:
        return None, False
    pauses = all_pauses[-1].copy()
    if _no_node_is_so_large(look, ask):
        until = look.now + RETRY_SECONDS
    elif (until := pauses.until(app, ask, look.now)) <= look.now:
        found = plan(look, app, ask)
        if found is not None:
            return ask_first(look, app, ask, found) or Hold(app.app_id, ask.key, found), False
        until = pauses.pause(look, app, ask)
    unplanned.append(Unplanned(app.app_id, ask.kind, until))
    all_pauses.append(pauses)
    return None, True


def _no_node_is_so_large(look: Look, ask: AskRecord) -> bool:
    """True if no node has as much of some amount."""
    return any(
        all(node.capacity.get(name, 0) < value for node in look.nodes.values())
        for name, value in ask.size.items()
    )


def plan(look: Look, app: AppRecord, ask: AskRecord) -> ShadowRecord | None:
    """The earliest start on any node; None if no needed end is known."""
    found = []
    for node in look.nodes.values():
        time = _earliest(look, node, app, ask)
        if time is not None:
            found.append((time, node_key(look, node), node))
    if not found:
        return None
    start, _, node = min(found, key=lambda one: one[:2])
    going = {(a.app_id, one.key) for a, one, _, end in _ends(look, node) if end <= start}
    end = start + _expected(look, app, ask)
    beside = {other.name for _, holder, other in holders(look.apps) if holder is not ask}
    return ShadowRecord(node.node_id, start, end, look.now, going, looked=look.now, beside=beside)


def _earliest(look: Look, node: NodeRecord, app: AppRecord, ask: AskRecord) -> float | None:
    refused = any(node.results.get((ask.ask_class, allocate)) for allocate in (True, False))
    reserved = node.node_id in look.usage.kept_on
    if not node.schedulable or reserved or refused or not node.holds(ask.size):
        return None
    # A start that is overdue comes now, and takes as long. Those that were told later give way to it.
    own = ask.shadow
    late = [
        (max(0.0, look.now - other.start), other, holder.size)
        for _, holder, other in holders(look.apps)
        if other.node_id == node.node_id and holder is not ask
        if own is None or not own.overdue or other.serial < own.serial
    ]
    others = [(other.start + more, other.end + more, size) for more, other, size in late]
    ends = [(end, one.size) for _, one, _, end in _ends(look, node)]

    def fits(time: float) -> bool:
        free = dict(look.usage.available[node.node_id])
        for end, size in ends:
            if end <= time:
                add_to(free, size)
        for start, end, size in others:
            if start <= time < end:
                add_to(free, _minus(size))
        return all(free.get(name, 0) >= value for name, value in ask.size.items())

    for time in sorted({look.now, *(end for end, _ in ends), *(end for _, end, _ in others)} - {inf}):
        begins = [
            other.start
            for more, other, _ in late
            if not more and time < other.start < time + _runs_after(ask, other)
        ]
        if all(map(fits, [time, *begins])):
            return time
    return None


def _there(look: Look, node: NodeRecord) -> Iterator[tuple[AppRecord, AskRecord, float]]:
    """The bookings on the node, with their times."""
    for app in look.apps.values():
        for one in app.allocations.values():
            if one.node_id == node.node_id:
                yield app, one.ask, one.started
        for pair in app.pairs.values():
            if pair.node_id == node.node_id:
                yield app, pair.ask, pair.started


def _ends(look: Look, node: NodeRecord) -> Iterator[tuple[AppRecord, AskRecord, float, float]]:
    """The same, with the expected ends; an overdue one is expected to end soon."""
    for app, ask, started in _there(look, node):
        end = started + _expected(look, app, ask)
        late = GRACE
        while end <= look.now and end + late <= look.now:
            late *= 2
        yield app, ask, started, end if end > look.now else end + late


def _expected(look: Look, app: AppRecord, ask: AskRecord) -> float:
    """The declared runtime, or else the maximum of four of five equal ones; inf for neither."""
    if ask.declared < inf:
        return ask.declared
    known = look.runs.get(_alike(app, ask), [])
    if len(known) < FEWEST_RUNS:
        return inf
    return min(longest for longest in known if 5 * sum(one <= longest for one in known) >= 4 * len(known))


def _alike(app: AppRecord, ask: AskRecord) -> object:
    return app.queue, tuple(sorted(ask.size.items()))


def _minus(size: Amounts) -> Amounts:
    return {name: -value for name, value in size.items()}
