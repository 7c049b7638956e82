"""State tables of an application and its placeholders (spec § 6).

Theory of operation
===================

Three things have states of their own: an application (`states.py`), a placeholder and a real
request (both `requests.py`). A step of one can oblige another to take a step. All such obligations
stand below, one table for each pair; the code that follows them decides nothing by itself.

A real request meets its placeholder like this:

    real      placeholder     what goes on
    PENDING   PLACEHOLDER     a pair is found (`scheduling/replacing.py`)
    MATCHED   PLACEHOLDER     the RM is asked about the node; without a need to ask this is left out
    LINKED    RELEASING       the RM was told to stop the placeholder
    ALLOCATED RELEASED        the RM has confirmed it, and the real one has the place

A placeholder that is too small for a real request is RELEASING as well, and no pair: it is
cancelled, and real requests of its group wait until it has ended (`ledger/placeholders.py`).

`PAIRS` says what else can happen on the way. `ON_TIMEOUT` and `ON_GONE` say what the application
does when time is up, and when something of it has gone.
"""

from enum import Enum, StrEnum
from typing import NamedTuple

from licorne_core.model.apps.gang import GangStyle
from licorne_core.model.apps.requests import RequestEvent, RequestState
from licorne_core.model.apps.states import AppEvent, AppState


class PairEvent(StrEnum):
    """Event of a placeholder and the real request that is to replace it."""

    AGREED = "the RM agrees to the node"
    REFUSED = "the RM refuses the node"
    TOLD = "the placeholder is told to stop for another reason"
    ENDED = "the placeholder is gone"
    PLACE_LOST = "the placeholder is gone with its node, where the real one was to run"
    NODE_LOST = "the other node, where the real one was to run, does not take it any more"
    DROPPED = "the real one is not wanted any more, or not as it was"


class Count(Enum):
    """Account of the placeholder after a step."""

    OPEN = "open"
    """As before: it is open, or counted already."""
    REPLACED = "replaced"
    TIMED_OUT = "timed out"


class PairStep(NamedTuple):
    """Step of a pair: the real one follows `real`, and the placeholder `placeholder` if any."""

    real: RequestEvent
    placeholder: RequestEvent | None = None
    counts_as: Count = Count.OPEN


_R = RequestState
_E = RequestEvent
_P = PairEvent

PAIRS: dict[tuple[RequestState, RequestState, PairEvent], PairStep] = {
    # There is no promise yet: the real one waits again, the placeholder is as it was.
    (_R.PLACEHOLDER, _R.MATCHED, _P.AGREED): PairStep(_E.LINK, _E.STOP),
    (_R.PLACEHOLDER, _R.MATCHED, _P.REFUSED): PairStep(_E.ROLL_BACK),
    (_R.PLACEHOLDER, _R.MATCHED, _P.TOLD): PairStep(_E.ROLL_BACK),
    (_R.PLACEHOLDER, _R.MATCHED, _P.ENDED): PairStep(_E.ROLL_BACK),
    (_R.PLACEHOLDER, _R.MATCHED, _P.PLACE_LOST): PairStep(_E.ROLL_BACK),
    (_R.PLACEHOLDER, _R.MATCHED, _P.NODE_LOST): PairStep(_E.ROLL_BACK),
    (_R.PLACEHOLDER, _R.MATCHED, _P.DROPPED): PairStep(_E.ROLL_BACK),
    # The RM is stopping the placeholder. Whatever it says when that has ended: the place is free.
    (_R.RELEASING, _R.LINKED, _P.ENDED): PairStep(_E.CONFIRM, None, Count.REPLACED),
    (_R.RELEASING, _R.LINKED, _P.PLACE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    # The placeholder ends alone, without a successor.
    (_R.RELEASING, _R.LINKED, _P.NODE_LOST): PairStep(_E.ROLL_BACK, None, Count.TIMED_OUT),
    (_R.RELEASING, _R.LINKED, _P.DROPPED): PairStep(_E.RELEASE, None, Count.TIMED_OUT),
}
"""Pair steps by states of placeholder and real request, and by event (spec §§ 6.5, 6.6, 6.12)."""


class Timeout(NamedTuple):
    """Effect of the placeholder timeout."""

    event: AppEvent | None
    """Event that the application follows."""
    drops_asks: bool
    """True if all its asks are dropped; if not, only those for placeholders are."""


_RUNS_ON = Timeout(None, drops_asks=False)

ON_TIMEOUT: dict[tuple[AppState, GangStyle], Timeout] = {
    # The gang has come together, or something of it runs: what was not replaced by now goes.
    (AppState.RUNNING, GangStyle.SOFT): _RUNS_ON,
    (AppState.RUNNING, GangStyle.HARD): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.SOFT): _RUNS_ON,
    (AppState.COMPLETING, GangStyle.HARD): _RUNS_ON,
    # It has not come together.
    (AppState.ACCEPTED, GangStyle.SOFT): Timeout(AppEvent.RESUME, drops_asks=True),
    (AppState.ACCEPTED, GangStyle.HARD): Timeout(AppEvent.FAIL, drops_asks=True),
}
"""By state and style (spec § 6.8); in other states no time is running."""


class Gone(StrEnum):
    """Kind of a request that has left an application."""

    ASK = "an ask"
    REAL = "a real allocation"
    PLACEHOLDER = "a booked placeholder"


class Left(StrEnum):
    """Kinds of requests left in an application."""

    NOTHING = "nothing"
    PLACEHOLDERS = "booked placeholders only"
    ASKS = "asks, and nothing booked"
    MORE = "anything else"


_A = AppState
_G = Gone
_L = Left

ON_GONE: dict[tuple[AppState, Gone, Left], AppEvent] = {
    **{
        (state, gone, _L.NOTHING): AppEvent.COMPLETE
        for state in (_A.ACCEPTED, _A.RUNNING)
        for gone in Gone
    },
    # The work is done: unreplaced placeholders do not keep it from completing (§ 6.9).
    (_A.ACCEPTED, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    (_A.RUNNING, _G.REAL, _L.PLACEHOLDERS): AppEvent.COMPLETE,
    # Its time to complete is over, and it has waited for the placeholders that were left.
    (_A.COMPLETING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.COMPLETE,
    # What a timeout has begun ends with the last placeholder (§ 6.8).
    (_A.RESUMING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.RUN,
    (_A.RESUMING, _G.PLACEHOLDER, _L.ASKS): AppEvent.RUN,
    (_A.FAILING, _G.PLACEHOLDER, _L.NOTHING): AppEvent.FAIL,
    (_A.FAILING, _G.REAL, _L.NOTHING): AppEvent.FAIL,
}
"""Application event by state, by departed kind and by remaining kinds (§§ 5.1.1, 6.8-9).

A completing application follows it once its time to complete is over.
"""
