"""Shadow starts in plain words: the start of a blocked ask, and the asks that may overtake it.

Everything is recomputed from the records for each decision; only published starts are stored.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from licorne_core.values.asks import Ask
from support.oracle.books import (
    ALLOCATED,
    AllocationRecord,
    Amounts,
    AppRecord,
    AskRecord,
    Kind,
    NodeRecord,
    add_to,
)
from support.oracle.maxima import (
    Key,
    binding,
    bounds,
    charged,
    exceeded,
    free_of,
    is_budget,
    is_full_behind,
    share,
)
from support.oracle.order import Look, apps_in_order, node_key
from support.oracle.pauses import RETRY_SECONDS, Likeness, Pauses
from support.oracle.profiles import Profile, alike, expected_runtime, extended, runs_after
from support.oracle.queues import QueueRecord, seconds
from support.oracle.terms import WishRecord

SLACK = 1.0
REPLAN_SECONDS = 5.0
MOST = {"off": 0, "easy": 1, "conservative": 16}
MOST_RUNS = 64
LAST_RUNS = 2

Name = tuple[str, str]


@dataclass
class ShadowRecord:
    """The planned start of an ask on a node, first published as number `serial`. Times are in Unix seconds.

    `going` are bookings that, when it was `planned`, were expected to end by the start. `ended` are
    bookings charged to its maxima whose expected, undeclared end was by the start. `looked` is the time of
    the last plan or search for an earlier start; -inf if something has ended since. `late` is its delay
    together with others since it was planned. At the start `timed` it became overdue, once. `beside` are
    the other starts known to it. `behind` are the maxima under which the ask did not fit at the first
    publication, or when it stopped waiting, as far as they still count. With `waits` the leaf is closed at
    some time until the start, or there is no place among the others; it counts by itself, behind no maximum.
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
    timed: float = inf
    late: float = 0.0
    ended: set[Name] = field(default_factory=set)
    beside: set[tuple[int, float]] = field(default_factory=set)
    behind: set[Key] = field(default_factory=set)
    waits: bool = False

    @property
    def name(self) -> tuple[int, float]:
        """The number of its publication, and its time."""
        return self.serial, self.start


def likeness(look: Look, app: AppRecord, ask: AskRecord) -> Likeness:
    """The present likeness of an ask."""
    bound = binding(look, app, ask, holders(look.apps))
    return ask.ask_class, frozenset([*bound, *_hours_of(look, app)])


def _hours_of(look: Look, app: AppRecord) -> list[Key]:
    """The leaf as a bound, if it is not always open."""
    always = look.queues[app.queue].closes_at(look.now) == inf
    return [] if always else [("hours", "", app.queue)]


def is_open_at(look: Look, app: AppRecord, shadow: ShadowRecord) -> bool:
    """True if the leaf is open at the start, or now if it is due."""
    due = max(look.now, shadow.start)
    return look.queues[app.queue].opens_at(due) == due


def is_closed(look: Look, app: AppRecord) -> bool:
    """True if the leaf is closed now."""
    return look.queues[app.queue].opens_at(look.now) > look.now


class Unplanned(NamedTuple):
    """Asks of a kind for which no start is planned before a time."""

    app_id: str
    kind: Kind
    until: float


class Hold(NamedTuple):
    """A decision: the ask gets that planned start; `like` is its likeness, for pauses."""

    app_id: str
    key: str
    shadow: ShadowRecord
    like: Likeness | None = None


class StartQuestion(NamedTuple):
    """A question to the RM about a node for an ask, before the ask gets a start there."""

    app_id: str
    key: str
    node_id: str
    waits: bool


class Lapse(NamedTuple):
    """A decision: the ask loses its planned start."""

    app_id: str
    key: str


def mode(queues: dict[str, QueueRecord]) -> str:
    """The partition's mode of backfill."""
    return queues["root"].properties.get("backfill", "off")


def waits_before(queue: QueueRecord) -> float:
    """The age in seconds from which an ask of the leaf may get a planned start."""
    return seconds(queue.properties.get("reserve.after", "0s"))


def declared(app: AppRecord, ask: Ask) -> float:
    """The declared runtime of an ask in seconds, or else its application's; inf without."""
    return float(ask.tags.get("licorne/runtime", app.tags.get("licorne/runtime", "inf")))


def runs_of_users(
    queues: dict[str, QueueRecord], last_runs: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]] | None:
    """The runs of users' last applications, which are recorded only with backfill; None without it."""
    return None if mode(queues) == "off" else last_runs


def note_end(
    runs: dict[object, list[float]],
    last_runs: dict[str, dict[str, float]] | None,
    apps: dict[str, AppRecord],
    app: AppRecord,
    allocation: AllocationRecord,
    now: float,
) -> None:
    """Record the runtime of an allocation that has ended by itself; starts may be earlier now.

    `last_runs` is None without backfill.
    """
    for _, _, shadow in holders(apps):
        shadow.looked = -inf
    if allocation.state == ALLOCATED and not allocation.ask.brought:
        ran = now - allocation.started
        known = runs.setdefault(alike(app, allocation.ask), [])
        known.append(ran)
        del known[:-MOST_RUNS]
        if last_runs is None:
            return
        of_user = last_runs.setdefault(app.user, {})
        of_user[app.app_id] = max(ran, of_user.pop(app.app_id, 0.0))
        for app_id in [*of_user][:-LAST_RUNS]:
            del of_user[app_id]


def is_full(look: Look, *, waits: bool = False) -> bool:
    """True if no further ask may get a start behind no maximum that `waits` for an opening, or does not."""
    told = [one for _, _, one in holders(look.apps) if not one.behind and one.waits == waits]
    return len(told) + look.asked_for_starts.count(waits) >= MOST[mode(look.queues)]


def runtime_for_order(look: Look) -> Callable[[AppRecord], float] | None:
    """The expected runtime, if it orders applications that may overtake; -1 after the longest wait."""
    root = look.queues["root"].properties
    is_shortest = root.get("backfill.order", "arrival") == "shortest" and mode(look.queues) != "off"
    if not is_shortest or not is_full(look):
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
    """All asks with a planned start, in the order of publication."""
    found = [
        (app, ask, ask.shadow) for app in apps.values() for ask in app.asks.values() if ask.shadow is not None
    ]
    return sorted(found, key=lambda one: one[2].serial)


def give_way(look: Look, node: NodeRecord) -> None:
    """An ask that preempts is placed on the node: starts there without room, or due, are planned again."""
    for _, holder, shadow in holders(look.apps):
        nothing = replace(holder, size=dict.fromkeys(holder.size, 0))
        has_room = look.now < shadow.start and leaves_free(look, node, shadow, nothing)
        if shadow.node_id == node.node_id and not has_room:
            shadow.stale, shadow.overdue = True, False


def passed_by(look: Look, app: AppRecord, key: str) -> tuple[str, str, float] | None:
    """The first published start of an ask that precedes the given one, which is placed now."""
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
    """True if the ask ends before every start on the node, or leaves the amounts of these starts free."""
    return ask.required_node is not None or all(
        _ends_before(look, node, ask, shadow) or leaves_free(look, node, shadow, ask)
        for _, holder, shadow in holders(look.apps)
        if shadow.node_id == node.node_id and holder is not ask
    )


def _ends_before(look: Look, node: NodeRecord, ask: AskRecord, other: ShadowRecord) -> bool:
    """True if the ask ends by another start.

    With a start of its own on the node, the rules of `in_time` apply.
    """
    own: ShadowRecord | None = ask.shadow
    if own is None or own.node_id != node.node_id:
        return look.now + ask.runs <= other.start
    return in_time(look, ask, own, other)


def in_time(look: Look, ask: AskRecord, own: ShadowRecord, other: ShadowRecord) -> bool:
    """True if an ask with a start of its own, placed now, does not delay another start.

    An earlier published ask may run on from its start, by its learnt runtime; others must end by then.
    """
    if own.serial < other.serial:
        return own.start <= look.now or look.now + runs_after(ask, other) <= other.start
    return _counts_from(own, look.now) + ask.runs <= other.start


def _counts_from(own: ShadowRecord, now: float) -> float:
    return now if now < own.start else max(own.start - own.late, now - SLACK)


def started(look: Look, app: AppRecord, ask: AskRecord, *, is_there: bool) -> None:
    """Record that a holder starts: starts at its end move with it, and count on the new end.

    If it runs elsewhere, this applies to asks under the same maxima only.
    """
    own: ShadowRecord = ask.shadow
    now, held = look.now, holders(look.apps)
    moved, delay = [own], now - own.start
    late = [(app, own, own.end)]
    while late and delay > 0:
        first_app, first, end = late.pop()
        for other, _, one in [one for one in held if one[2].serial > own.serial and one[2] not in moved]:
            beside = one.node_id == first.node_id and (is_there or first is not own)
            beside = beside or share(look, first_app, other, held)
            if end <= one.start < end + delay and beside:
                moved.append(one)
                late.append((other, one, one.end))
                one.start, one.end, one.late = one.start + delay, one.end + delay, one.late + delay
    for _, _, one in held:
        is_after = one.serial > own.serial
        since, runs = (now, runs_after(ask, one)) if is_after else (_counts_from(own, now), ask.runs)
        if one is not own and since + runs <= one.start:
            one.ended.add((app.app_id, ask.key))
            if is_there and one.node_id == own.node_id:
                one.going.add((app.app_id, ask.key))


def leaves_free(look: Look, node: NodeRecord, shadow: ShadowRecord, ask: AskRecord) -> bool:
    """True if there is room for the ask at a start of others on the node, beside all starts held then."""
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
            add_to(left, minus(holder.size))
    add_to(left, minus(look.usage.kept_on.get(node.node_id, {})))
    if ask.reservation is not None and ask.reservation.node_id == node.node_id:
        add_to(left, ask.size)
    return all(left.get(name, 0) >= value for name, value in ask.size.items())


def ask_first(look: Look, app: AppRecord, ask: AskRecord, found: ShadowRecord) -> StartQuestion | None:
    """The question about the node of a start, or None if the RM has agreed already."""
    told = ask.shadow is not None and ask.shadow.node_id == found.node_id
    if told or not look.must_ask(ask, look.nodes[found.node_id], allocate=False):
        return None
    return StartQuestion(app.app_id, ask.key, found.node_id, found.waits)


def start_for(
    look: Look,
    app: AppRecord,
    ask: AskRecord,
    unplanned: list[Unplanned],
    all_pauses: list[Pauses],
    *,
    asked: bool,
) -> tuple[Hold | StartQuestion | None, bool]:
    """The start that the ask gets, and whether the ask may have a node reserved instead.

    None for the start unless the RM may be `asked` about it.
    """
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
    held = [one.behind for _, _, one in holders(look.apps)]
    closed = is_closed(look, app)
    is_planned = not closed and any(sum(key in one for one in held) >= most for key in bounds(look, app))
    if not asked or look.is_asked(app) or is_full(look, waits=closed) or is_planned:
        return None, False
    over = exceeded(look, app, ask)
    if any(map(is_budget, over)):
        return None, False
    pauses = all_pauses[-1].copy()
    like, behind = likeness(look, app, ask), binding(look, app, ask, holders(look.apps))
    if (not closed and is_full_behind(frozenset(behind), held)) or _no_node_is_so_large(look, ask) or over:
        until = look.now + RETRY_SECONDS
    elif (until := pauses.until(app, like, look.now)) <= look.now:
        found = plan(look, app, ask)
        question = None if found is None else ask_first(look, app, ask, found)
        if question is not None:
            return question, False
        if found is not None and not (found.waits and is_full(look, waits=True)):
            found.behind = set() if found.waits else set(behind)
            return Hold(app.app_id, ask.key, found, like), False
        until = pauses.pause(look, app, like)
    unplanned.append(Unplanned(app.app_id, ask.kind, until))
    all_pauses.append(pauses)
    return None, True


def _no_node_is_so_large(look: Look, ask: AskRecord) -> bool:
    """True if no node has enough of some amount."""
    return any(
        all(node.capacity.get(name, 0) < value for node in look.nodes.values())
        for name, value in ask.size.items()
    )


def plan(look: Look, app: AppRecord, ask: AskRecord) -> ShadowRecord | None:
    """The earliest start on any node; None if a necessary end is unknown.

    If maxima bind, or the leaf closes before, the node is the one whose room is free last, as for gangs.
    """
    most = bounds(look, app)
    bound = [_under(look, key, most[key], ask) for key in binding(look, app, ask, holders(look.apps))]
    leaf, present = look.queues[app.queue], ask.shadow
    before = inf if present is None or present.stale else present.start
    by_last = bound or leaf.closes_at(look.now) < before
    found = []
    for node in look.nodes.values():
        profile = _on(look, node, app, ask)
        if profile is not None:
            times = sorted({look.now, *(time for one in (profile, *bound) for time in one.times)} - {inf})
            for time in sorted(map(leaf.opens_at, times)):
                if all(one.lasts(look, ask, time) for one in (profile, *bound)):
                    found.append((time, profile, node))
                    break
    if not found:
        return None
    start = min(time for time, _, _ in found)
    _, _, node = min(
        (profile.since(look, ask, start) if by_last else (), node_key(look, node), node)
        for time, profile, node in found
        if time == start
    )
    ended = {
        (a.app_id, one.key)
        for key in bounds(look, app)
        for a, one, since in charged(look, key)
        if _end_of(look, a, one, since) <= start and not look.now < since + one.runs < inf
    }
    going = {(a.app_id, one.key) for a, one, _, end in _ends(look, node) if end <= start}
    end = start + _expected(look, app, ask)
    beside = {other.name for _, holder, other in holders(look.apps) if holder is not ask}
    return ShadowRecord(
        node.node_id,
        start,
        end,
        look.now,
        going,
        looked=look.now,
        beside=beside,
        ended=ended,
        waits=leaf.closes_at(look.now) <= start,
    )


def _on(look: Look, node: NodeRecord, app: AppRecord, ask: AskRecord) -> Profile | None:
    """The free amounts of a node for the ask; None if the ask cannot be placed there."""
    refused = any(node.results.get((ask.ask_class, allocate)) for allocate in (True, False))
    reserved = node.node_id in look.usage.kept_on
    if not node.schedulable or reserved or refused or not node.holds(ask.size):
        return None
    held = [
        (other, holder.size)
        for _, holder, other in holders(look.apps)
        if other.node_id == node.node_id and holder is not ask
    ]
    ends = [(end, one.size, _is_unsure(look, one, since)) for _, one, since, end in _ends(look, node)]
    return Profile(look, ask.size, look.usage.available[node.node_id], ends, held, ask.shadow)


def _under(look: Look, key: Key, most: Amounts, ask: AskRecord) -> Profile:
    """The free amounts of a maximum for the ask."""
    held = [
        (other, holder.size)
        for app, holder, other in holders(look.apps)
        if key in bounds(look, app) and holder is not ask
    ]
    ends = [(_end_of(look, app, one, since), one.size, False) for app, one, since in charged(look, key)]
    size = {name: value for name, value in ask.size.items() if name in most}
    return Profile(look, size, free_of(look, key, most), ends, held, ask.shadow)


def _is_unsure(look: Look, ask: AskRecord, since: float) -> bool:
    """True if its end is learnt or overdue."""
    return ask.declared == inf or since + ask.runs <= look.now


def _there(look: Look, node: NodeRecord) -> Iterator[tuple[AppRecord, AskRecord, float]]:
    """The bookings on the node, with their start times."""
    for app in look.apps.values():
        for one in app.allocations.values():
            if one.node_id == node.node_id:
                yield app, one.ask, one.started
        for pair in app.pairs.values():
            if pair.node_id == node.node_id:
                yield app, pair.ask, pair.started


def _ends(look: Look, node: NodeRecord) -> Iterator[tuple[AppRecord, AskRecord, float, float]]:
    """The bookings on the node, with their start times and expected ends; an overdue one ends soon."""
    for app, ask, started in _there(look, node):
        yield app, ask, started, _end_of(look, app, ask, started)


def _end_of(look: Look, app: AppRecord, ask: AskRecord, started: float) -> float:
    return extended(started + _expected(look, app, ask), look.now)


def _expected(look: Look, app: AppRecord, ask: AskRecord) -> float:
    return expected_runtime(look.runs, app, ask)


def minus(size: Amounts) -> Amounts:
    """The amounts with negative sign."""
    return {name: -value for name, value in size.items()}
