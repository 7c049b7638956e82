"""Asks and allocations that the quick way of reading and writing must not get wrong."""

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import NodeId
from licorne_server.wire.asks import AskReader
from licorne_server.wire.items import BadItem
from licorne_server.wire.responses import AllocationEncoder
from support.peers.shim import ask


def key_alone(key: str) -> bytes:
    """The bytes of a key, to precede the other fields of an ask."""
    return si.Allocation(allocationKey=key).SerializeToString()


def test_every_key_is_checked_not_only_the_first_of_its_kind() -> None:
    """An ask that differs from a cached one by its key alone must still have a valid key."""
    reader = AskReader("rm")
    rest = ask("", "app").SerializeToString()
    assert reader.read(key_alone("good") + rest).key == "good"
    with pytest.raises(BadItem, match="allocationKey holds control characters"):
        reader.read(key_alone("bad\x07key") + rest)
    with pytest.raises(BadItem, match="allocationKey is empty"):
        reader.read(b"\x0a\x00" + rest)


def test_a_key_that_stands_twice_says_nothing_of_its_kind() -> None:
    """Of two keys the last one counts, also where the first is that of another ask."""
    reader = AskReader("rm")
    rest = key_alone("last") + ask("", "app").SerializeToString()
    for first in ("last", "first"):
        assert reader.read(key_alone(first) + rest).key == "last"


@pytest.mark.parametrize("digits", ["١٢٣", "１２３", "१२३"])
def test_times_are_written_in_plain_digits(digits: str) -> None:
    """Digits of other scripts are no creation time, and count as absent."""
    raw = ask("k", allocationTags={"creationTime": digits}).SerializeToString()
    assert AskReader("rm").read(raw).create_time is None


@pytest.mark.parametrize("length", [1, 127, 128, 300, 512])
@pytest.mark.parametrize("filler", ["", "t" * 100])
def test_keys_of_any_length_are_written_whole(length: int, filler: str) -> None:
    """An allocation parses to its key, whether its lengths take one byte or two."""
    wire = ask("k" * length, "app", taskGroupName=filler)
    read = AskReader("rm").read(wire.SerializeToString())
    raw = AllocationEncoder().encode("p", [Allocation(read, NodeId("n"), 0.0, 0.0)] * 2)
    parsed = si.AllocationResponse.FromString(raw).new
    assert [item.allocationKey for item in parsed] == ["k" * length] * 2
    assert [item.nodeID for item in parsed] == ["n"] * 2
