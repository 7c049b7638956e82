"""Preemption checks and their answers as bytes: messages, and refusals."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from licorne.v1 import session_pb2 as sp
from licorne_core.messages.commands import PreemptionAnswer
from licorne_core.messages.effects import AskedNode, AskedPreemption, AskedVictim, PreemptionsAsked
from licorne_core.values.ids import AllocationKey, AppId, NodeId, PartitionName, RmId
from licorne_server.wire.caps import MAX_ANSWERS, MAX_ID, MAX_NEEDS
from licorne_server.wire.checks import MAX_CHECK_BYTES, preemption_answers, victim_payloads
from licorne_server.wire.errors import CallError, Malformed
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, Kind
from support.core.steps import at_once, pace
from support.peers.shim import faults

RM = RmId("rm")
PARTITION = PartitionName("[rm]default")


def asked(*checks: AskedPreemption, deadline: float = 2.0) -> PreemptionsAsked:
    """These checks of one partition."""
    return PreemptionsAsked(rm_id=RM, partition=PARTITION, checks=checks, deadline=deadline)


def check(number: int, *nodes: AskedNode) -> AskedPreemption:
    """A check about these nodes."""
    return AskedPreemption(number, AppId("app"), AllocationKey("k"), nodes)


def on(node: str, *keys: str, start: int = -1) -> AskedNode:
    """A node with these victims."""
    victims = [AskedVictim(AppId("low"), AllocationKey(key)) for key in keys]
    return AskedNode(NodeId(node), victims, start)


def read(effect: PreemptionsAsked) -> list[sp.PreemptionChecks]:
    """The checks as read by an RM."""
    return [sp.PreemptionChecks.FromString(item.data) for item in victim_payloads(effect)]


def answers(*wanted: sp.PreemptionAnswer) -> Sequence[PreemptionAnswer]:
    """The core's input for these answers."""
    raw = sp.PreemptionAnswers(answers=wanted).SerializeToString()
    return answers_in(raw)


def answers_in(raw: bytes) -> Sequence[PreemptionAnswer]:
    """The core's input for the answers in the bytes of a message."""
    commands = at_once(preemption_answers(RM, raw, pace()))
    assert all(command.rm_id == RM for command in commands)
    return [answer for command in commands for answer in command.answers]


def need(node: str, index: int) -> sp.NodeNeed:
    """The ask can run on the node once the victims up to the index have ended."""
    return sp.NodeNeed(node_id=node, index=index)


def refusal(*wanted: sp.PreemptionAnswer) -> tuple[str, str]:
    """The field and the text of the error for these answers."""
    with pytest.raises(CallError) as caught:
        answers(*wanted)
    [(field, text)] = faults(caught.value).items()
    assert text == caught.value.message
    return field, text


def test_a_check_is_encoded_completely() -> None:
    """A check has the ask, the nodes with the best first, their victims in order, the start, and the time."""
    effect = asked(
        check(7, on("n2", "v1", "v2", "v3", start=1), on("n1")),
        check(9, on("n1", "v1", start=0)),
        deadline=0.5,
    )
    [message] = read(effect)
    first, second = message.checks
    assert first == sp.PreemptionCheck(
        id=7,
        partition_name=PARTITION,
        application_id="app",
        allocation_key="k",
        nodes=[
            sp.NodeVictims(
                node_id="n2",
                victims=[sp.Victim(application_id="low", allocation_key=key) for key in ("v1", "v2", "v3")],
                start_index=1,
            ),
            sp.NodeVictims(node_id="n1", start_index=-1),
        ],
        deadline_milliseconds=500,
    )
    assert (second.id, second.nodes[0].start_index) == (9, 0)


def test_a_payload_has_its_last_check() -> None:
    """A payload has the number of its last check, so that the time begins when the check was written."""
    [payload] = victim_payloads(asked(check(7), check(9)))
    assert (payload.kind, payload.items, payload.last_check) == (Kind.VICTIMS, 2, 9)


def test_many_large_checks_are_several_messages() -> None:
    """No message grows beyond the size of a response; order and numbers are kept."""
    keys = [f"{number}-{'x' * 200}" for number in range(40)]
    effect = asked(*(check(number, *(on(f"n{n}", *keys) for n in range(10))) for number in range(9)))
    payloads = list(victim_payloads(effect))
    assert len(payloads) > 1
    assert max(len(payload.data) for payload in payloads) <= MAX_RESPONSE_BYTES
    messages = read(effect)
    assert [item.id for message in messages for item in message.checks] == list(range(9))
    last = [message.checks[-1].id for message in messages]
    assert [payload.last_check for payload in payloads] == last


def test_a_check_of_very_many_victims_has_the_best_nodes() -> None:
    """A check keeps the best nodes that fit into 4 MiB, which a client accepts; others count as refused."""
    keys = [f"{number}-{'x' * 500}" for number in range(1000)]
    effect = asked(check(1, *(on(f"n{n}", *keys, start=999) for n in range(10))))
    [payload] = victim_payloads(effect)
    assert len(payload.data) < 4 * 1024 * 1024
    [message] = read(effect)
    named = [node.node_id for node in message.checks[0].nodes]
    assert 0 < len(named) < 10
    assert named == [f"n{n}" for n in range(len(named))]
    assert all(len(node.victims) == 1000 for node in message.checks[0].nodes)


def test_a_single_node_is_always_kept() -> None:
    """A single node is kept, whatever the number of its victims."""
    keys = [f"{number}-{'x' * 500}" for number in range(4000)]
    [message] = read(asked(check(1, on("n1", *keys, start=3999))))
    [node] = message.checks[0].nodes
    assert len(node.victims) == 4000
    assert node.ByteSize() > MAX_CHECK_BYTES


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**64 - 1),
            st.dictionaries(st.text(max_size=5), st.integers(-1, 2**31 - 1), max_size=4),
        ),
        max_size=4,
    )
)
def test_answers_are_converted(wanted: list[tuple[int, dict[str, int]]]) -> None:
    """An answer has the check, and the last victim to stop on each node."""
    got = answers(
        *(
            sp.PreemptionAnswer(id=number, nodes=[need(*item) for item in nodes.items()])
            for number, nodes in wanted
        )
    )
    assert [(answer.check, dict(answer.needed)) for answer in got] == wanted


@pytest.mark.parametrize(
    ("nodes", "field", "text"),
    [
        (
            [need("n1", 0), need("n2", -2)],
            "nodes.index",
            "PreemptionAnswer 3: index of node n2 is -2, it must not be below -1",
        ),
        (
            [need("n1", 0), need("n1", 1)],
            "nodes.node_id",
            "PreemptionAnswer 3 names node n1 twice",
        ),
        (
            [need(f"n{number}", 0) for number in range(MAX_NEEDS + 1)],
            "nodes",
            f"PreemptionAnswer has more than {MAX_NEEDS} nodes, no check asks for more",
        ),
    ],
)
def test_invalid_answers_are_refused_with_field_and_value(
    nodes: list[sp.NodeNeed], field: str, text: str
) -> None:
    """An invalid answer is refused with field and value, and nothing of its message is passed on."""
    fine = sp.PreemptionAnswer(id=2, nodes=[need("n1", 0)])
    bad = sp.PreemptionAnswer(id=3, nodes=nodes)
    assert refusal(fine, bad) == (f"preemption_answers.answers.{field}", text)


def test_too_many_answers_are_refused() -> None:
    """The number of answers in a message is bounded, because they are handled at once."""
    assert len(answers(*[sp.PreemptionAnswer(id=1)] * MAX_ANSWERS)) == MAX_ANSWERS
    field, text = refusal(*[sp.PreemptionAnswer(id=1)] * (MAX_ANSWERS + 1))
    assert field == "preemption_answers.answers"
    assert text == f"PreemptionAnswers holds more than {MAX_ANSWERS} answers"


def test_an_impossible_node_is_ignored() -> None:
    """A node with an id that is too long is ignored, because no check can have named it."""
    [answer] = answers(sp.PreemptionAnswer(id=1, nodes=[need("n" * (MAX_ID + 1), 0), need("n", 0)]))
    assert answer.needed == {"n": 0}


@pytest.mark.parametrize("raw", [b"\x0a", b"\x0a\x02\x12\x7f", b"\x0a\x04\x12\x02\x0a\x05", b"\x07"])
def test_garbage_is_malformed(raw: bytes) -> None:
    """Truncated messages, and invalid wire types, are malformed."""
    with pytest.raises(Malformed):
        answers_in(raw)
