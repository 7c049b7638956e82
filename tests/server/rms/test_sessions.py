"""The numbers of a session's requests, which outlive its streams."""

import pytest

from licorne_server.rms.rm import Session
from licorne_server.wire.errors import CallError


def test_requests_are_in_order_and_repeats_are_recognized() -> None:
    """A request that was read before is a repeat, the next one is not, and none may be missing."""
    session = Session(instance=1)
    session.begin_stream()
    assert all(session.note_read(number) for number in (1, 0, 2, 0, 3))
    assert [session.note_read(number) for number in (1, 3, 0)] == [False, False, True]
    with pytest.raises(CallError, match="request 5 where 4 was expected"):
        session.note_read(5)
    assert session.received == 0


def test_a_new_stream_continues_after_the_handled_requests() -> None:
    """A request that was read from a broken stream and not handled is expected again, and is no repeat."""
    session = Session(instance=1)
    for number in (1, 2, 3):
        session.note_read(number)
    session.received = 1
    session.begin_stream()
    assert not session.note_read(1)
    assert session.note_read(2)
    session.received = 2
    session.begin_stream()
    with pytest.raises(CallError, match="request 4 where 3 was expected"):
        session.note_read(4)
