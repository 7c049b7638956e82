"""Callbacks of a session: how an RM wants to be asked, its asks, checks and answers."""

import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import session_pb2 as sp
from licorne_core.asks import Ask, AskClass, Shape
from licorne_core.commands import FailMode, PredicatePolicy
from licorne_core.effects import ContainerState, ContainerStatesChanged, PredicatesAsked
from licorne_core.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.caps import MAX_REASON, MAX_REFUSALS
from licorne_server.convert_asks import AskingReader, AskReader
from licorne_server.convert_callbacks import NO_REASON, policy, predicate_answer
from licorne_server.convert_out import AllocationEncoder, Kind, payloads
from licorne_server.errors import CallError, Malformed
from licorne_server.items import BadItem
from licorne_server.wire import delimited
from support.shim import ask

RM = RmId("rm")
PARTITION = PartitionName("[rm]default")
NOW = 1_700_000_000.25


def wanting(**fields: int) -> sp.Callbacks:
    """Callbacks with predicates, and what they say."""
    return sp.Callbacks(predicates=sp.Predicates(**fields))  # type: ignore[arg-type]


def answering(*refused: tuple[str, str]) -> list[tuple[str, str]]:
    """What is left of an answer with these refusals: node and reason."""
    wire = sp.PredicateAnswer(
        id=7, refused=[sp.NodeRefusal(node_id=node, reason=reason) for node, reason in refused]
    )
    answer = predicate_answer(RM, wire.SerializeToString())
    assert (answer.rm_id, answer.check) == (RM, 7)
    return [(refusal.node_id, refusal.reason) for refusal in answer.refused]


def read(reader: AskReader, wire: si.Allocation) -> Ask:
    """The ask as the server reads it."""
    return reader.read(wire.SerializeToString())


def test_who_says_nothing_is_not_asked() -> None:
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
def test_policies_are_read_as_they_were_meant(
    callbacks: sp.Callbacks, expected: PredicatePolicy
) -> None:
    """Milliseconds become seconds, 0 two of them, and the fail mode keeps its meaning."""
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
    ],
)
def test_policies_out_of_range_are_refused(callbacks: sp.Callbacks, field: str, text: str) -> None:
    """An impossible deadline or an unknown fail mode is an error that names field and value."""
    with pytest.raises(CallError) as caught:
        policy(callbacks)
    assert text in caught.value.message
    [violation] = caught.value.details[0].field_violations  # type: ignore[attr-defined]
    assert violation.field == f"hello.callbacks.predicates.{field}"


def test_asks_share_results_by_their_tag() -> None:
    """Equal size and equal tag, whatever its case, make one class; another tag another one."""
    reader = AskingReader()
    gpu = [
        read(reader, ask(f"k{i}", allocationTags={tag: "gpu"})).ask_class
        for i, tag in enumerate(["licorne/predicate-class", "Licorne/Predicate-Class"] * 2)
    ]
    assert len(set(map(id, gpu))) == 1
    arm = read(reader, ask("k9", allocationTags={"licorne/predicate-class": "arm"})).ask_class
    assert arm != gpu[0]
    assert arm.shape == gpu[0].shape == Shape({"vcore": 100})


def test_an_ask_without_the_tag_is_alone() -> None:
    """Nothing is known of what decides about it: no two such asks are of one class."""
    reader = AskingReader()
    asks = [("k1", "app"), ("k2", "app"), ("b c", "a"), ("k1", "app"), ("c", "a b")]
    classes = [read(reader, ask(key, app)).ask_class for key, app in asks]
    assert classes[0] == classes[3]
    assert len(set(classes)) == 4
    assert all(item.predicate for item in classes)
    tagged = ask("k1", allocationTags={"licorne/predicate-class": "ask\\napp\\nk1"})
    assert read(reader, tagged).ask_class not in classes


def test_reading_again_gives_the_same_ask() -> None:
    """An ask that was seen before reads like one that was not, and has all its fields."""
    wire = ask("k", priority=3, allocationTags={"creationTime": "5"}, taskGroupName="g")
    reader = AskingReader()
    first, again, fresh = read(reader, wire), read(reader, wire), read(AskingReader(), wire)
    assert first == again == fresh
    assert (first.priority, first.create_time, first.task_group) == (3, 5.0, "g")
    assert first.ask_class == AskClass.of({"vcore": 100}, None, "ask\napp\nk")


def test_who_is_not_asked_has_classes_by_size() -> None:
    """The tag means nothing for an RM without predicates."""
    reader = AskReader()
    tagged = read(reader, ask("k1", allocationTags={"licorne/predicate-class": "gpu"}))
    assert tagged.ask_class is read(reader, ask("k2")).ask_class
    assert tagged.ask_class.predicate is None


def test_a_class_that_is_too_long_is_refused() -> None:
    """The tag is a name like others: bounded, and the ask is rejected with its length."""
    wire = ask("k", allocationTags={"licorne/predicate-class": "x" * 513})
    with pytest.raises(BadItem, match="licorne/predicate-class has 513 characters"):
        read(AskingReader(), wire)


def test_many_lonely_asks_leave_nothing_behind() -> None:
    """What is kept for one size is kept once, however many asks of it are classes of their own."""
    reader = AskingReader()
    classes = [read(reader, ask(f"k{i}")).ask_class for i in range(1000)]
    assert len({id(item.shape) for item in classes}) == 1
    assert len({id(item.items) for item in classes}) == 1


def test_answers_have_their_refusals_in_order() -> None:
    """Nodes and reasons come through as they are; equal reasons are one object."""
    refused = answering(("n1", "no gpu"), ("n2", "taint"), ("n3", "no gpu"))
    assert refused == [("n1", "no gpu"), ("n2", "taint"), ("n3", "no gpu")]
    assert refused[0][1] is refused[2][1]
    assert answering() == []


def test_reasons_are_fit_to_be_shown() -> None:
    """An empty reason gets a text, since empty means accepted; long and strange ones are cut."""
    refused = answering(("n1", ""), ("n2", "x" * 1000), ("n3", "a\nb\x1b"), ("n4", "\n" * 300))
    assert refused[0] == ("n1", NO_REASON)
    assert refused[1] == ("n2", "x" * MAX_REASON)
    assert refused[2] == ("n3", "a\\nb\\x1b")
    assert len(refused[3][1]) == MAX_REASON


def test_names_that_are_no_nodes_do_no_harm() -> None:
    """A name that is too long for a node is passed over, and the others count."""
    assert answering(("x" * 513, "r"), ("n1", "r")) == [("n1", "r")]


def test_answers_are_counted_before_they_are_read() -> None:
    """More refusals than any check has nodes are a fault, found before any is looked at."""
    refusal = delimited(sp.PredicateAnswer.REFUSED_FIELD_NUMBER, b"\xff\xff")
    with pytest.raises(CallError, match=f"refuses {MAX_REFUSALS + 1} nodes, at most"):
        predicate_answer(RM, refusal * (MAX_REFUSALS + 1))
    with pytest.raises(Malformed, match="PredicateAnswer"):
        predicate_answer(RM, refusal)


def test_checks_say_what_is_asked_and_until_when() -> None:
    """A check has its ask, the nodes in order, and the time that is left in milliseconds."""
    effect = PredicatesAsked(
        rm_id=RM,
        partition=PARTITION,
        check=3,
        app_id=AppId("app"),
        key=AllocationKey("k"),
        allocate=True,
        nodes=[NodeId("n2"), NodeId("n1")],
        deadline=NOW + 2.0,
    )
    [payload] = payloads(effect, AllocationEncoder(), NOW)
    assert (payload.kind, payload.items) == (Kind.SESSION, 2)
    assert sp.UpdateResponse.FromString(payload.data).predicate_check == sp.PredicateCheck(
        id=3,
        partition_name=PARTITION,
        application_id="app",
        allocation_key="k",
        allocate=True,
        node_ids=["n2", "n1"],
        deadline_milliseconds=2000,
    )
    [late] = payloads(effect, AllocationEncoder(), NOW + 5)
    assert sp.UpdateResponse.FromString(late.data).predicate_check.deadline_milliseconds == 0


def test_container_states_are_told_in_portions() -> None:
    """Each state is FAILED with its reason, and no response holds more than a thousand."""
    states = [
        ContainerState(app_id=AppId("app"), key=AllocationKey(f"k{i}"), reason="waiting")
        for i in range(1500)
    ]
    effect = ContainerStatesChanged(rm_id=RM, partition=PARTITION, states=states)
    told = list(payloads(effect, AllocationEncoder(), NOW))
    assert [payload.items for payload in told] == [1000, 500]
    assert {payload.kind for payload in told} == {Kind.SESSION}
    first = sp.UpdateResponse.FromString(told[0].data).container_states.states[0]
    assert first == si.UpdateContainerSchedulingStateRequest(
        applicationID="app",
        allocationKey="k0",
        state=si.UpdateContainerSchedulingStateRequest.FAILED,
        reason="waiting",
    )
