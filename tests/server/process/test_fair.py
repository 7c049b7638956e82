"""Queues whose keys take turns, and places with a quota for each peer."""

from contextlib import ExitStack

import pytest

from licorne_server.process.fair import PeerQuota, RoundRobin


def lines(*items: str) -> RoundRobin[str, str]:
    """A queue whose items have their first letters as keys."""
    found: RoundRobin[str, str] = RoundRobin()
    for item in items:
        found.put(item[0], item)
    return found


def taken(found: RoundRobin[str, str]) -> list[str]:
    """All items in the order of their turns."""
    return [found.take() for _ in range(found.size)]


def test_keys_take_turns() -> None:
    """A long queue of one key delays another key by one item, and each key keeps its order."""
    assert taken(lines("a1", "a2", "a3", "b1", "c1", "c2")) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_key_that_returns_is_last() -> None:
    """A key whose items were all taken is last when it returns."""
    found = lines("a1", "b1", "b2")
    assert found.take() == "a1"
    found.put("a", "a2")
    assert taken(found) == ["b1", "a2", "b2"]


def test_removed_items_are_skipped() -> None:
    """Removed items are skipped, and a key without items does not count."""
    found = lines("a1", "b1", "b2")
    found.remove("a", "a1")
    found.remove("a", "a1")
    found.remove("b", "b1")
    assert (list(found.line("a")), list(found.line("b")), found.size) == ([], ["b2"], 1)
    assert taken(found) == ["b2"]


def test_a_cleared_queue_is_empty() -> None:
    """All items are returned, those of each key together."""
    found = lines("a1", "b1", "a2")
    assert found.clear() == ["a1", "a2", "b1"]
    assert found.size == 0


class Full(Exception):
    """A quota is full: the quota, and the peer or None for all."""


def test_the_quota_of_a_peer_leaves_places_for_others() -> None:
    """The error has the quota and the peer, or the quota of all peers."""
    quota = PeerQuota(3, 2, Full)
    with ExitStack() as stack:
        for peer in ("a", "a", "b"):
            stack.enter_context(quota.place(peer))
        for peer, told in (("a", (2, "a")), ("b", (3, ""))):
            with pytest.raises(Full) as error, quota.place(peer):
                pass
            assert error.value.args == told
        assert quota.taken == 3


def test_places_are_released() -> None:
    """A released place is free, also after an error; a refused caller occupies none."""
    quota = PeerQuota(1, 1, Full)

    def fail() -> None:
        with quota.place("a"):
            with pytest.raises(Full), quota.place("b"):
                pass
            raise ValueError("inside")

    for _ in range(3):
        with pytest.raises(ValueError, match="inside"):
            fail()
    assert quota.taken == 0
