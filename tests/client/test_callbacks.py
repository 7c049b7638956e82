"""Questions to the client, and its encoded answers."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from licorne import Application, Ask, ClassBy, Client, FailMode, Node, PredicateCheck
from licorne.callbacks import MAX_REASON, Callbacks
from licorne.v1 import session_pb2 as pb
from licorne.v1.session_pb2 import PredicateAnswer, Predicates, UpdateRequest
from support.patience import PATIENCE
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import eventually


def asking(number: int = 1, *, nodes: Sequence[str] = ("n1", "n2"), **fields: Any) -> Any:
    """A predicate check for the ask `k`."""
    fields = {"allocate": True, "deadline_milliseconds": 10_000, **fields}
    return pb.PredicateCheck(
        id=number,
        partition_name="[rm1]default",
        application_id="a",
        allocation_key="k",
        node_ids=nodes,
        **fields,
    )


def listed(*checks: Any) -> Any:
    """Checks as a response has them."""
    return pb.PredicateChecks(checks=checks)


def answers_in(request: UpdateRequest | None) -> list[PredicateAnswer]:
    """The answers in a request, which must have some."""
    assert request is not None
    assert request.HasField("predicate_answers"), request
    assert request.number > 0
    answers = list(request.predicate_answers.answers)
    assert answers
    return answers


def answered(request: UpdateRequest | None) -> dict[str, str]:
    """The refusals in a request with one answer, reason by node."""
    [answer] = answers_in(request)
    return {item.node_id: item.reason for item in answer.refused}


async def test_a_hello_has_the_callbacks() -> None:
    """The hello has deadline and modes, and callbacks without a function are off."""
    hellos = []

    async def script(stream: ScriptedStream) -> None:
        hellos.append((await stream.welcome()).hello)
        await stream.replay()
        await stream.until_goodbye()

    fields: list[dict[str, Any]] = [
        {},
        {
            "predicates": lambda _: {},
            "predicate_deadline": 0.5,
            "fail_mode": FailMode.OPEN,
            "class_by": ClassBy.ALL_TAGS,
            "on_events": print,
        },
        {"on_container_states": print},
    ]
    async with scripted(script, script, script) as target:
        for wanted in fields:
            async with listening(target, **wanted) as rm:
                await rm.ready()
    nothing, everything, states = (hello.callbacks for hello in hellos)
    assert not nothing.ListFields()
    assert everything.predicates == Predicates(
        deadline_milliseconds=500, fail_mode=pb.FAIL_OPEN, class_by=pb.BY_ALL_TAGS
    )
    assert (everything.container_states, everything.events) == (False, True)
    assert (states.HasField("predicates"), states.container_states) == (False, True)


@pytest.mark.parametrize("deadline", [0.0, 0.009, 61.0, float("nan"), "2", None])
async def test_impossible_deadlines_are_refused(deadline: Any) -> None:
    """A deadline that no server accepts is an error when the client is created."""
    text = f"predicate_deadline is {deadline!r}: it must be seconds, between 0.01 and 60"
    with pytest.raises(ValueError, match=f"^{text}$"):
        Client("127.0.0.1:1", rm_id="rm1", predicates=lambda _: {}, predicate_deadline=deadline)


async def test_an_invalid_fail_mode_is_refused() -> None:
    """Any other value, such as the name of a mode, is refused, because it would count as CLOSED."""
    bad: Any = "OPEN"
    with pytest.raises(ValueError, match=r"^fail_mode is 'OPEN': it must be a FailMode$"):
        Client("127.0.0.1:1", rm_id="rm1", predicates=lambda _: {}, fail_mode=bad)


async def test_an_invalid_way_of_classing_is_refused() -> None:
    """Each way has its value on the wire; any other is refused, because it would count as ASK."""
    ways = {way: Callbacks(predicates=print, class_by=way).wire().predicates for way in ClassBy}  # type: ignore[arg-type]
    assert {way.name: wire.class_by for way, wire in ways.items()} == {
        "ASK": pb.BY_ASK,
        "TAG": pb.BY_TAG,
        "ALL_TAGS": pb.BY_ALL_TAGS,
    }
    bad: Any = "TAG"
    with pytest.raises(ValueError, match=r"^class_by is 'TAG': it must be a ClassBy$"):
        Client("127.0.0.1:1", rm_id="rm1", predicates=lambda _: {}, class_by=bad)


def refuse(check: PredicateCheck) -> Mapping[str, str]:
    """Refuse the last node, and one that is not in the check."""
    return {check.nodes[-1]: "no gpu", "elsewhere": "unknown"}


async def refuse_later(check: PredicateCheck) -> Mapping[str, str]:
    """The same refusals, after a turn of the loop."""
    await asyncio.sleep(0)
    return refuse(check)


def refuse_in_parts(check: PredicateCheck) -> Awaitable[Mapping[str, str]]:
    """Start as a plain function, and continue as a coroutine."""
    return refuse_later(check)


@pytest.mark.parametrize("function", [refuse, refuse_later, refuse_in_parts])
async def test_predicate_checks_are_answered(function: Callable[[PredicateCheck], Any]) -> None:
    """Plain and async functions give equal answers; nodes outside the check are left out."""
    done = asyncio.Event()

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, predicate_checks=listed(asking(7)))
        request = await stream.read()
        assert answered(request) == {"n2": "no gpu"}
        assert answers_in(request)[0].id == 7
        done.set()

    async with scripted(script) as target, listening(target, predicates=function):
        await eventually(done.is_set)


async def test_long_reasons_are_cut() -> None:
    """A long reason is cut to the length that the server stores."""
    done = asyncio.Event()
    text = "é" * 1_000_000

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, predicate_checks=listed(asking()))
        assert answered(await stream.read()) == {"n1": text[:MAX_REASON], "n2": text[:MAX_REASON]}
        done.set()

    def verbose(check: PredicateCheck) -> Mapping[str, str]:
        return dict.fromkeys(check.nodes, text)

    async with scripted(script) as target, listening(target, predicates=verbose):
        await eventually(done.is_set)


async def test_a_check_is_passed_completely() -> None:
    """The function gets the ask in the caller's form, and None for a removed ask."""
    asked: list[PredicateCheck] = []
    done = asyncio.Event()

    async def note(check: PredicateCheck) -> Mapping[str, str]:
        asked.append(check)
        return {}

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, predicate_checks=listed(asking()))
        gone = asking(2)
        gone.allocation_key = "gone"
        await stream.write(number=3, predicate_checks=listed(gone))
        answers: list[PredicateAnswer] = []
        while len(answers) < 2:
            answers += answers_in(await stream.read())
        assert answers == [PredicateAnswer(id=1), PredicateAnswer(id=2)]
        done.set()

    ask = Ask(key="k", application_id="a", resources={"vcore": 1}, tags={"gpu": "yes"})
    async with scripted(script) as target, listening(target, predicates=note) as rm:
        await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 5})])
        await rm.submit_applications([Application(application_id="a", user="ann")])
        await rm.ask([ask])
        await rm.ready()
        await eventually(done.is_set)
    assert asked[0] == PredicateCheck(
        id=1,
        key="k",
        application_id="a",
        partition="[rm1]default",
        nodes=("n1", "n2"),
        allocate=True,
        deadline=10.0,
        ask=ask,
    )
    assert asked[1].ask is None


async def test_a_slow_function_delays_nothing_else() -> None:
    """While a plain function blocks, messages are received and requests sent."""
    hold, done = threading.Event(), asyncio.Event()

    def wait(_: PredicateCheck) -> Mapping[str, str]:
        hold.wait(PATIENCE)
        return {}

    @served
    async def script(stream: ScriptedStream) -> None:
        await stream.write(number=2, predicate_checks=listed(asking()))
        request = await stream.read()
        assert request is not None
        assert [node.nodeID for node in request.nodes.nodes] == ["n1"]
        hold.set()
        assert answered(await stream.read()) == {}
        done.set()

    try:
        async with scripted(script) as target, listening(target, predicates=wait) as rm:
            await rm.ready()
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 5})])
            await eventually(done.is_set)
    finally:
        hold.set()


async def test_failures_are_not_answered() -> None:
    """If a function raises, returns an invalid value or is late, the fail mode decides."""

    async def judge(check: PredicateCheck) -> Any:
        match check.id:
            case 1:
                raise RuntimeError("no idea")
            case 2:
                return {"n1": 7}
            case 3:
                await asyncio.Event().wait()
        return {}

    done = asyncio.Event()

    @served
    async def script(stream: ScriptedStream) -> None:
        for number in (1, 2, 3):
            check = asking(number, deadline_milliseconds=20)
            await stream.write(number=number + 1, predicate_checks=listed(check))
        await stream.write(number=5, predicate_checks=listed(asking(4)))
        assert answers_in(await stream.read()) == [PredicateAnswer(id=4)]
        done.set()

    async with scripted(script) as target, listening(target, predicates=judge) as rm:
        await rm.ready()
        await eventually(lambda: done.is_set() and rm.stats.unanswered == 3)


def gated() -> tuple[asyncio.Event, asyncio.Event, Callable[[PredicateCheck], Awaitable[Any]]]:
    """A function that signals its call, and answers on a signal."""
    was_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def judge(_: PredicateCheck) -> Mapping[str, str]:
        was_asked.set()
        await may_answer.wait()
        return {"n1": "late"}

    return was_asked, may_answer, judge


async def test_an_answer_survives_its_stream() -> None:
    """A check from a broken stream is answered on the next one, if the session is resumed."""
    was_asked, may_answer, judge = gated()

    async def breaking(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicate_checks=listed(asking()))
        await was_asked.wait()

    async def resuming(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.write(
            acknowledged=2, welcome={"resumed": True, "resume_token": "t", "heartbeat_seconds": 9}
        )
        # The check is repeated, because it was not acknowledged when the stream broke.
        await stream.write(number=2, predicate_checks=listed(asking()))
        may_answer.set()
        assert answered(await stream.read()) == {"n1": "late"}
        request = await stream.read()
        assert request is not None
        assert request.HasField("goodbye")

    async with scripted(breaking, resuming) as target, listening(target, predicates=judge) as rm:
        await eventually(lambda: rm.stats.resumed == 1 and may_answer.is_set())


async def test_an_answer_does_not_outlive_its_session() -> None:
    """After a registration the check is void, and its answer is dropped."""
    was_asked, may_answer, judge = gated()

    async def breaking(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicate_checks=listed(asking()))
        await was_asked.wait()

    async def anew(stream: ScriptedStream) -> None:
        stream.session = 2
        await stream.welcome()
        await stream.replay()
        may_answer.set()
        request = await stream.read()
        assert request is not None
        assert request.HasField("goodbye")

    async with scripted(breaking, anew) as target, listening(target, predicates=judge) as rm:
        await eventually(lambda: rm.stats.replayed == 2 and may_answer.is_set())
        for _ in range(10):
            await asyncio.sleep(0)


async def test_answers_precede_waiting_requests() -> None:
    """However many requests wait, an answer is part of the next one."""
    may_read = asyncio.Event()

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome(max_items=1)
        await stream.replay()
        await stream.write(number=2, predicate_checks=listed(asking()))
        kinds = []
        while "predicate_answers" not in kinds:
            request = await stream.read()
            assert request is not None
            kinds.append(request.WhichOneof("message"))
        assert len(kinds) < 100
        may_read.set()
        await stream.until_goodbye()

    async def judge(_: PredicateCheck) -> Mapping[str, str]:
        await rm.add_nodes(Node(node_id=f"n{i}", capacity={"vcore": 1}) for i in range(5_000))
        return {}

    async with scripted(script) as target, listening(target, predicates=judge) as rm:
        await rm.ready()
        await eventually(may_read.is_set)
