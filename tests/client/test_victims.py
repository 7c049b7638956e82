"""Questions to the client about victims of preemption, and its encoded answers."""

import threading
from typing import Any

import pytest

from licorne import Application, Ask, Client, NodeVictims, PredicateCheck, PreemptionCheck, Victim
from licorne.cache import Cache
from licorne.callbacks import Callbacks, preemption_answer, preemption_check
from licorne.v1 import session_pb2 as pb
from licorne.v1.session_pb2 import UpdateRequest
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import eventually


def asking(number: int = 1, **fields: Any) -> pb.PreemptionCheck:
    """A check about two nodes for the ask `k`: two victims on `n1`, no victim needed on `n2`."""
    fields = {"deadline_milliseconds": 10_000, **fields}
    victims = [pb.Victim(application_id="b", allocation_key=key) for key in ("v1", "v2")]
    nodes = [
        pb.NodeVictims(node_id="n1", victims=victims, start_index=0),
        pb.NodeVictims(node_id="n2", start_index=-1),
    ]
    return pb.PreemptionCheck(
        id=number,
        partition_name="[rm1]default",
        application_id="a",
        allocation_key="k",
        nodes=nodes,
        **fields,
    )


def listed(*checks: pb.PreemptionCheck) -> Any:
    """Checks as a response has them."""
    return pb.PreemptionChecks(checks=checks)


def answered(request: UpdateRequest | None) -> dict[int, dict[str, int]]:
    """The answers in a request, which must have some: the position by node, by id of the check."""
    assert request is not None
    assert request.HasField("preemption_answers"), request
    assert request.number > 0
    return {
        answer.id: {need.node_id: need.index for need in answer.nodes}
        for answer in request.preemption_answers.answers
    }


def fits(_: PredicateCheck) -> dict[str, str]:
    """Accept all nodes."""
    return {}


def test_victims_are_judged_by_rms_with_predicates() -> None:
    """Only an RM with the function is asked, and the function needs predicates."""
    with_it, without = Callbacks(predicates=fits, judge_victims=lambda _: {}), Callbacks(predicates=fits)
    assert [one.wire().predicates.judges_victims for one in (with_it, without)] == [True, False]
    with pytest.raises(ValueError, match="judge_victims needs predicates"):
        Client("127.0.0.1:1", rm_id="rm1", judge_victims=lambda _: {})


async def test_a_check_is_answered_by_the_function() -> None:
    """The function gets the ask, the nodes and their victims; a node that it leaves out is refused."""
    seen: list[PreemptionCheck] = []
    got: list[dict[int, dict[str, int]]] = []

    def judge(check: PreemptionCheck) -> dict[str, int]:
        seen.append(check)
        return {"n1": 1, "elsewhere": 7} if check.id == 2 else {"n2": -1}

    @served
    async def script(stream: ScriptedStream) -> None:
        for number in (2, 3):
            await stream.write(number=number, preemption_checks=listed(asking(number)))
            got.append(answered(await stream.read()))

    async with scripted(script) as target:
        client = Client(target, rm_id="rm1", predicates=fits, judge_victims=judge)
        await client.submit_applications([Application(application_id="a")])
        await client.ask([Ask(key="k", application_id="a", resources={"vcore": 1})])
        async with client:
            await eventually(lambda: len(got) == 2)
    assert got == [{2: {"n1": 1}}, {3: {"n2": -1}}]
    check = seen[0]
    assert check.ask is not None
    assert (check.key, check.application_id, check.deadline) == ("k", "a", 10.0)
    assert check.nodes == (
        NodeVictims(node_id="n1", victims=(Victim("v1", "b"), Victim("v2", "b")), start_index=0),
        NodeVictims(node_id="n2", victims=(), start_index=-1),
    )


@pytest.mark.parametrize(
    ("position", "text"),
    [
        (-1, "-1: a position must lie between 0 and 1"),
        (2, "2: a position must lie between 0 and 1"),
        ("v1", "'v1': a position must be a whole number"),
    ],
)
def test_an_invalid_position_is_a_failure(position: Any, text: str) -> None:
    """Another position counts as a failure of the function; the error has node and value."""
    with pytest.raises(ValueError, match=f"^the position for node n1 is {text}"):
        preemption_answer(preemption_check(asking(), Cache()), {"n1": position})


async def test_plain_functions_of_both_kinds_share_a_thread() -> None:
    """Plain functions of both kinds may share data about the nodes without a lock."""
    threads: list[int] = []
    got: list[UpdateRequest] = []

    def note(_: object) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {}

    @served
    async def script(stream: ScriptedStream) -> None:
        check = pb.PredicateCheck(id=1, node_ids=["n1"], deadline_milliseconds=10_000)
        await stream.write(number=2, predicate_checks=pb.PredicateChecks(checks=[check]))
        await stream.write(number=3, preemption_checks=listed(asking(2)))
        while len(got) < 2:
            got.append(await stream.read() or UpdateRequest())

    async with (
        scripted(script) as target,
        listening(target, predicates=note, judge_victims=note),
    ):
        await eventually(lambda: len(got) == 2)
    kinds = {request.WhichOneof("message") for request in got}
    assert kinds == {"predicate_answers", "preemption_answers"}
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()
