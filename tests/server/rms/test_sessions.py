"""A session's numbers, which outlive its streams."""

import pytest

from licorne_server.rms.rm import Session
from licorne_server.wire.errors import CallError
from licorne_server.wire.responses import Kind


def test_requests_come_in_order_and_repeats_are_known() -> None:
    """A request that was handled is a repeat, the next one is not, and none may be missing."""
    session = Session(instance=1)
    assert session.note_read(1)
    session.handled(1)
    assert not session.note_read(1)
    assert session.note_read(2)
    with pytest.raises(CallError, match="request 4 where 3 was expected"):
        session.note_read(4)


def test_what_has_no_number_is_no_repeat_and_counts_for_nothing() -> None:
    """A message without a number may come at any time and as often as it likes."""
    session = Session(instance=1)
    session.handled(1)
    assert session.note_read(0)
    session.handled(0)
    assert session.received == 1


def test_only_what_was_sent_can_be_acknowledged() -> None:
    """Responses are numbered from 1, and an acknowledgement beyond the last is refused."""
    session = Session(instance=1)
    assert [session.next_number(), session.next_number()] == [1, 2]
    session.check_acknowledged(2)
    with pytest.raises(CallError, match="response 3 is acknowledged, but 2 were sent"):
        session.check_acknowledged(3)


def test_refused_items_are_counted_for_each_replay() -> None:
    """A replay counts the items that were refused since it began, by kind."""
    session = Session(instance=1)
    session.refuse(Kind.NODES, 2)
    session.begin_replay()
    session.refuse(Kind.NODES, 1)
    session.refuse(Kind.NODES, 3)
    assert (session.refused(Kind.NODES), session.refused(Kind.APPLICATIONS)) == (4, 0)


def test_what_was_read_and_not_handled_is_no_news() -> None:
    """Requests are read ahead: one that waits for its turn is not taken a second time."""
    session = Session(instance=1)
    session.begin_stream()
    assert all(session.note_read(number) for number in (1, 2, 3))
    assert not session.note_read(2)
    assert session.received == 0
    session.handled(2)
    assert session.received == 2
    with pytest.raises(CallError, match="request 5 where 4 was expected"):
        session.note_read(5)


def test_a_new_stream_goes_on_behind_what_was_handled() -> None:
    """What was read from a broken stream and not handled is wanted again, and is no repeat."""
    session = Session(instance=1)
    session.begin_stream()
    for number in (1, 2, 3):
        session.note_read(number)
    session.handled(1)
    session.begin_stream()
    assert not session.note_read(1)
    assert session.note_read(2)
    session.handled(2)
    session.begin_stream()
    with pytest.raises(CallError, match="request 4 where 3 was expected"):
        session.note_read(4)


def test_several_requests_handled_as_one_count_by_the_last() -> None:
    """Joined requests are counted at once."""
    session = Session(instance=1)
    for number in range(1, 6):
        session.note_read(number)
    session.handled(5)
    assert session.received == 5
    assert not session.note_read(5)
    assert session.note_read(6)
