"""State tables of applications, requests, and pairs of placeholder and real request (spec §§ 5, 6, 9)."""

import ast
import re
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from licorne_core.model.apps import requests, states
from licorne_core.model.apps.gang import PAIRS, PairEvent
from licorne_core.model.apps.requests import TRANSITIONS, Request, RequestEvent, RequestState
from licorne_core.model.apps.states import AppEvent
from licorne_core.values.app_states import AppState
from support.core.builders import ask

BOOKS_ROOM = {RequestEvent.ASSUME, RequestEvent.ALLOCATE, RequestEvent.KEEP_ROOM}
"""The events that book the amounts of a pending request."""


def reachable_from(start: Any, transitions: Mapping[tuple[Any, Any], Any]) -> set[Any]:
    """Every state that a sequence of events can reach from this state, including the state itself."""
    found = {start}
    while True:
        more = {to for (state, _), to in transitions.items() if state in found} - found
        if not more:
            return found
        found |= more


@pytest.mark.parametrize(
    ("first", "every", "transitions", "events"),
    [
        (AppState.NEW, AppState, states.TRANSITIONS, AppEvent),
        (RequestState.PENDING, RequestState, TRANSITIONS, RequestEvent),
    ],
)
def test_every_state_and_event_is_used(first: Any, every: Any, transitions: Any, events: Any) -> None:
    """Every state is reachable from the first one, and every event is used in a row of the table."""
    assert reachable_from(first, transitions) == set(every)
    assert {event for _, event in transitions} == set(events)


def test_final_states_have_no_way_out() -> None:
    """A terminated application can only expire, and a released request has no further step."""
    for state in (AppState.COMPLETED, AppState.FAILED, AppState.REJECTED):
        assert reachable_from(state, states.TRANSITIONS) == {state, AppState.EXPIRED}
    assert reachable_from(RequestState.RELEASED, TRANSITIONS) == {RequestState.RELEASED}
    for request in RequestState:
        assert RequestState.RELEASED in reachable_from(request, TRANSITIONS), request


@pytest.mark.parametrize(("state", "event"), [*product(RequestState, RequestEvent)])
def test_a_step_outside_of_the_table_is_refused(state: RequestState, event: RequestEvent) -> None:
    """A step that is not in the table raises KeyError, and leaves the request unchanged."""
    request = Request(ask("app", "k", vcore=1), 0.0, 1)
    assert request.is_pending
    request.state = state
    if (state, event) in TRANSITIONS:
        request.follow(event)
        assert request.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(KeyError):
            request.follow(event)
        assert request.state is state


def test_releases_end_a_request_and_other_ends_restart_it() -> None:
    """From every state a release leads to the final state, and a failure or roll-back to PENDING."""
    ends = {RequestEvent.RELEASE: RequestState.RELEASED}
    again = (RequestEvent.ROLL_BACK, RequestEvent.ASK_BACK)
    ends |= dict.fromkeys(again, RequestState.PENDING)
    for (state, event), to in TRANSITIONS.items():
        assert event not in ends or to is ends[event], (state, event)


def test_only_a_booking_leads_to_a_booked_state() -> None:
    """A pending request enters a booked state only by an event that books room."""
    for (state, event), to in TRANSITIONS.items():
        if state is RequestState.PENDING:
            assert (to in requests.BOOKED) == (event in BOOKS_ROOM), event
        ends = event in (RequestEvent.RELEASE, RequestEvent.ROLL_BACK, RequestEvent.ASK_BACK)
        waits = event in (RequestEvent.MATCH, RequestEvent.LINK)
        assert (to in requests.BOOKED) != (ends or waits), (state, event)
        assert (to in requests.TO_REPLACE) == waits, (state, event)


def test_the_docstring_lists_all_states() -> None:
    """The docstring of the module describes each state, in the order of the code."""
    # A compiled module has no docstring.
    source = Path(__file__).parents[4] / "core/licorne_core/model/apps/requests.py"
    text = ast.get_docstring(ast.parse(source.read_text()), clean=False)
    described = re.findall(r"^    ([A-Z]+)  ", text or "", re.MULTILINE)
    assert described == [state.name for state in RequestState]


@pytest.mark.parametrize("row", PAIRS, ids=" ".join)
def test_both_requests_of_a_pair_can_take_each_step(
    row: tuple[RequestState, RequestState, PairEvent],
) -> None:
    """Each step of a pair is allowed by the tables of the placeholder and of the real request."""
    placeholder, real, _ = row
    step = PAIRS[row]
    assert (real, step.real) in TRANSITIONS
    assert step.placeholder is None or (placeholder, step.placeholder) in TRANSITIONS


def test_asks_are_ordered_by_priority_then_age_then_arrival() -> None:
    """The place of an ask has its negative priority, its time of creation and its arrival, in this order."""
    late, soon, old, high = (
        Request(ask("app", key, priority=priority, vcore=1), created, arrival).place
        for key, priority, created, arrival in (
            ("late", 0, 5.0, 4),
            ("soon", 0, 5.0, 3),
            ("old", 0, 1.0, 2),
            ("high", 1, 9.0, 1),
        )
    )
    assert sorted([late, soon, old, high]) == [high, old, soon, late]
