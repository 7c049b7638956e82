"""A session's numbers, which outlive its streams."""

import pytest

from licorne_server.convert_out import Kind
from licorne_server.errors import CallError
from licorne_server.sessions import Session


def test_requests_come_in_order_and_repeats_are_known() -> None:
    """A request that was handled is a repeat, the next one is not, and none may be missing."""
    session = Session(instance=1)
    assert not session.is_repeat(1)
    session.handled(1)
    assert session.is_repeat(1)
    assert not session.is_repeat(2)
    with pytest.raises(CallError, match="request 3 where 2 was expected"):
        session.is_repeat(3)


def test_what_has_no_number_is_no_repeat_and_counts_for_nothing() -> None:
    """A message without a number may come at any time and as often as it likes."""
    session = Session(instance=1)
    session.handled(1)
    assert not session.is_repeat(0)
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
