"""Asks without a start are searched for in turn, and delay no other search."""

from heapq import heapify, heappop, heappush

from licorne_core.extensions.backfill.unplanned import MOST_AGAIN, MOST_FIRST, RETRY_TIME, Likeness, Unplanned
from licorne_core.values.ids import AppId

MANY, FEW = AppId("many"), AppId("few")


def always(_: Likeness, app_id: AppId) -> bool:
    """Whether an ask still waits: always true."""
    return True


def names(number: int) -> list[Likeness]:
    """Names for this number of kinds of asks."""
    return [AppId(f"kind{one:04}") for one in range(number)]


def looked_for(unplanned: Unplanned, kinds: list[Likeness], seconds: float) -> list[tuple[float, Likeness]]:
    """Search for these kinds of one application in vain; return each search with its time in seconds."""
    looked: list[tuple[float, Likeness]] = []
    due = [(0.0, str(kind)) for kind in kinds]
    heapify(due)
    while due[0][0] < seconds:
        now, name = heappop(due)
        kind = AppId(name)
        until = unplanned.turn(MANY, kind, now)
        if until <= now:
            looked.append((now, kind))
            until = unplanned.failed(MANY, kind, now, always)
        heappush(due, (until, name))
    return looked


def test_searches_for_kinds_are_bounded_in_rate() -> None:
    """A kind searched for in vain is searched for again after the waiting kinds, at a bounded rate."""
    looked = looked_for(Unplanned(), names(100), 300.0)
    assert {name for _, name in looked} == {*names(100)}
    assert sum(not at for at, _ in looked) == MOST_FIRST
    times = {at for at, _ in looked}
    for since in times:
        some = [at for at, _ in looked if since <= at < since + RETRY_TIME]
        assert len(some) <= 2 * (MOST_FIRST + MOST_AGAIN)
    again = looked_for(Unplanned(), names(100), 1200.0)
    last = [sum(name == one for at, name in again if at >= 300.0) for one in names(100)]
    assert max(last) - min(last) <= 2
    assert sum(last) <= 900.0 / RETRY_TIME * MOST_AGAIN


def test_each_of_many_kinds_is_searched_for() -> None:
    """Each of more than a thousand kinds is searched for at least twice in 40 minutes."""
    looked = looked_for(Unplanned(), names(1200), 2400.0)
    counts = dict.fromkeys(names(1200), 0)
    for _, name in looked:
        counts[name] += 1
    assert min(counts.values()) >= 2


def test_a_new_kind_does_not_wait_for_kinds_that_failed() -> None:
    """While a thousand kinds of one application wait in turn, a kind of another is searched for at once."""
    unplanned = Unplanned()
    looked_for(unplanned, names(1000), 600.0)
    assert unplanned.turn(FEW, AppId("good"), 600.0) == 600.0
    # Too many new kinds at once have to wait as well: the rate of first searches is bounded.
    for number in range(2 * MOST_FIRST):
        app_id = AppId(f"app{number}")
        if unplanned.turn(app_id, app_id, 601.0) <= 601.0:
            unplanned.failed(app_id, app_id, 601.0, always)
    until = unplanned.turn(FEW, AppId("good"), 601.0)
    assert 601.0 < until <= 601.0 + RETRY_TIME
    assert unplanned.turn(FEW, AppId("good"), until) == until


def test_kinds_without_waiting_asks_do_not_lengthen_the_pauses() -> None:
    """The next pause is as long as the remaining kinds need, and no data of removed kinds is kept."""
    unplanned = Unplanned()
    looked_for(unplanned, names(1000), 1000.0)
    until = unplanned.failed(FEW, AppId("good"), 1000.0, always)
    assert until > 1000.0 + 10 * RETRY_TIME
    assert unplanned.failed(FEW, AppId("good"), until, lambda one, _: one == "good") == until + RETRY_TIME
    assert all(unplanned.turn(MANY, one, until) == until for one in names(10))
