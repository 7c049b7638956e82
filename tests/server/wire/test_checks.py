"""Predicate checks and their answers as bytes: messages, and how much of them is parsed."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import NodeRefusal, PredicateAnswer
from licorne_core.messages.effects import AskedCheck, PredicatesAsked
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.wire import checks as convert_checks
from licorne_server.wire.caps import MAX_REASON, MAX_REFUSALS
from licorne_server.wire.checks import NO_REASON, CheckEncoder, predicate_answers
from licorne_server.wire.errors import CallError, Malformed
from licorne_server.wire.framing import delimited
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Kind
from support.core.steps import at_once, pace
from support.peers.shim import faults

RM = RmId("rm")
PARTITION = PartitionName("[rm]default")
NAMES = st.text(min_size=1, max_size=8)


def asked(checks: Sequence[AskedCheck], deadline: float = 2.0) -> PredicatesAsked:
    """These checks of one partition."""
    return PredicatesAsked(rm_id=RM, partition=PARTITION, checks=checks, deadline=deadline)


def check(number: int, *nodes: str, allocate: bool = True) -> AskedCheck:
    """A check about these nodes."""
    return AskedCheck(number, AppId("app"), AllocationKey("k"), allocate, [NodeId(node) for node in nodes])


def written(effect: PredicatesAsked) -> sp.PredicateChecks:
    """The checks as a protobuf message."""
    return sp.PredicateChecks(
        checks=[
            sp.PredicateCheck(
                id=item.check,
                partition_name=effect.partition,
                application_id=item.app_id,
                allocation_key=item.key,
                allocate=item.allocate,
                node_ids=item.nodes,
                deadline_milliseconds=round(effect.deadline * 1000),
            )
            for item in effect.checks
        ]
    )


def any_check() -> st.SearchStrategy[AskedCheck]:
    """Any check."""
    numbers = st.integers(1, 2**64 - 1)
    nodes = st.lists(NAMES.map(NodeId), min_size=1, max_size=4)
    return st.builds(AskedCheck, numbers, NAMES.map(AppId), NAMES.map(AllocationKey), st.booleans(), nodes)


@given(
    wanted=st.lists(any_check(), min_size=1, max_size=5),
    milliseconds=st.integers(10, 60_000),
)
def test_checks_are_written_as_protobuf_would(wanted: list[AskedCheck], milliseconds: int) -> None:
    """The bytes equal those of protobuf, whatever the names, also for cached pieces."""
    effect, encoder = asked(wanted, milliseconds / 1000), CheckEncoder()
    expected = written(effect).SerializeToString(deterministic=True)
    for _ in range(2):
        [payload] = encoder.payloads(effect)
        assert payload.data == expected
        assert (payload.kind, payload.items) == (Kind.CHECKS, len(wanted))


def test_the_cache_of_pieces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names beyond the size of the cache are encoded as well."""
    monkeypatch.setattr(convert_checks, "CHECKS_BYTES", 8_000)
    effect, encoder = asked([check(n, f"n{n}", "n1") for n in range(1, 50)]), CheckEncoder()
    [payload] = encoder.payloads(effect)
    assert payload.data == written(effect).SerializeToString()


def test_many_checks_are_several_messages() -> None:
    """No message has more checks than a response may have items, and each has its last one."""
    effect = asked([check(number, "n1") for number in range(1, 2_501)])
    payloads = list(CheckEncoder().payloads(effect))
    assert [payload.items for payload in payloads] == [MAX_RESPONSE_ITEMS, MAX_RESPONSE_ITEMS, 500]
    assert [payload.last_check for payload in payloads] == [1000, 2000, 2500]
    told = [item.id for payload in payloads for item in sp.PredicateChecks.FromString(payload.data).checks]
    assert told == list(range(1, 2_501))


def test_large_checks_are_several_messages() -> None:
    """A thousand checks of a hundred nodes with long names are sent in several messages."""
    nodes = [f"node-{number}.{'x' * 200}" for number in range(100)]
    effect = asked([check(number, *nodes) for number in range(1, 101)])
    payloads = list(CheckEncoder().payloads(effect))
    assert max(len(payload.data) for payload in payloads) <= MAX_RESPONSE_BYTES
    assert sum(payload.items for payload in payloads) == 100
    assert payloads[-1].last_check == 100
    assert all(
        sp.PredicateChecks.FromString(payload.data).checks[-1].id == payload.last_check
        for payload in payloads
    )


def test_a_check_larger_than_a_message_is_sent_separately() -> None:
    """A check that is larger than a message cannot be split, and is sent in a message of its own."""
    huge = ["x" * MAX_RESPONSE_BYTES]
    effect = asked([check(1, "n1"), check(2, *huge), check(3, "n1")])
    payloads = list(CheckEncoder().payloads(effect))
    assert [(payload.items, payload.last_check) for payload in payloads] == [(1, 1), (1, 2), (1, 3)]


# Answers


def read(*answers: sp.PredicateAnswer) -> list[PredicateAnswer]:
    """The answers as received by the core."""
    raw = sp.PredicateAnswers(answers=answers).SerializeToString()
    return answers_in(raw)


def answers_in(raw: bytes) -> list[PredicateAnswer]:
    """The answers in the bytes of a message."""
    commands = at_once(predicate_answers(RM, raw, pace()))
    assert all(command.rm_id == RM for command in commands)
    return [answer for command in commands for answer in command.answers]


def refusals(*refused: tuple[str, str]) -> list[tuple[str, str]]:
    """An answer with these refusals, as node and reason."""
    wire = [sp.NodeRefusal(node_id=node, reason=reason) for node, reason in refused]
    [answer] = read(sp.PredicateAnswer(id=7, refused=wire))
    assert answer.check == 7
    return [(refusal.node_id, refusal.reason) for refusal in answer.refused]


def test_answers_keep_their_order() -> None:
    """The order of answers is kept, because the RM judged them one after the other."""
    numbers = [3, 1, 2, 300, 2**64 - 1]
    assert [answer.check for answer in read(*(sp.PredicateAnswer(id=n) for n in numbers))] == numbers
    assert read() == []


@given(number=st.integers(0, 2**64 - 1))
def test_answers_without_refusals_are_read_without_a_parse(number: int) -> None:
    """The fast path for answers without refusals has the result of the slow path."""
    raw = sp.PredicateAnswer(id=number).SerializeToString()
    # An unknown field causes the slow path.
    strange = raw + b"\x78\x01"
    both = delimited(sp.PredicateAnswers.ANSWERS_FIELD_NUMBER, raw) + delimited(
        sp.PredicateAnswers.ANSWERS_FIELD_NUMBER, strange
    )
    short, long = answers_in(both)
    assert (short.check, list(short.refused)) == (long.check, list(long.refused)) == (number, [])


def test_the_last_number_of_an_answer_counts() -> None:
    """The last number of an answer counts, as in protobuf."""
    raw = delimited(sp.PredicateAnswers.ANSWERS_FIELD_NUMBER, b"\x08\x01\x08\x02")
    assert [answer.check for answer in answers_in(raw)] == [2]


def test_unknown_fields_are_ignored() -> None:
    """Fields of later versions are ignored."""
    raw = (
        b"\x78\x01"
        + delimited(15, b"later")
        + sp.PredicateAnswers(answers=[sp.PredicateAnswer(id=1)]).SerializeToString()
    )
    assert [answer.check for answer in answers_in(raw)] == [1]


def test_answers_have_their_refusals_in_order() -> None:
    """Nodes and reasons are unchanged; equal reasons are one object."""
    refused = refusals(("n1", "no gpu"), ("n2", "taint"), ("n3", "no gpu"))
    assert refused == [("n1", "no gpu"), ("n2", "taint"), ("n3", "no gpu")]
    wire = [sp.NodeRefusal(node_id="n1", reason="no gpu")]
    one, two = read(*(sp.PredicateAnswer(id=n, refused=wire) for n in (1, 2)))
    assert one.refused[0] == NodeRefusal(node_id=NodeId("n1"), reason="no gpu")
    assert one.refused[0].reason is two.refused[0].reason


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("", NO_REASON),
        (" \n\t ", NO_REASON),
        ("no\n  gpu\r\nhere\u2028or there ", "no gpu here or there"),
        ("a\x1bb", "a\\x1bb"),
        ("x" * 1000, "x" * MAX_REASON),
        ("\x1b" * 1000, ("\\x1b" * MAX_REASON)[:MAX_REASON]),
        ("\n" * 1000 + "too late", NO_REASON),
    ],
)
def test_reasons_are_made_printable(said: str, shown: str) -> None:
    """A reason becomes one line, bounded and without control characters; an empty one gets a text."""
    assert refusals(("n1", said)) == [("n1", shown)]


def test_invalid_node_names_are_ignored() -> None:
    """A name that is too long for a node is ignored, and the others count."""
    assert refusals(("x" * 513, "r"), ("n1", "r")) == [("n1", "r")]


def test_refusals_are_counted_before_they_are_read() -> None:
    """More refusals than any check has nodes are an error that is found before they are read."""
    refusal = delimited(sp.PredicateAnswer.REFUSED_FIELD_NUMBER, b"\xff\xff")
    field = sp.PredicateAnswers.ANSWERS_FIELD_NUMBER
    with pytest.raises(CallError, match=f"has more than {MAX_REFUSALS} refused, no check") as caught:
        answers_in(delimited(field, refusal * (MAX_REFUSALS + 1)))
    assert list(faults(caught.value)) == ["predicate_answers.answers.refused"]
    with pytest.raises(Malformed, match="PredicateAnswer"):
        answers_in(delimited(field, refusal))


def test_answers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message may have the maximum number of items in answers, and one more is refused."""
    monkeypatch.setattr(convert_checks, "MAX_ANSWERS", 3)
    answers = [sp.PredicateAnswer(id=number) for number in range(1, 5)]
    assert len(read(*answers[:3])) == 3
    with pytest.raises(CallError, match="PredicateAnswers holds more than 3 answers"):
        read(*answers)


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x05\x08", b"\x0a\x02\x08\x80", b"\x0b"])
def test_invalid_bytes_are_refused(raw: bytes) -> None:
    """Truncated bytes and bytes of an unknown kind are malformed."""
    with pytest.raises(Malformed):
        answers_in(raw)
