"""The application's state table (spec § 5.1)."""

import pytest

from licorne_core.model.apps.states import TRANSITIONS, AppEvent, AppState


def reachable_from(start: AppState) -> set[AppState]:
    """Every state that some sequence of events leads to."""
    found = {start}
    while True:
        more = {to for (state, _), to in TRANSITIONS.items() if state in found} - found
        if not more:
            return found
        found |= more


def test_every_state_can_be_reached() -> None:
    """No state is only on paper."""
    assert reachable_from(AppState.NEW) == set(AppState)


def test_terminated_applications_stay_so() -> None:
    """From a terminated state only expiry leads on, and from there nothing."""
    for state in (AppState.COMPLETED, AppState.FAILED, AppState.REJECTED):
        assert reachable_from(state) == {state, AppState.EXPIRED}


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([AppEvent.RUN], AppState.ACCEPTED),
        ([AppEvent.RUN, AppEvent.RUN], AppState.RUNNING),
        ([AppEvent.RUN, AppEvent.COMPLETE], AppState.COMPLETING),
        ([AppEvent.RUN, AppEvent.COMPLETE, AppEvent.RUN], AppState.RUNNING),
        ([AppEvent.RUN, AppEvent.COMPLETE, AppEvent.COMPLETE], AppState.COMPLETED),
        ([AppEvent.RUN, AppEvent.FAIL, AppEvent.FAIL], AppState.FAILED),
        ([AppEvent.RUN, AppEvent.RESUME, AppEvent.RUN], AppState.ACCEPTED),
        ([AppEvent.REJECT, AppEvent.EXPIRE], AppState.EXPIRED),
    ],
)
def test_lives_of_an_application(events: list[AppEvent], state: AppState) -> None:
    """The lives of spec § 5.1, one event after the other."""
    now = AppState.NEW
    for event in events:
        now = TRANSITIONS[now, event]
    assert now is state
