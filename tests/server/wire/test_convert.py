"""Conversion between wire and core: the fast paths equal protobuf."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.si.v1 import si_pb2 as si
from licorne_core.messages.commands import TerminationType
from licorne_core.messages.effects import (
    AllocationRejection,
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    ApplicationsUpdated,
    ApplicationUpdate,
    Registered,
    Release,
)
from licorne_core.values.asks import Allocation, Ask, AskClass
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.wire.asks import AskReader
from licorne_server.wire.errors import Malformed
from licorne_server.wire.items import BadItem
from licorne_server.wire.responses import AllocationEncoder, Kind, Payload, nanoseconds, payloads
from support.peers.shim import ask, resource

RM = RmId("rm")
PARTITION = PartitionName("[rm]default")
NAME = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=150)
# Zero equals absence in an ask: classes that differ only in zeros are one class.
AMOUNTS = st.dictionaries(
    st.sampled_from(["memory", "vcore", "pods"]), st.integers(-(2**63), 2**63 - 1).filter(bool)
)
WIRE_ASKS = st.builds(
    si.Allocation,
    allocationKey=NAME,
    applicationID=NAME,
    partitionName=st.sampled_from(["", "default", "[rm]default"]),
    resourcePerAlloc=AMOUNTS.map(lambda amounts: resource(**amounts)),
    priority=st.integers(-(2**31), 2**31 - 1),
    nodeID=st.one_of(st.just(""), NAME),
    taskGroupName=st.one_of(st.just(""), NAME),
    placeholder=st.booleans(),
    originator=st.booleans(),
    preemptionPolicy=st.builds(
        si.PreemptionPolicy, allowPreemptSelf=st.booleans(), allowPreemptOther=st.booleans()
    ),
    allocationTags=st.dictionaries(NAME, NAME, max_size=3),
)


@given(st.lists(WIRE_ASKS, max_size=5), st.lists(NAME, min_size=1, max_size=3))
def test_a_repeated_ask_is_read_completely(wires: list[si.Allocation], keys: list[str]) -> None:
    """A repeated kind of ask is read like a new one."""
    reader = AskReader(RM)
    for wire in wires:
        for key in (wire.allocationKey, *keys, wire.allocationKey):
            wire.allocationKey = key
            raw = wire.SerializeToString()
            assert reader.read(raw) == AskReader(RM).read(raw)
            read = reader.read(raw)
            assert (read.key, read.app_id, read.priority) == (
                key,
                wire.applicationID,
                wire.priority,
            )
            assert read.node_id == (wire.nodeID or None)
            assert read.tags == dict(wire.allocationTags)
            assert (read.placeholder, read.originator) == (wire.placeholder, wire.originator)
            assert (read.allow_preempt_self, read.allow_preempt_other) == (
                wire.preemptionPolicy.allowPreemptSelf,
                wire.preemptionPolicy.allowPreemptOther,
            )
            assert dict(read.ask_class.resources) == {
                name: quantity.value for name, quantity in wire.resourcePerAlloc.resources.items()
            }


def test_asks_of_one_class_share_it() -> None:
    """Asks with equal resources share one class, whatever else differs."""
    reader = AskReader(RM)
    one, two = (reader.read(ask(f"k{i}", f"app-{i}").SerializeToString()) for i in range(2))
    assert one.ask_class is two.ask_class


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("creationTime", "1700000000", 1700000000.0),
        ("CREATIONTIME", "5", 5.0),
        ("creationTime", "soon", None),
        ("creationTime", "-5", None),
        ("creationTime", "9" * 40, None),
    ],
)
@pytest.mark.row(113)
def test_create_time_comes_from_its_tag(name: str, value: str, expected: float | None) -> None:
    """The tag is found in any case; an invalid time counts as missing."""
    raw = ask("k", allocationTags={name: value}).SerializeToString()
    assert AskReader(RM).read(raw).create_time == expected


def test_required_node_comes_from_its_tag() -> None:
    """An ask with the tag is of another class than one without."""
    tags = {"Yunikorn.apache.org/requiredNode": "n7"}
    read = AskReader(RM).read(ask("k", allocationTags=tags).SerializeToString())
    assert read.ask_class.required_node == "n7"


def test_foreign_allocation_needs_no_application() -> None:
    """An allocation of another scheduler belongs to no application."""
    raw = ask("k", "", nodeID="n0", allocationTags={"foreign": "static"}).SerializeToString()
    assert AskReader(RM).read(raw).app_id == ""
    with pytest.raises(BadItem, match="applicationID is empty"):
        AskReader(RM).read(ask("k", "").SerializeToString())


@given(st.binary(max_size=100))
def test_garbage_for_an_ask_is_refused(raw: bytes) -> None:
    """Bytes are an ask, an invalid item or malformed, and raise no other exception."""
    with suppress(BadItem, Malformed):
        assert AskReader(RM).read(raw).key


def test_the_place_of_the_key_is_free() -> None:
    """An ask whose key is last, or repeated, is read as by protobuf."""
    reader = AskReader(RM)
    rest = ask("", "app").SerializeToString()
    key = si.Allocation(allocationKey="late").SerializeToString()
    early = si.Allocation(allocationKey="early").SerializeToString()
    for raw in (rest + key, early + key + rest, early + rest):
        for _ in range(2):
            assert reader.read(raw).key == si.Allocation.FromString(raw).allocationKey


def test_the_memory_of_an_ask_is_counted() -> None:
    """Tags, long names and very many amounts count as memory, also for a repeated ask."""
    reader = AskReader(RM)
    plain = ask("k", resourcePerAlloc=resource(vcore=1, memory=1))
    tagged = ask("k", allocationTags={f"tag-{number}": "value" for number in range(5)})
    named = ask("k", placeholder=True, taskGroupName="g" * 5_000)
    wide = ask("k", resourcePerAlloc=resource(**{f"type-{number}": 1 for number in range(100)}))
    read = [
        [reader.read(wire.SerializeToString()).footprint for _ in range(2)]
        for wire in (plain, tagged, named, wide)
    ]
    assert all(first == again for first, again in read)
    sizes = [first for first, _ in read]
    assert sizes[0] == 0
    assert 1_000 < sizes[1] < 1_200
    assert 4_400 < sizes[2] < 5_100
    assert 18_000 < sizes[3] < 20_000


@given(st.lists(WIRE_ASKS, max_size=5), NAME)
def test_encoded_allocations_are_protobuf(wires: list[si.Allocation], node_id: str) -> None:
    """Joined pieces parse to the allocation, field for field (spec § 1.6.9)."""
    encoder = AllocationEncoder()
    reader = AskReader(RM)
    made, expected = [], si.AllocationResponse()
    for wire in wires * 2:
        wire.ClearField("allocationTags")
        made.append(Allocation(reader.read(wire.SerializeToString()), NodeId(node_id), 0.0, 0.0))
        item = expected.new.add()
        item.CopyFrom(wire)
        item.nodeID, item.partitionName = node_id, PARTITION
        if not (wire.preemptionPolicy.allowPreemptSelf or wire.preemptionPolicy.allowPreemptOther):
            item.ClearField("preemptionPolicy")
    raw = encoder.encode(PARTITION, made)
    assert si.AllocationResponse.FromString(raw) == expected
    assert len(raw) == len(expected.SerializeToString())


def only(effect: object) -> Payload:
    """The only payload of an effect."""
    [payload] = payloads(effect, AllocationEncoder())  # type: ignore[arg-type]
    return payload


def test_state_changes_have_nanoseconds() -> None:
    """Application updates carry state, message and time in nanoseconds."""
    update = ApplicationUpdate(app_id=AppId("a"), state="Running", time=1.5, message="runApplication")
    payload = only(ApplicationsUpdated(rm_id=RM, updates=[update]))
    [updated] = si.ApplicationResponse.FromString(payload.data).updated
    assert updated.stateTransitionTimestamp == 1_500_000_000
    assert (updated.state, updated.message) == ("Running", "runApplication")
    assert nanoseconds(0.0) == 0
    assert nanoseconds(1.000001) == 1_000_001_000


def test_releases_and_rejections_are_separate_payloads() -> None:
    """Each kind of answer about allocations is a payload of its own sort."""
    release = Release(
        app_id=AppId("a"), key=AllocationKey("k"), termination=TerminationType.TIMEOUT, message="m"
    )
    released = only(AllocationsReleased(rm_id=RM, partition=PARTITION, releases=[release]))
    [item] = si.AllocationResponse.FromString(released.data).released
    assert item.terminationType == si.TIMEOUT
    rejection = AllocationRejection(key=AllocationKey("k"), app_id=AppId("a"), reason="r")
    rejected = only(AllocationsRejected(rm_id=RM, rejections=[rejection]))
    assert released.kind is rejected.kind is Kind.ALLOCATIONS
    assert released.sort != rejected.sort
    assert not list(payloads(Registered(rm_id=RM, session=1), AllocationEncoder()))


@pytest.mark.parametrize(
    ("termination", "wire"),
    [
        (TerminationType.STOPPED_BY_RM, si.STOPPED_BY_RM),
        (TerminationType.TIMEOUT, si.TIMEOUT),
        (TerminationType.PREEMPTED_BY_SCHEDULER, si.PREEMPTED_BY_SCHEDULER),
        (TerminationType.PLACEHOLDER_REPLACED, si.PLACEHOLDER_REPLACED),
    ],
)
def test_releases_are_complete(termination: TerminationType, wire: si.TerminationType.ValueType) -> None:
    """A release has the allocation, the reason, and the type to confirm, for any reason."""
    release = Release(app_id=AppId("a"), key=AllocationKey("k"), termination=termination, message="because")
    payload = only(AllocationsReleased(rm_id=RM, partition=PARTITION, releases=[release]))
    assert si.AllocationResponse.FromString(payload.data) == si.AllocationResponse(
        released=[
            si.AllocationRelease(
                partitionName=PARTITION,
                applicationID="a",
                allocationKey="k",
                terminationType=wire,
                message="because",
            )
        ]
    )


def test_many_allocations_are_several_messages() -> None:
    """No response has more than a thousand items."""
    ask_class = AskClass.of({"vcore": 1})
    made = [
        Allocation(Ask(AllocationKey(f"k{i}"), AppId("a"), ask_class), NodeId("n"), 0.0, 0.0)
        for i in range(2_500)
    ]
    effect = AllocationsMade(rm_id=RM, partition=PARTITION, allocations=made)
    sizes = [payload.items for payload in payloads(effect, AllocationEncoder())]
    assert sizes == [1000, 1000, 500]


def key_alone(key: str) -> bytes:
    """The bytes of a key, to precede the other fields of an ask."""
    return si.Allocation(allocationKey=key).SerializeToString()


def test_the_key_of_every_ask_is_checked() -> None:
    """An ask that differs from a cached one only by its key must still have a valid key."""
    reader = AskReader("rm")
    rest = ask("", "app").SerializeToString()
    assert reader.read(key_alone("good") + rest).key == "good"
    with pytest.raises(BadItem, match="allocationKey holds control characters"):
        reader.read(key_alone("bad\x07key") + rest)
    with pytest.raises(BadItem, match="allocationKey is empty"):
        reader.read(b"\x0a\x00" + rest)


def test_the_last_of_two_keys_counts() -> None:
    """Of two keys the last one counts, even if the first is that of another ask."""
    reader = AskReader("rm")
    rest = key_alone("last") + ask("", "app").SerializeToString()
    for first in ("last", "first"):
        assert reader.read(key_alone(first) + rest).key == "last"


@pytest.mark.parametrize("digits", ["١٢٣", "１２３", "१२३"])
def test_times_have_ascii_digits(digits: str) -> None:
    """Digits of other scripts are no creation time, and count as absent."""
    raw = ask("k", allocationTags={"creationTime": digits}).SerializeToString()
    assert AskReader("rm").read(raw).create_time is None


@pytest.mark.parametrize("length", [1, 127, 128, 300, 512])
@pytest.mark.parametrize("filler", ["", "t" * 100])
def test_keys_of_any_length_are_encoded(length: int, filler: str) -> None:
    """An allocation can be parsed to its key, whether its lengths take one byte or two."""
    wire = ask("k" * length, "app", taskGroupName=filler)
    read = AskReader("rm").read(wire.SerializeToString())
    raw = AllocationEncoder().encode("p", [Allocation(read, NodeId("n"), 0.0, 0.0)] * 2)
    parsed = si.AllocationResponse.FromString(raw).new
    assert [item.allocationKey for item in parsed] == ["k" * length] * 2
    assert [item.nodeID for item in parsed] == ["n"] * 2
