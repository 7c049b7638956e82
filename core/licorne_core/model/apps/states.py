"""States of an application and their transitions (spec § 5.1)."""

from enum import StrEnum

from licorne_core.values.app_states import AppState


class AppEvent(StrEnum):
    """Event of an application; the value is the default message."""

    RUN = "runApplication"
    REJECT = "rejectApplication"
    COMPLETE = "completeApplication"
    FAIL = "failApplication"
    RESUME = "resumeApplication"
    EXPIRE = "expireApplication"


_S = AppState
_E = AppEvent

TRANSITIONS: dict[tuple[AppState, AppEvent], AppState] = {
    (_S.NEW, _E.REJECT): _S.REJECTED,
    (_S.NEW, _E.RUN): _S.ACCEPTED,
    (_S.RESUMING, _E.RUN): _S.ACCEPTED,
    (_S.ACCEPTED, _E.RUN): _S.RUNNING,
    (_S.RUNNING, _E.RUN): _S.RUNNING,
    (_S.COMPLETING, _E.RUN): _S.RUNNING,
    (_S.ACCEPTED, _E.COMPLETE): _S.COMPLETING,
    (_S.RUNNING, _E.COMPLETE): _S.COMPLETING,
    (_S.COMPLETING, _E.COMPLETE): _S.COMPLETED,
    (_S.NEW, _E.FAIL): _S.FAILING,
    (_S.ACCEPTED, _E.FAIL): _S.FAILING,
    (_S.RUNNING, _E.FAIL): _S.FAILING,
    (_S.FAILING, _E.FAIL): _S.FAILED,
    (_S.NEW, _E.RESUME): _S.RESUMING,
    (_S.ACCEPTED, _E.RESUME): _S.RESUMING,
    (_S.COMPLETED, _E.EXPIRE): _S.EXPIRED,
    (_S.FAILED, _E.EXPIRE): _S.EXPIRED,
    (_S.REJECTED, _E.EXPIRE): _S.EXPIRED,
}

SCHEDULABLE = frozenset({AppState.ACCEPTED, AppState.RUNNING})
"""States in which the asks of an application are considered."""

COMPLETING_TIME = 30.0
"""Seconds for which an application remains Completing (spec § 5.4)."""

TERMINATED_TIME = 3 * 24 * 3600.0
"""Seconds for which a completed, failed or rejected application remains in reports."""
