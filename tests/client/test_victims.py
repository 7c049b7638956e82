"""Questions to the client about victims of preemption, and the encoding of its answers."""

import asyncio
import threading
from typing import Any

import pytest

from licorne import Application, Ask, Client, FailMode, NodeVictims, PredicateCheck, PreemptionCheck, Victim
from licorne.v1 import session_pb2 as pb
from licorne.v1.session_pb2 import UpdateRequest
from support.peers.scripted import ScriptedStream, listening, scripted
from support.peers.shim import eventually


def asking(number: int = 1, **fields: Any) -> pb.PreemptionCheck:
    """A check about two nodes for the ask `k`: two victims on `n1`, none needed on `n2`."""
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


async def test_hello_says_whether_victims_are_judged() -> None:
    """Only a client with the function is asked."""
    hellos = []

    async def script(stream: ScriptedStream) -> None:
        hellos.append((await stream.welcome()).hello)
        await stream.replay()
        await stream.until_goodbye()

    kinds: list[dict[str, Any]] = [{}, {"judge_victims": lambda _: {}}]
    async with scripted(script, script) as target:
        for fields in kinds:
            async with listening(target, predicates=fits, **fields) as rm:
                await rm.ready()
    assert [hello.callbacks.predicates.judges_victims for hello in hellos] == [False, True]


async def test_victims_are_not_judged_without_predicates() -> None:
    """The server asks about victims only for asks with predicates."""
    with pytest.raises(ValueError, match="judge_victims needs predicates"):
        Client("127.0.0.1:1", rm_id="rm1", judge_victims=lambda _: {})


@pytest.mark.parametrize("is_async", [True, False])
async def test_a_check_is_answered_by_the_function(is_async: bool) -> None:
    """The function gets the ask, the nodes and their victims; a node that it leaves out is refused."""
    seen: list[PreemptionCheck] = []
    got: list[dict[int, dict[str, int]]] = []

    def judge(check: PreemptionCheck) -> dict[str, int]:
        seen.append(check)
        return {"n1": 1, "elsewhere": 7}

    async def judge_later(check: PreemptionCheck) -> dict[str, int]:
        return judge(check)

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, preemption_checks=listed(asking(7)))
        got.append(answered(await stream.read()))
        await stream.until_goodbye()

    function = judge_later if is_async else judge
    async with scripted(script) as target:
        client = Client(target, rm_id="rm1", predicates=fits, judge_victims=function)
        await client.submit_applications([Application(application_id="a")])
        await client.ask([Ask(key="k", application_id="a", resources={"vcore": 1})])
        async with client:
            await eventually(lambda: got)
    assert got == [{7: {"n1": 1}}]
    [check] = seen
    assert check.ask is not None
    assert (check.key, check.application_id, check.deadline) == ("k", "a", 10.0)
    assert check.nodes == (
        NodeVictims(node_id="n1", victims=(Victim("v1", "b"), Victim("v2", "b")), start_index=0),
        NodeVictims(node_id="n2", victims=(), start_index=-1),
    )


async def test_the_start_of_a_node_may_be_no_victim_at_all() -> None:
    """The position -1 means that the ask can run on the node at once."""
    got: list[dict[int, dict[str, int]]] = []

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, preemption_checks=listed(asking()))
        got.append(answered(await stream.read()))
        await stream.until_goodbye()

    def judge(check: PreemptionCheck) -> dict[str, int]:
        return {node.node_id: node.start_index for node in check.nodes}

    async with (
        scripted(script) as target,
        listening(target, predicates=fits, judge_victims=judge),
    ):
        await eventually(lambda: got)
    assert got == [{1: {"n1": 0, "n2": -1}}]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (RuntimeError("no idea"), "no idea"),
        ({"n1": -1}, "the position for node n1 is -1: a position must lie between 0 and 1"),
        ({"n1": 2}, "the position for node n1 is 2: a position must lie between 0 and 1"),
        ({"n1": "v1"}, "the position for node n1 is 'v1': a position must be a whole number"),
        (None, "NoneType"),
    ],
)
async def test_a_failing_function_gives_no_answer(
    answer: Any, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The failure is logged and counted, and the next check is answered."""
    got: list[dict[int, dict[str, int]]] = []

    def judge(check: PreemptionCheck) -> dict[str, int]:
        if check.id == 1:
            if isinstance(answer, Exception):
                raise answer
            bad: dict[str, int] = answer
            return bad
        return {}

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, preemption_checks=listed(asking(1), asking(2)))
        got.append(answered(await stream.read()))
        await stream.until_goodbye()

    async with (
        scripted(script) as target,
        listening(target, predicates=fits, judge_victims=judge) as rm,
    ):
        await eventually(lambda: got)
        assert rm.stats.unanswered == 1
    assert got == [{2: {}}]
    assert text in caplog.text


async def test_a_slow_function_is_given_up_in_time() -> None:
    """The server applies the fail mode meanwhile; the stream has continued."""

    async def judge(_: PreemptionCheck) -> dict[str, int]:
        await asyncio.Event().wait()
        return {}

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        checks = listed(asking(deadline_milliseconds=20))
        await stream.write(number=2, preemption_checks=checks)
        await stream.until_goodbye()

    async with (
        scripted(script) as target,
        listening(target, predicates=fits, judge_victims=judge, fail_mode=FailMode.OPEN) as rm,
    ):
        await eventually(lambda: rm.stats.unanswered == 1)


async def test_plain_functions_of_both_kinds_share_a_thread() -> None:
    """They may share data about the nodes without a lock."""
    threads: list[int] = []
    got: list[UpdateRequest] = []

    def note(_: object) -> dict[str, Any]:
        threads.append(threading.get_ident())
        return {}

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        check = pb.PredicateCheck(id=1, node_ids=["n1"], deadline_milliseconds=10_000)
        await stream.write(number=2, predicate_checks=pb.PredicateChecks(checks=[check]))
        await stream.write(number=3, preemption_checks=listed(asking(2)))
        while len(got) < 2:
            got.append(await stream.read() or UpdateRequest())
        await stream.until_goodbye()

    async with (
        scripted(script) as target,
        listening(target, predicates=note, judge_victims=note),
    ):
        await eventually(lambda: len(got) == 2)
    kinds = {request.WhichOneof("message") for request in got}
    assert kinds == {"predicate_answers", "preemption_answers"}
    assert len(set(threads)) == 1
    assert threads[0] != threading.get_ident()


async def test_an_answer_is_not_sent_into_a_session_that_did_not_ask() -> None:
    """After a registration the check is void."""
    asked, go = asyncio.Event(), asyncio.Event()
    last: list[UpdateRequest | None] = []

    async def judge(_: PreemptionCheck) -> dict[str, int]:
        asked.set()
        await go.wait()
        return {}

    async def first(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, preemption_checks=listed(asking()))
        await asked.wait()

    async def second(stream: ScriptedStream) -> None:
        stream.session = 2
        await stream.welcome()
        await stream.replay()
        go.set()
        last.append(await stream.read())

    async with (
        scripted(first, second) as target,
        listening(target, predicates=fits, judge_victims=judge) as rm,
    ):
        await eventually(lambda: rm.stats.replayed == 2 and go.is_set())
        for _ in range(3):
            await asyncio.sleep(0)
    [request] = last
    assert request is not None
    assert request.HasField("goodbye")
