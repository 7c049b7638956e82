"""Callbacks of a session: an RM's settings, the classes of its asks, and its messages."""

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.extensions.autoscaler.messages import ContainerState, ContainerStatesChanged
from licorne_core.messages.commands import FailMode, PredicatePolicy
from licorne_core.values.asks import Ask, AskClass, Shape
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_server.wire.asks import OWN_TAGS, AskingReader, AskReader
from licorne_server.wire.checks import policy
from licorne_server.wire.errors import CallError
from licorne_server.wire.items import BadItem
from licorne_server.wire.responses import AllocationEncoder, Kind, payloads
from support.docs.pages import ROOT
from support.peers.shim import ask, faults

RM = RmId("rm")
PARTITION = PartitionName("[rm]default")
CLASSES = [sp.BY_ASK, sp.BY_TAG, sp.BY_ALL_TAGS]


def wanting(**fields: int) -> sp.Callbacks:
    """Callbacks with these settings for predicates."""
    return sp.Callbacks(predicates=sp.Predicates(**fields))  # type: ignore[arg-type]


def read(reader: AskReader, wire: si.Allocation) -> Ask:
    """The ask as the server reads it."""
    return reader.read(wire.SerializeToString())


def test_without_predicates_there_is_no_policy() -> None:
    """Without predicates in the callbacks there is no policy, so that all predicates pass."""
    assert policy(sp.Callbacks()) is None
    assert policy(sp.Callbacks(container_states=True, events=True)) is None


@pytest.mark.parametrize(
    ("callbacks", "expected"),
    [
        (wanting(), PredicatePolicy(deadline=2.0, fail_mode=FailMode.CLOSED)),
        (wanting(deadline_milliseconds=10), PredicatePolicy(deadline=0.01)),
        (wanting(deadline_milliseconds=60_000), PredicatePolicy(deadline=60.0)),
        (wanting(fail_mode=sp.FAIL_OPEN), PredicatePolicy(fail_mode=FailMode.OPEN)),
    ],
)
def test_policies_are_converted(callbacks: sp.Callbacks, expected: PredicatePolicy) -> None:
    """Milliseconds become seconds, 0 means two seconds, and the fail mode is unchanged."""
    assert policy(callbacks) == expected


@pytest.mark.parametrize(
    ("callbacks", "field", "text"),
    [
        (
            wanting(deadline_milliseconds=9),
            "deadline_milliseconds",
            "deadline_milliseconds is 9, it must lie between 10 and 60000, or be 0 for 2000",
        ),
        (wanting(deadline_milliseconds=60_001), "deadline_milliseconds", "is 60001"),
        (wanting(fail_mode=7), "fail_mode", "unknown fail_mode 7"),
        (wanting(class_by=3), "class_by", "unknown class_by 3"),
    ],
)
def test_policies_out_of_range_are_refused(callbacks: sp.Callbacks, field: str, text: str) -> None:
    """An impossible deadline, or an unknown mode, is an error with field and value."""
    with pytest.raises(CallError) as caught:
        policy(callbacks)
    assert text in caught.value.message
    assert list(faults(caught.value)) == [f"hello.callbacks.predicates.{field}"]


def test_asks_with_equal_tags_share_results() -> None:
    """Asks of equal size with equal tags, in any case of the tag's name, are of one class."""
    reader = AskingReader(RM, sp.BY_ASK)
    gpu = [
        read(reader, ask(f"k{i}", allocationTags={tag: "gpu"})).ask_class
        for i, tag in enumerate(["licorne/predicate-class", "Licorne/Predicate-Class"] * 2)
    ]
    assert len(set(map(id, gpu))) == 1
    arm = read(reader, ask("k9", allocationTags={"licorne/predicate-class": "arm"})).ask_class
    assert arm != gpu[0]
    assert arm.shape == gpu[0].shape == Shape({"vcore": 100})


def test_an_ask_without_the_tag_has_a_class_of_its_own() -> None:
    """The predicate of an ask without the tag is unknown, so no two such asks share a class."""
    reader = AskingReader(RM, sp.BY_ASK)
    asks = [("k1", "app"), ("k2", "app"), ("b c", "a"), ("k1", "app"), ("c", "a b")]
    classes = [read(reader, ask(key, app)).ask_class for key, app in asks]
    assert classes[0] == classes[3]
    assert len(set(classes)) == 4
    assert all(item.predicate for item in classes)
    tagged = ask("k1", allocationTags={"licorne/predicate-class": "ask\\napp\\nk1"})
    assert read(reader, tagged).ask_class not in classes


def classed(class_by: sp.ClassBy.ValueType, *tags: dict[str, str]) -> list[AskClass]:
    """The classes of asks of one size with these tags."""
    reader = AskingReader(RM, class_by)
    return [read(reader, ask(f"k{i}", allocationTags=each)).ask_class for i, each in enumerate(tags)]


@pytest.mark.parametrize("class_by", [sp.BY_ASK, sp.BY_TAG])
def test_by_the_tag_equal_tags_are_equal_classes(class_by: sp.ClassBy.ValueType) -> None:
    """Only the value of the tag counts, and an empty value is a value."""
    tag = "licorne/predicate-class"
    one, other, arm, empty, blank = classed(
        class_by,
        {tag: "gpu", "zone": "a"},
        {tag: "gpu", "zone": "b"},
        {tag: "arm"},
        {tag: ""},
        {tag: "", "zone": "a"},
    )
    assert one == other
    assert empty == blank
    assert len({one, arm, empty}) == 3


def test_by_tag_asks_without_the_tag_share_a_class() -> None:
    """By tag, asks without the tag share the class of asks with an empty tag."""
    first, second, empty, gpu = classed(
        sp.BY_TAG,
        {},
        {"zone": "b"},
        {"licorne/predicate-class": ""},
        {"licorne/predicate-class": "gpu"},
    )
    assert first == second == empty != gpu
    assert first.predicate is not None


def test_by_all_tags_equal_sets_of_tags_are_one_class() -> None:
    """By all tags, name, value and number of tags count, and their order does not."""
    pairs = [("zone", "a"), ("disk", "ssd"), ("licorne/predicate-class", "gpu")]
    same, reverse, less, other, swapped, none, bare = classed(
        sp.BY_ALL_TAGS,
        dict(pairs),
        dict(reversed(pairs)),
        dict(pairs[:2]),
        {**dict(pairs), "zone": "b"},
        {**dict(pairs), "zone": "ssd", "disk": "a"},
        {},
        {},
    )
    assert same == reverse
    assert none == bare
    assert len({same, less, other, swapped, none}) == 5
    assert none.predicate is not None


def test_by_all_tags_the_order_on_the_wire_does_not_count() -> None:
    """Asks with equal tags are of one class, whatever their order in the message."""
    reader = AskingReader(RM, sp.BY_ALL_TAGS)
    tags = [si.Allocation(allocationTags={f"t{n}": "x"}).SerializeToString() for n in range(60)]
    plain = ask("k").SerializeToString()
    one, other = (reader.read(plain + b"".join(each)) for each in (tags, tags[::-1]))
    assert one.ask_class == other.ask_class


def test_by_all_tags_different_tags_are_not_confused() -> None:
    """Different names and values are never confused, even if they look alike when joined."""
    classes = classed(
        sp.BY_ALL_TAGS,
        {"a": "b=c"},
        {"a=b": "c"},
        {"a": "b", "c": ""},
        {"a": "b', 'c"},
        {"A": "b=c"},
    )
    assert len(set(classes)) == 5


def test_by_all_tags_individual_tags_do_not_count() -> None:
    """Creation time, pod name and trace differ from ask to ask, and do not count in any case of letters."""
    zone = {"zone": "a"}
    plain, *own = classed(
        sp.BY_ALL_TAGS,
        zone,
        {**zone, "creationTime": "5", "kubernetes.io/meta/podName": "pod-1"},
        {**zone, "creationTime": "6", "kubernetes.io/meta/podName": "pod-2"},
        {**zone, "CREATIONTIME": "6", "Kubernetes.io/Meta/PodName": "pod-2"},
        {**zone, "licorne/traceparent": "00-1-2-01", "licorne/tracestate": "a=1"},
        {**zone, "Licorne/TraceParent": "00-1-3-01"},
    )
    assert set(own) == {plain}
    [other] = classed(sp.BY_ALL_TAGS, {**zone, "kubernetes.io/meta/namespace": "ns"})
    assert other != plain


@pytest.mark.parametrize(
    "file",
    [
        "proto/licorne/v1/session.proto",
        "clients/python/licorne/v1/session_pb2.pyi",
        "clients/python/licorne/callbacks.py",
        "clients/go/licornev1/session.pb.go",
        "clients/go/licorne/config.go",
    ],
)
def test_tags_that_do_not_count_are_documented(file: str) -> None:
    """The file lists each tag that does not count."""
    text = (ROOT / file).read_text(encoding="utf-8").lower()
    assert [tag for tag in OWN_TAGS if tag not in text] == []


@pytest.mark.parametrize("class_by", CLASSES)
def test_size_and_required_node_count(class_by: sp.ClassBy.ValueType) -> None:
    """In any mode, asks of another size or required node are of another class."""
    reader = AskingReader(RM, class_by)
    tags = {"licorne/predicate-class": "gpu"}
    bound = {**tags, "yunikorn.apache.org/requiredNode": "n1"}
    plain = read(reader, ask("k1", allocationTags=tags)).ask_class
    large = read(reader, ask("k2", vcore=200, allocationTags=tags)).ask_class
    there = read(reader, ask("k3", allocationTags=bound)).ask_class
    assert len({plain, large, there}) == 3
    assert there.required_node == "n1"


@pytest.mark.parametrize("class_by", CLASSES)
def test_a_repeated_ask_is_equal(class_by: sp.ClassBy.ValueType) -> None:
    """A repeated ask is read like a new one, and has all its fields."""
    wire = ask("k", priority=3, allocationTags={"creationTime": "5"}, taskGroupName="g")
    reader = AskingReader(RM, class_by)
    first, again = read(reader, wire), read(reader, wire)
    fresh = read(AskingReader(RM, class_by), wire)
    assert first == again == fresh
    assert (first.priority, first.create_time, first.task_group) == (3, 5.0, "g")
    assert first.ask_class.shape == Shape({"vcore": 100})


def test_without_predicates_asks_have_classes_by_size() -> None:
    """The tag has no meaning for an RM without predicates."""
    reader = AskReader(RM)
    tagged = read(reader, ask("k1", allocationTags={"licorne/predicate-class": "gpu"}))
    assert tagged.ask_class is read(reader, ask("k2")).ask_class
    assert tagged.ask_class.predicate is None


def test_a_class_that_is_too_long_is_refused() -> None:
    """The tag is bounded like other names, and the ask is rejected with its length."""
    wire = ask("k", allocationTags={"licorne/predicate-class": "x" * 513})
    with pytest.raises(BadItem, match="licorne/predicate-class has 513 characters"):
        read(AskingReader(RM, sp.BY_ASK), wire)


def test_individual_classes_use_little_memory() -> None:
    """The data of one size is stored once, however many asks have a class of their own."""
    reader = AskingReader(RM, sp.BY_ASK)
    classes = [read(reader, ask(f"k{i}")).ask_class for i in range(1000)]
    assert len({id(item.shape) for item in classes}) == 1
    assert len({id(item.items) for item in classes}) == 1


def test_container_states_are_sent_in_parts() -> None:
    """Each state is FAILED with its reason, and no response has more than a thousand."""
    states = [
        ContainerState(app_id=AppId("app"), key=AllocationKey(f"k{i}"), reason="waiting") for i in range(1500)
    ]
    effect = ContainerStatesChanged(rm_id=RM, partition=PARTITION, states=states)
    told = list(payloads(effect, AllocationEncoder()))
    assert [payload.items for payload in told] == [1000, 500]
    assert {payload.kind for payload in told} == {Kind.SESSION}
    first = sp.UpdateResponse.FromString(told[0].data).container_states.states[0]
    assert first == si.UpdateContainerSchedulingStateRequest(
        applicationID="app",
        allocationKey="k0",
        state=si.UpdateContainerSchedulingStateRequest.FAILED,
        reason="waiting",
    )
