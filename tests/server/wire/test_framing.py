"""Requests split into items by their bytes, compared with protobuf."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne_server.wire import framing as wire
from licorne_server.wire.errors import CallError, Malformed
from support.core.steps import at_once, pace
from support.peers.shim import application, ask, node, releases

TEXT = st.text(max_size=200)
ASKS = st.lists(st.builds(ask, TEXT, TEXT, priority=st.integers(-(2**31), 2**31 - 1)))
RELEASES = st.lists(st.builds(si.AllocationRelease, allocationKey=TEXT, message=TEXT))


def split_up(raw: bytes, layout: wire.Layout) -> wire.Split:
    """The items of a request."""
    return at_once(wire.split(raw, layout, pace()))


@given(TEXT, ASKS, RELEASES)
def test_allocation_request_is_split_like_protobuf_reads_it(
    rm_id: str, asks: list[si.Allocation], gone: list[si.AllocationRelease]
) -> None:
    """The items of both lists are in order, whatever their number and size."""
    request = si.AllocationRequest(rmID=rm_id, allocations=asks, releases=releases(*gone))
    split = split_up(request.SerializeToString(), wire.ALLOCATION_REQUEST)
    assert split.rm_id == rm_id
    assert [si.Allocation.FromString(raw) for raw in split.items[4]] == asks
    assert [si.AllocationRelease.FromString(raw) for raw in split.items[2]] == gone


@given(st.lists(TEXT), st.lists(TEXT))
def test_other_requests_are_split_alike(names: list[str], others: list[str]) -> None:
    """Nodes, and applications to add and to remove, are in order."""
    nodes = si.NodeRequest(rmID="rm", nodes=[node(name, vcore=1) for name in names])
    split = split_up(nodes.SerializeToString(), wire.NODE_REQUEST)
    assert split.rm_id == "rm"
    assert [si.NodeInfo.FromString(raw).nodeID for raw in split.items[1]] == names
    remove = [si.RemoveApplicationRequest(applicationID=name) for name in others]
    apps = si.ApplicationRequest(new=[application(name) for name in names], remove=remove)
    split = split_up(apps.SerializeToString(), wire.APPLICATION_REQUEST)
    assert [si.AddApplicationRequest.FromString(raw).applicationID for raw in split.items[1]] == (names)
    assert [si.RemoveApplicationRequest.FromString(raw) for raw in split.items[2]] == remove


@given(ASKS, st.permutations(range(4)))
def test_fields_may_come_in_any_order(asks: list[si.Allocation], order: list[int]) -> None:
    """Interleaved, repeated and unknown fields do not disturb the others."""
    half = len(asks) // 2
    parts = [
        si.AllocationRequest(allocations=asks[:half]).SerializeToString(),
        si.AllocationRequest(rmID="rm").SerializeToString(),
        wire.delimited(99, b"unknown") + b"\xb8\x06\x05",
        si.AllocationRequest(releases=releases(si.AllocationRelease())).SerializeToString(),
    ]
    raw = b"".join(parts[index] for index in order)
    raw += si.AllocationRequest(allocations=asks[half:]).SerializeToString()
    split = split_up(raw, wire.ALLOCATION_REQUEST)
    assert split.rm_id == "rm"
    assert [si.Allocation.FromString(item) for item in split.items[4]] == asks
    assert len(split.items[2]) == 1


@given(st.binary(max_size=300))
def test_any_bytes_are_split_or_refused(raw: bytes) -> None:
    """Any bytes are split or malformed, and raise no other exception."""
    for layout in (wire.NODE_REQUEST, wire.APPLICATION_REQUEST, wire.ALLOCATION_REQUEST):
        with suppress(Malformed):
            assert split_up(raw, layout).items


@given(st.data())
def test_a_truncated_message_is_malformed(data: st.DataObject) -> None:
    """A prefix that cuts a field is malformed."""
    raw = si.NodeRequest(rmID="rm", nodes=[node("n0", vcore=5)]).SerializeToString()
    whole = {0, len(raw) - 4, len(raw)}
    end = data.draw(st.integers(0, len(raw)).filter(lambda end: end not in whole))
    with pytest.raises(Malformed):
        split_up(raw[:end], wire.NODE_REQUEST)


@given(st.integers(0, 2**64 - 1))
def test_numbers_survive_encoding(number: int) -> None:
    """A number has its value after decoding."""
    raw = wire.encode_varint(number)
    assert wire.varint(raw, 0) == (number, len(raw))


def test_number_of_items_is_capped_in_nested_lists_too() -> None:
    """Releases are counted like asks, and so are unused fields."""
    for raw in (
        wire.delimited(2, b"\x0a\x00" * 100_001),
        wire.delimited(2, b"\x12\x00" * 100_001),
        b"\x22\x00" * 60_000 + wire.delimited(2, b"\x0a\x00" * 60_000),
        b"\xb8\x06\x05" * 100_001,
    ):
        with pytest.raises(CallError, match="holds more than 100000 items"):
            split_up(raw, wire.ALLOCATION_REQUEST)


def test_number_of_too_many_bytes_is_malformed() -> None:
    """A number of more than ten bytes is malformed, however many follow."""
    assert wire.varint(b"\xff" * 9 + b"\x01", 0) == (2**64 - 1, 10)
    with pytest.raises(Malformed, match="a number has too many bytes"):
        wire.varint(b"\x80" * 10 + b"\x01", 0)


@given(st.binary(max_size=60) | ASKS.map(lambda asks: b"".join(map(serialized, asks))))
def test_the_fast_scan_equals_the_slow_one(raw: bytes) -> None:
    """The fast scan of a message finds the same number of fields as the slow one, or refuses it, too."""
    fields: list[wire.Field] | None = None
    with suppress(Malformed):
        fields = list(wire.fields(raw))
    if fields is None:
        with pytest.raises(Malformed):
            wire.skim(raw)
        return
    places = [(number, *place) for number, kind, *place in fields if kind == wire.LENGTH]
    numbers = {number for number, *_ in places}
    assert wire.skim(raw, numbers) == (len(fields), places, len(raw))
    assert wire.skim(raw, (), 1).fields == min(len(fields), 2)


def serialized(asked: si.Allocation) -> bytes:
    """An ask as bytes."""
    return asked.SerializeToString()


@pytest.mark.parametrize("longer", [b"\0", b"\x80\x80\0"])
@pytest.mark.parametrize(
    ("layout", "field"),
    [
        (layout, field)
        for layout in (wire.NODE_REQUEST, wire.APPLICATION_REQUEST, wire.ALLOCATION_REQUEST)
        for field in layout.items
    ],
)
async def test_tags_may_take_more_bytes_than_they_need(
    layout: wire.Layout, field: int, longer: bytes
) -> None:
    """An item is found after a tag with extra bytes, as in protobuf."""
    raw = bytes([field << 3 | wire.LENGTH | 0x80]) + longer + b"\x02ab"
    found = await wire.split(raw + wire.delimited(field, b"c"), layout, pace())
    assert found.items[field] == [b"ab", b"c"]


async def test_a_long_tag_in_a_nested_list_is_read_too() -> None:
    """The releases of an allocation request are found after a tag with extra bytes."""
    nested = wire.delimited(1, b"a") + b"\x8a\0\x01b" + wire.delimited(1, b"c")
    found = await wire.split(wire.delimited(2, nested), wire.ALLOCATION_REQUEST, pace())
    assert found.items[2] == [b"a", b"b", b"c"]
