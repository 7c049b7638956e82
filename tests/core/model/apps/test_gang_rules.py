"""The table of placeholders and those who replace them: every row is one that both can follow."""

import pytest

from licorne_core.model.apps.gang import PAIRS, Count, PairEvent
from licorne_core.model.apps.requests import TRANSITIONS, RequestEvent, RequestState

S = RequestState
MATCHED = (S.PLACEHOLDER, S.MATCHED)
LINKED = (S.RELEASING, S.LINKED)


@pytest.mark.parametrize("row", PAIRS, ids=" ".join)
def test_both_of_a_pair_can_take_the_step(
    row: tuple[RequestState, RequestState, PairEvent],
) -> None:
    """No row leads a request where its own table does not go."""
    placeholder, real, _ = row
    step = PAIRS[row]
    assert (real, step.real) in TRANSITIONS
    assert step.placeholder is None or (placeholder, step.placeholder) in TRANSITIONS


@pytest.mark.parametrize("event", [event for event in PairEvent if event is not PairEvent.AGREED])
def test_a_matched_pair_comes_apart_whatever_happens(event: PairEvent) -> None:
    """Nothing was promised yet: the real one waits again, and the placeholder stays open."""
    step = PAIRS[*MATCHED, event]
    assert (step.real, step.placeholder, step.counts_as) == (
        RequestEvent.ROLL_BACK,
        None,
        Count.OPEN,
    )


def test_what_the_rm_agrees_to_is_linked() -> None:
    """The placeholder is told to stop, and is open until it has gone."""
    step = PAIRS[*MATCHED, PairEvent.AGREED]
    assert (step.real, step.placeholder, step.counts_as) == (
        RequestEvent.LINK,
        RequestEvent.STOP,
        Count.OPEN,
    )


def test_a_linked_placeholder_is_counted_once_however_it_ends() -> None:
    """As replaced if the real one has its place, as timed out otherwise."""
    counted = {event: PAIRS[*LINKED, event].counts_as for *states, event in PAIRS if states == [*LINKED]}
    assert counted == {
        PairEvent.ENDED: Count.REPLACED,
        PairEvent.PLACE_LOST: Count.TIMED_OUT,
        PairEvent.NODE_LOST: Count.TIMED_OUT,
        PairEvent.DROPPED: Count.TIMED_OUT,
    }
