"""The server's caches of an RM's messages are bounded by bytes, however small the entries."""

import tracemalloc
from collections.abc import Callable

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.effects import AskedCheck, PredicatesAsked
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.wire import bounded_cache
from licorne_server.wire.asks import AskReader
from licorne_server.wire.bounded_cache import ENTRY, LARGEST, BoundedCache
from licorne_server.wire.checks import CheckEncoder
from licorne_server.wire.responses import AllocationEncoder
from support.peers.shim import ask

MIB = 1024 * 1024
TABLES = (
    "KINDS",
    "CLASSES",
    "EQUALS",
    "NAMES",
    "SHAPES",
    "NODES",
    "APPLICATIONS",
    "PIECES",
    "CHECKS",
)


def test_a_full_cache_is_emptied() -> None:
    """The cache never exceeds its bound, and always has the newest entry."""
    table: BoundedCache[int, str] = BoundedCache(40 * ENTRY)
    for number in range(1_000):
        assert table.put(number, "value", ENTRY) == "value"
        assert table.size == 2 * ENTRY * len(table.entries) <= 40 * ENTRY
        assert number in table.entries
    assert len(table.entries) == 20


def test_a_large_entry_is_not_stored() -> None:
    """An entry that is too large replaces no others."""
    table: BoundedCache[str, str] = BoundedCache(LARGEST * 1_000)
    table.put("small", "value", 10)
    assert table.put("large", "value", 1_000) == "value"
    assert list(table.entries) == ["small"]


def test_all_tables_of_an_rm_are_bounded() -> None:
    """The total of an RM's tables is at most 8 MiB."""
    assert sum(getattr(bounded_cache, f"{table}_BYTES") for table in TABLES) == 8 * MIB


def tiny_tags(number: int) -> bytes:
    """A unique kind of ask, with many tags of a few bytes."""
    tags = {f"{number:x}{tag:x}": "" for tag in range(150)}
    return ask(f"k{number}", "app", allocationTags=tags).SerializeToString()


def wide_tags(number: int) -> bytes:
    """A unique kind of ask, with a tag whose characters take four bytes each."""
    return ask(f"k{number}", "app", allocationTags={"t": f"{number:1700}\U0001f984"}).SerializeToString()


def many_amounts(number: int) -> bytes:
    """An ask of a unique class, with many amounts."""
    amounts = {f"{number:x}.{name:x}": si.Quantity(value=1) for name in range(120)}
    resource = si.Resource(resources=amounts)
    return ask(f"k{number}", "app", resourcePerAlloc=resource).SerializeToString()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [tiny_tags, wide_tags, many_amounts])
def test_kinds_that_never_repeat_take_bounded_memory(kind: Callable[[int], bytes]) -> None:
    """Asks without common parts use no more memory than the bound of an RM's tables."""
    raws = [kind(number) for number in range(1_500)]
    reader = AskReader("rm")
    tracemalloc.start()
    try:
        for raw in raws:
            reader.read(raw)
        assert tracemalloc.get_traced_memory()[0] < 8 * MIB
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_long_names_in_answers_take_bounded_memory() -> None:
    """Names of applications and nodes that never repeat are not all stored."""
    asks = AskReader("rm")
    allocations, checks = AllocationEncoder(), CheckEncoder()
    tracemalloc.start()
    try:
        for number in range(8_000):
            name = f"{number:0500}"
            read = asks.read(ask("k", name).SerializeToString())
            made = Allocation(read, NodeId(name), 0.0, 0.0)
            allocations.encode("p", [made])
            asked = AskedCheck(1, AppId(name), AllocationKey("k"), True, [NodeId(name)])
            effect = PredicatesAsked(
                rm_id=RmId("rm"), partition=PartitionName("p"), deadline=1.0, checks=[asked]
            )
            list(checks.payloads(effect))
        assert tracemalloc.get_traced_memory()[0] < 8 * MIB
    finally:
        tracemalloc.stop()
