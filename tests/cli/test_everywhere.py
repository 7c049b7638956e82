"""Commands for applications, events and configurations of any RM."""

from argparse import Namespace
from typing import cast

import pytest

from licorne.si.v1.si_pb2 import EventRecord
from licorne.v1.state_pb2 import Event, ListEventsRequest, ListEventsResponse
from licorne.v1.state_pb2_grpc import StateStub
from licorne_cli.nouns.events import first_since


class Kept:
    """A server whose `ListEvents` has one event a second, of which the older ones were dropped."""

    def __init__(self, lowest: int, highest: int) -> None:
        self.kept = range(lowest, highest + 1)
        self.told = 0

    def ListEvents(self, request: ListEventsRequest, timeout: float) -> ListEventsResponse:  # noqa: N802
        """The requested number of events, from the id on."""
        assert timeout == 1.0
        ids = [number for number in self.kept if number >= request.start][: request.count]
        self.told += len(ids)
        events = [Event(id=number, record=EventRecord(timestampNano=number * 10**9)) for number in ids]
        return ListEventsResponse(lowest_id=self.kept.start, highest_id=self.kept.stop - 1, events=events)


@pytest.mark.parametrize(
    ("since", "first"), [(0, 500), (499, 500), (700, 700), (700.5, 701), (9999, 9999), (9e4, 10000)]
)
def test_the_first_event_since_a_time_is_found_in_few_calls(since: float, first: int) -> None:
    """The first event since a time is found in a few calls, however many are stored."""
    kept = Kept(500, 9999)
    args = Namespace(rm_id="", timeout=1.0)
    assert first_since(cast(StateStub, kept), args, since * 1e9) == first
    assert kept.told <= 16
