"""What the client is asked and told beside the answers to what it says."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from licorne import (
    Application,
    Ask,
    Client,
    ContainerState,
    EventRecord,
    FailMode,
    Node,
    Question,
    RetryConfig,
)
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import (
    ContainerStates,
    Events,
    Predicates,
    PredicatesAnswer,
    PredicatesQuestion,
    UpdateRequest,
)
from support.scripted import ScriptedStream, scripted
from support.shim import eventually

QUICK = RetryConfig(initial=0.01, maximum=0.02)


def asking(number: int = 1, *, nodes: Sequence[str] = ("n1", "n2"), **fields: Any) -> Any:
    """A question about the ask `k`."""
    fields = {"allocate": True, "deadline_milliseconds": 10_000, **fields}
    return PredicatesQuestion(
        id=number,
        partition_name="[rm1]default",
        application_id="a",
        allocation_key="k",
        node_ids=nodes,
        **fields,
    )


def answered(request: UpdateRequest | None) -> dict[str, str]:
    """The refusals in an answer, reason by node."""
    assert request is not None
    assert request.HasField("predicates"), request
    assert request.number > 0
    return {item.node_id: item.reason for item in request.predicates.refused}


@asynccontextmanager
async def client(target: str, **fields: Any) -> AsyncIterator[Client]:
    """A client that does not wait long, with somebody who listens."""

    async def listen(rm: Client) -> None:
        async for _ in rm.events():
            pass

    async with Client(target, rm_id="rm1", retry=QUICK, **fields) as rm:
        listener = asyncio.create_task(listen(rm))
        yield rm
    await listener


async def until_goodbye(stream: ScriptedStream) -> None:
    """Read until the client leaves."""
    while (request := await stream.read()) is not None:
        if request.HasField("goodbye"):
            return


async def test_hello_says_what_is_wanted() -> None:
    """Deadline and fail mode go out in the hello, and what is not wanted is not asked for."""
    hellos = []

    async def script(stream: ScriptedStream) -> None:
        hellos.append((await stream.welcome()).hello)
        await stream.replay()
        await until_goodbye(stream)

    fields: list[dict[str, Any]] = [
        {},
        {
            "predicates": lambda _: {},
            "predicate_deadline": 0.5,
            "fail_mode": FailMode.OPEN,
            "on_events": print,
        },
        {"on_container_states": print},
    ]
    async with scripted(script, script, script) as target:
        for wanted in fields:
            async with client(target, **wanted) as rm:
                await rm.ready()
    nothing, everything, states = (hello.callbacks for hello in hellos)
    assert not nothing.ListFields()
    assert everything.predicates == Predicates(deadline_milliseconds=500, fail_mode=1)  # type: ignore[arg-type]
    assert (everything.container_states, everything.events) == (False, True)
    assert (states.HasField("predicates"), states.container_states) == (False, True)


@pytest.mark.parametrize("deadline", [0.0, 0.009, 61.0, float("nan")])
async def test_impossible_deadlines_are_refused_at_once(deadline: float) -> None:
    """A deadline that no server takes is an error of whoever made the client."""
    with pytest.raises(ValueError, match=f"the deadline of predicates is {deadline} s"):
        Client("127.0.0.1:1", rm_id="rm1", predicates=lambda _: {}, predicate_deadline=deadline)


def refuse(question: Question) -> Mapping[str, str]:
    """Refuse the last node, and one that nobody asked about."""
    return {question.nodes[-1]: "no gpu", "elsewhere": "unknown"}


async def refuse_later(question: Question) -> Mapping[str, str]:
    """The same, after a turn of the loop."""
    await asyncio.sleep(0)
    return refuse(question)


def refuse_in_parts(question: Question) -> Awaitable[Mapping[str, str]]:
    """Begin plain, and go on async."""
    return refuse_later(question)


@pytest.mark.parametrize("function", [refuse, refuse_later, refuse_in_parts])
async def test_questions_are_answered(function: Callable[[Question], Any]) -> None:
    """Plain and async functions decide alike; nodes that were not asked about are left out."""
    done = asyncio.Event()

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicates=asking(7))
        request = await stream.read()
        assert answered(request) == {"n2": "no gpu"}
        assert request is not None
        assert request.predicates.id == 7
        done.set()
        await until_goodbye(stream)

    async with scripted(script) as target, client(target, predicates=function):
        await eventually(done.is_set)


async def test_a_question_says_all_there_is_to_know() -> None:
    """The function gets the ask as it was told to the client, and None for one that is gone."""
    asked: list[Question] = []
    done = asyncio.Event()

    async def note(question: Question) -> Mapping[str, str]:
        asked.append(question)
        return {}

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicates=asking())
        gone = asking(2)
        gone.allocation_key = "gone"
        await stream.write(number=3, predicates=gone)
        assert [answered(await stream.read()) for _ in range(2)] == [{}, {}]
        done.set()
        await until_goodbye(stream)

    ask = Ask(key="k", application_id="a", resources={"vcore": 1}, tags={"gpu": "yes"})
    async with scripted(script) as target, client(target, predicates=note) as rm:
        await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 5})])
        await rm.submit_applications([Application(application_id="a", user="ann")])
        await rm.ask([ask])
        await rm.ready()
        await eventually(done.is_set)
    assert asked[0] == Question(
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


async def test_a_slow_function_holds_up_nothing_else() -> None:
    """While a plain function blocks, answers arrive, requests leave, and it is in no one's way."""
    hold, done = threading.Event(), asyncio.Event()

    def wait(_: Question) -> Mapping[str, str]:
        hold.wait(10)
        return {}

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicates=asking())
        request = await stream.read()
        assert request is not None
        assert [node.nodeID for node in request.nodes.nodes] == ["n1"]
        hold.set()
        assert answered(await stream.read()) == {}
        done.set()
        await until_goodbye(stream)

    try:
        async with scripted(script) as target, client(target, predicates=wait) as rm:
            await rm.ready()
            await rm.add_nodes([Node(node_id="n1", capacity={"vcore": 5})])
            await eventually(done.is_set)
    finally:
        hold.set()


async def test_what_fails_or_takes_too_long_is_not_answered() -> None:
    """A function that raises, answers nonsense or is late leaves its question to the fail mode."""

    async def judge(question: Question) -> Any:
        match question.id:
            case 1:
                raise RuntimeError("no idea")
            case 2:
                return {"n1": 7}
            case 3:
                await asyncio.Event().wait()
        return {}

    done = asyncio.Event()

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        for number in (1, 2, 3):
            question = asking(number, deadline_milliseconds=20)
            await stream.write(number=number + 1, predicates=question)
        await stream.write(number=5, predicates=asking(4))
        request = await stream.read()
        assert request is not None
        assert request.predicates == PredicatesAnswer(id=4)
        done.set()
        await until_goodbye(stream)

    async with scripted(script) as target, client(target, predicates=judge) as rm:
        await rm.ready()
        await eventually(lambda: done.is_set() and rm.stats.unanswered == 3)


def gated() -> tuple[asyncio.Event, asyncio.Event, Callable[[Question], Awaitable[Any]]]:
    """A function that tells when it was asked, and answers when it may."""
    was_asked, may_answer = asyncio.Event(), asyncio.Event()

    async def judge(_: Question) -> Mapping[str, str]:
        was_asked.set()
        await may_answer.wait()
        return {"n1": "late"}

    return was_asked, may_answer, judge


async def test_an_answer_survives_its_stream() -> None:
    """A question of a stream that broke is answered on the next, when the session is resumed."""
    was_asked, may_answer, judge = gated()

    async def breaking(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicates=asking())
        await was_asked.wait()

    async def resuming(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.write(
            acknowledged=2, welcome={"resumed": True, "resume_token": "t", "heartbeat_seconds": 9}
        )
        # The question again: it was not acknowledged when the stream broke.
        await stream.write(number=2, predicates=asking())
        may_answer.set()
        assert answered(await stream.read()) == {"n1": "late"}
        request = await stream.read()
        assert request is not None
        assert request.HasField("goodbye")

    async with scripted(breaking, resuming) as target, client(target, predicates=judge) as rm:
        await eventually(lambda: rm.stats.resumed == 1 and may_answer.is_set())


async def test_an_answer_does_not_outlive_its_session() -> None:
    """After a registration the question is void: its answer is dropped, and harms nothing."""
    was_asked, may_answer, judge = gated()

    async def breaking(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, predicates=asking())
        await was_asked.wait()

    async def anew(stream: ScriptedStream) -> None:
        stream.session = 2
        await stream.welcome()
        await stream.replay()
        may_answer.set()
        request = await stream.read()
        assert request is not None
        assert request.HasField("goodbye")

    async with scripted(breaking, anew) as target, client(target, predicates=judge) as rm:
        await eventually(lambda: rm.stats.replayed == 2 and may_answer.is_set())
        for _ in range(10):
            await asyncio.sleep(0)


async def test_answers_go_before_what_waits() -> None:
    """However much is waiting to be sent, an answer leaves with the next request."""
    may_read = asyncio.Event()

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome(max_items=1)
        await stream.replay()
        await stream.write(number=2, predicates=asking())
        kinds = []
        while "predicates" not in kinds:
            request = await stream.read()
            assert request is not None
            kinds.append(request.WhichOneof("message"))
        assert len(kinds) < 100
        may_read.set()
        await until_goodbye(stream)

    async def judge(_: Question) -> Mapping[str, str]:
        await rm.add_nodes(Node(node_id=f"n{i}", capacity={"vcore": 1}) for i in range(5_000))
        return {}

    async with scripted(script) as target, client(target, predicates=judge) as rm:
        await rm.ready()
        await eventually(may_read.is_set)


async def test_container_states_are_told_in_order() -> None:
    """Every state arrives, in order and once, also while the function is busy or has failed."""
    heard: list[ContainerState] = []

    async def note(states: Sequence[ContainerState]) -> None:
        heard.extend(states)
        await asyncio.sleep(0)
        if len(heard) == 1:
            raise RuntimeError("out of order")

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        for number in (2, 3, 3):
            state = si.UpdateContainerSchedulingStateRequest(
                applicationID="a",
                allocationKey=f"k{number}",
                state=si.UpdateContainerSchedulingStateRequest.FAILED,
                reason="waiting",
            )
            told = ContainerStates(states=[state])
            await stream.write(number=number, container_states=told)
        await until_goodbye(stream)

    async with scripted(script) as target, client(target, on_container_states=note):
        await eventually(lambda: len(heard) == 2)
    assert heard == [
        ContainerState("k2", "a", "FAILED", "waiting"),
        ContainerState("k3", "a", "FAILED", "waiting"),
    ]


def events(first: int, count: int) -> Events:
    """Events of an application, ids from `first` on."""
    record = si.EventRecord(
        type=si.EventRecord.APP,
        objectID="a",
        referenceID="k",
        message="text",
        timestampNano=1_500_000_000,
        eventChangeType=si.EventRecord.ADD,
        eventChangeDetail=si.EventRecord.APP_ALLOC,
        resource=si.Resource(resources={"vcore": si.Quantity(value=5)}),
    )
    return Events(first_id=first, records=[record] * count)


async def test_events_come_with_their_ids() -> None:
    """Each record has its own id, also behind a gap, and its fields by the names of the wire."""
    heard: list[EventRecord] = []

    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.write(number=2, events=events(0, 2))
        await stream.write(number=3, events=events(7, 1))
        await until_goodbye(stream)

    async with scripted(script) as target, client(target, on_events=heard.extend):
        await eventually(lambda: len(heard) == 3)
    assert [record.id for record in heard] == [0, 1, 7]
    assert heard[0] == EventRecord(
        id=0,
        type="APP",
        object_id="a",
        reference_id="k",
        message="text",
        time=1.5,
        change="ADD",
        detail="APP_ALLOC",
        resources={"vcore": 5},
    )
