"""A4 for ageing: bonuses follow from terms and pending asks, and each next step has a deadline."""

from math import inf

from licorne_core.extensions.ageing.ages import Ages
from licorne_core.extensions.ageing.terms import Ageing
from licorne_core.model.apps.application import Application
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.ranking import NO_PRIORITY, clamp_priority


def check_ages(
    app: Application,
    ages: Ages | None,
    terms: Ageing | None,
    awaited: tuple[float, float | None],
    *,
    settled: bool,
) -> None:
    """Compare the application's ages with its leaf's terms and its pending requests.

    `awaited` are the times of its next update, and of the partition's timer. In
    the middle of a reload or a move, which is not `settled`, the terms may be out of date.

    Raises:
        InvariantBroken: something differs.
    """
    known = None if ages is None else ages.terms
    if known != terms:
        if settled:
            raise InvariantBroken(f"A4: {app!r} ages by {known}, its leaf says {terms}")
        return
    if ages is None:
        return
    pending = list(app.pending())
    oldest = min((request.create_time for request in pending), default=inf)
    aged = clamp_priority(app.priorities.top + ages.bonus) if ages.bonus else NO_PRIORITY
    step = inf
    if pending and ages.bonus < ages.terms.most:
        step = oldest + (ages.bonus // ages.terms.step + 1) * ages.terms.every
    booked = (ages.oldest, ages.top, app.raised, ages.step)
    counted = (oldest, app.priorities.top, aged, step)
    if booked != counted or app.bonus != ages.bonus or (ages.bonus and not pending):
        raise InvariantBroken(f"A4: {app!r}: ageing booked {booked}, counted {counted}")
    looked_at, fires = awaited
    if step < inf and (fires is None or max(fires, looked_at) > step):
        raise InvariantBroken(f"A4: {app!r}: the step at {step} is not awaited, but {looked_at} and {fires}")
