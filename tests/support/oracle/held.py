"""Amounts of maxima that planned starts reserve, against other asks and after a reload."""

from support.oracle.backfill import (
    REPLAN_SECONDS,
    SLACK,
    Hold,
    Lapse,
    ShadowRecord,
    StartQuestion,
    holders,
    in_time,
    minus,
)
from support.oracle.books import Amounts, AppRecord, AskRecord, add_to
from support.oracle.maxima import Key, bounds, charged, free_of, is_budget, is_due_below
from support.oracle.order import Look


def exceeds(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if a maximum of its own partition will not have room for the start."""
    shadow: ShadowRecord = ask.shadow
    used = {name: 0 for name, value in ask.size.items() if value > 0}
    return any(
        not is_budget(key) and not _is_left(look, key, most, used, shadow, None, strictly=True)
        for key, most in bounds(look, app).items()
    )


def behind(
    look: Look, app: AppRecord, ask: AskRecord, own: AskRecord | None, *, reserved: bool = False
) -> bool:
    """True if the ask would delay a start that reserves some of a maximum; `own` has a start itself.

    With `reserved` the amounts promised to the ask are available to it.
    """
    for key, most in bounds(look, app).items():
        needs = dict(ask.size)
        if reserved and ask.is_promised:
            kept = look.usage.kept_for.get((id(ask), key), {})
            needs = {name: value - kept.get(name, 0) for name, value in needs.items()}
        for other, holder, shadow in holders(look.apps):
            if holder is own or key not in bounds(look, other):
                continue
            if own is None or own.shadow is None:
                ends = look.now + ask.runs <= shadow.start
            else:
                ends = in_time(look, own, own.shadow, shadow)
            is_left = ends or _is_left(look, key, most, needs, shadow, own)
            if not is_left and not is_due_below(look, app, key, needs):
                return True
    return False


def _is_left(
    look: Look,
    key: Key,
    most: Amounts,
    needs: Amounts,
    shadow: ShadowRecord,
    own: AskRecord | None,
    *,
    strictly: bool = False,
) -> bool:
    """True if the amounts are free below the maximum at the start; with `strictly` also those of 0."""
    left = free_of(look, key, most)
    for app, one, since in charged(look, key):
        declared = shadow.planned < since + one.runs <= shadow.start
        if declared or (app.app_id, one.key) in shadow.ended:
            add_to(left, one.size)
    for app, holder, other in holders(look.apps):
        end = other.end - min(SLACK, max(0.0, other.late - shadow.late))
        counts = other is shadow or other.start <= shadow.start < end
        counts = counts and not (strictly and other.serial > shadow.serial)
        if counts and holder is not own and key in bounds(look, app):
            add_to(left, minus(holder.size))
    needed = {name: value for name, value in needs.items() if name in most and (value > 0 or strictly)}
    return all(left[name] >= value for name, value in needed.items())


def is_kept(look: Look, shadow: ShadowRecord) -> bool:
    """True if an ask that preempts has the node reserved: until it is placed the start keeps the node."""
    asks = [
        ask
        for app in look.apps.values()
        for ask in (*app.asks.values(), *(one.ask for one in app.allocations.values()))
    ]
    return any(
        one.reservation is not None
        and one.reservation.node_id == shadow.node_id
        and one.required_node is None
        for one in asks
    )


def may_be_earlier(look: Look, shadow: ShadowRecord) -> bool:
    """True if an earlier start may exist.

    Time has passed, something has ended, another start moved, or the configuration has changed.
    """
    known = {other.name for _, _, other in holders(look.apps)}
    return look.now >= shadow.looked + REPLAN_SECONDS or not shadow.beside <= known


def is_due_by_time(apps: dict[str, AppRecord], one: Hold | Lapse | StartQuestion) -> bool:
    """True if the start is published and only time calls for a better one, which causes no turn."""
    shadow = apps[one.app_id].asks[one.key].shadow
    known = {other.name for _, _, other in holders(apps)}
    return shadow is not None and not shadow.stale and shadow.beside <= known
