"""Unfinished messages of strangers: whose are dropped, and when."""

from collections.abc import Callable

import pytest

from licorne_server.transport.loop.unfinished import EACH, SHORT, TOTAL, Unfinished
from licorne_server.wire.caps import MAX_MESSAGE_BYTES


class Holder:
    """A connection that records its calls."""

    def __init__(self, name: str, dropped: list[str]) -> None:
        """Start without a part of a message."""
        self._name = name
        self._dropped = dropped

    def drop_unfinished(self, reason: str) -> None:
        """Record that its message was dropped."""
        self._dropped.append(self._name)


class Crowd:
    """Hosts whose connections each have a complete message except for its last byte."""

    def __init__(self, is_short: Callable[[], bool] = lambda: False) -> None:
        """Start without connections."""
        self.dropped: list[str] = []
        self.unfinished = Unfinished(is_short)

    def comes(self, host: str, number: int, size: int = MAX_MESSAGE_BYTES - 1) -> Holder:
        """Add a connection of a host with such a message."""
        holder = Holder(f"{host}{number}", self.dropped)
        self.unfinished.count(host, holder, size)
        return holder


MESSAGES = EACH // (MAX_MESSAGE_BYTES - 1)
"""The number of connections that a host may have with such messages."""


def test_a_host_with_too_much_loses_its_oldest() -> None:
    """The oldest connections of a host are dropped for its newest, and those of others are kept."""
    crowd = Crowd()
    crowd.comes("b", 0)
    for number in range(MESSAGES + 3):
        crowd.comes("a", number)
    assert crowd.dropped == ["a0", "a1", "a2"]
    assert crowd.unfinished.total == (MESSAGES + 1) * (MAX_MESSAGE_BYTES - 1)


def test_the_age_of_a_message_is_that_of_its_first_byte() -> None:
    """A slow connection does not become younger by progress; a complete message starts over."""
    crowd = Crowd()
    first, second = (crowd.comes("a", number, 1) for number in range(2))
    for size in range(2, 9):
        crowd.unfinished.count("a", first, size)
        crowd.unfinished.count("a", second, size)
    crowd.unfinished.count("a", first, 0)
    crowd.unfinished.count("a", first, 1)
    for number in range(2, 2 + MESSAGES):
        crowd.comes("a", number)
    crowd.comes("a", 9)
    assert crowd.dropped == ["a1", "a0", "a2"][: len(crowd.dropped)]
    assert crowd.dropped[0] == "a1"


def test_the_host_with_most_loses_its_oldest() -> None:
    """If all together have too much, the host with most loses its oldest, and a new one stays."""
    crowd = Crowd()
    hosts = "abcdefgh"
    for number in range(MESSAGES):
        for host in hosts:
            crowd.comes(host, number)
    assert crowd.unfinished.total <= TOTAL
    before = len(crowd.dropped)
    crowd.comes("newcomer", 0)
    assert len(crowd.dropped) <= before + 1
    assert not any(name.startswith("newcomer") for name in crowd.dropped)


@pytest.mark.parametrize("size", [1, MAX_MESSAGE_BYTES - 1])
def test_memory_shortage_leaves_room_for_one_message(size: int) -> None:
    """While memory is short strangers have room for one message, at the next check too."""
    short = False
    crowd = Crowd(lambda: short)
    for number in range(MESSAGES):
        crowd.comes("a", number)
    assert not crowd.dropped
    short = True
    crowd.unfinished.drop()
    assert len(crowd.dropped) == MESSAGES - 1
    crowd.comes("b", 0, size)
    assert crowd.unfinished.total <= SHORT
    assert "b0" not in crowd.dropped


def test_an_ended_connection_uses_no_room() -> None:
    """A connection without an unfinished message uses no room."""
    crowd = Crowd()
    holders = [crowd.comes("a", number, 9) for number in range(3)]
    for holder in holders:
        crowd.unfinished.count("a", holder, 0)
    assert (crowd.unfinished.total, crowd.dropped) == (0, [])
