"""Lists of predicate checks: judged in order, answered in few messages, none lost."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from licorne import PredicateCheck
from licorne.callbacks import answer
from licorne.check_runner import CheckRunner
from licorne.session import Stamp, Stats
from licorne.v1 import session_pb2 as pb
from licorne.v1.session_pb2 import PredicateAnswer
from support.patience import PATIENCE
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import eventually

MANY = 2_500
STAMP: Stamp = (1, 1)


def wire(number: int, **fields: Any) -> pb.PredicateCheck:
    """A check as it is sent."""
    fields = {"deadline_milliseconds": 10_000, "node_ids": ["n1", "n2"], **fields}
    return pb.PredicateCheck(id=number, application_id="a", allocation_key=f"k{number}", **fields)


def check(number: int, deadline: float = 10.0) -> PredicateCheck:
    """A check in the form of the function's argument."""
    return PredicateCheck(
        id=number,
        key=f"k{number}",
        application_id="a",
        partition="[rm1]default",
        nodes=("n1", "n2"),
        allocate=True,
        deadline=deadline,
        ask=None,
    )


class Sent:
    """The answers sent by a runner, and whether it was stopped."""

    def __init__(self) -> None:
        """Start without answers."""
        self.ids: list[int] = []

    def __call__(self, stamp: Stamp, answer: PredicateAnswer) -> None:
        """Note an answer."""
        assert stamp == STAMP
        self.ids.append(answer.id)


async def read_answers(stream: ScriptedStream, count: int) -> tuple[list[PredicateAnswer], int]:
    """This number of answers, and the number of messages with them."""
    answers: list[PredicateAnswer] = []
    messages = 0
    while len(answers) < count:
        request = await stream.read()
        assert request is not None
        assert request.HasField("predicate_answers"), request
        assert len(request.predicate_answers.answers) <= 1000
        answers += request.predicate_answers.answers
        messages += 1
    return answers, messages


def odd_ones(judged: PredicateCheck) -> Mapping[str, str]:
    """Refuse a node to every other ask."""
    return {"n1": "odd"} if judged.id % 2 else {}


async def test_a_plain_function_judges_a_list_in_order() -> None:
    """Checks are judged one after the other, also those of several messages, and answered in that order."""
    judged: list[int] = []
    done = asyncio.Event()

    def judge(asked: PredicateCheck) -> Mapping[str, str]:
        judged.append(asked.id)
        return odd_ones(asked)

    @served
    async def script(stream: ScriptedStream) -> None:
        for number, begin in enumerate(range(1, MANY, 500), 2):
            checks = [wire(place) for place in range(begin, begin + 500)]
            await stream.write(number=number, predicate_checks=pb.PredicateChecks(checks=checks))
        answers, messages = await read_answers(stream, MANY)
        assert [answer.id for answer in answers] == list(range(1, MANY + 1))
        assert [len(answer.refused) for answer in answers] == [1, 0] * (MANY // 2)
        # Far fewer messages than answers, however slow the machine is.
        assert messages < MANY / 2
        done.set()

    async with scripted(script) as target, listening(target, predicates=judge) as rm:
        await eventually(done.is_set)
        assert rm.stats.unanswered == 0
    assert judged == list(range(1, MANY + 1))


async def test_async_functions_judge_a_list_at_once() -> None:
    """All functions are started in order before one has to end."""
    begun: list[int] = []
    go_on, done = asyncio.Event(), asyncio.Event()

    async def judge(asked: PredicateCheck) -> Mapping[str, str]:
        begun.append(asked.id)
        if len(begun) == 100:
            go_on.set()
        await go_on.wait()
        return odd_ones(asked)

    @served
    async def script(stream: ScriptedStream) -> None:
        checks = [wire(number) for number in range(1, 101)]
        await stream.write(number=2, predicate_checks=pb.PredicateChecks(checks=checks))
        answers, _ = await read_answers(stream, 100)
        assert sorted(answer.id for answer in answers) == list(range(1, 101))
        done.set()

    async with scripted(script) as target, listening(target, predicates=judge):
        await eventually(done.is_set)
    assert begun == list(range(1, 101))


async def test_a_failure_in_a_list_does_not_affect_others(caplog: pytest.LogCaptureFixture) -> None:
    """A check whose function fails is logged and not answered; earlier and later checks are answered."""

    def judge(asked: PredicateCheck) -> Any:
        if asked.id == 2:
            raise RuntimeError("no idea")
        return {"n1": 7} if asked.id == 3 else {}

    sent, stats = Sent(), Stats()
    runner = CheckRunner(judge, answer, sent, stats)
    runner.start(STAMP, [check(number) for number in range(1, 6)])
    await eventually(lambda: len(sent.ids) == 3 and stats.unanswered == 2)
    assert sent.ids == [1, 4, 5]
    assert "no idea" in caplog.text
    runner.stop()


async def test_a_function_that_cannot_be_called_fails_on_every_check() -> None:
    """A function without a parameter, async or not, fails on checks, and the stream continues."""

    async def later() -> Mapping[str, str]:
        return {}

    def now() -> Mapping[str, str]:
        return {}

    functions: list[Any] = [later, now]
    for function in functions:
        sent, stats = Sent(), Stats()
        runner = CheckRunner(function, answer, sent, stats)
        runner.start(STAMP, [check(1), check(2)])
        await eventually(lambda stats=stats: stats.unanswered == 2)  # type: ignore[misc]
        assert sent.ids == []
        runner.stop()


async def test_quick_answers_do_not_wait_for_a_slow_one() -> None:
    """Finished answers are sent while a plain function is busy with the next check."""
    hold = threading.Event()

    def judge(asked: PredicateCheck) -> Mapping[str, str]:
        if asked.id == 3:
            hold.wait(PATIENCE)
        return {}

    sent = Sent()
    runner = CheckRunner(judge, answer, sent, Stats())
    try:
        runner.start(STAMP, [check(number) for number in range(1, 5)])
        await eventually(lambda: sent.ids == [1, 2])
    finally:
        hold.set()
    await eventually(lambda: sent.ids == [1, 2, 3, 4])
    runner.stop()


async def test_a_list_that_takes_too_long_is_answered_partly() -> None:
    """Checks judged in time are answered; the others are counted, and not judged."""
    hold, judged = threading.Event(), []

    def judge(asked: PredicateCheck) -> Mapping[str, str]:
        judged.append(asked.id)
        if asked.id == 3:
            hold.wait(PATIENCE)
        return {}

    sent, stats = Sent(), Stats()
    runner = CheckRunner(judge, answer, sent, stats)
    try:
        runner.start(STAMP, [check(number, deadline=2.0) for number in range(1, 6)])
        await eventually(lambda: stats.unanswered)
        assert stats.unanswered == 3
        assert sent.ids == [1, 2]
    finally:
        hold.set()
    # The thread is free again, and expired checks are not judged.
    runner.start(STAMP, [check(6)])
    await eventually(lambda: sent.ids == [1, 2, 6])
    assert judged == [1, 2, 3, 6]
    runner.stop()


async def test_a_list_without_a_turn_is_counted() -> None:
    """While the thread is busy with one list, the time of later lists runs."""
    hold = threading.Event()

    def judge(asked: PredicateCheck) -> Mapping[str, str]:
        if asked.id == 1:
            hold.wait(PATIENCE)
        return {}

    sent, stats = Sent(), Stats()
    runner = CheckRunner(judge, answer, sent, stats)
    try:
        runner.start(STAMP, [check(1)])
        runner.start(STAMP, [check(2, deadline=0.05), check(3, deadline=0.05)])
        await eventually(lambda: stats.unanswered == 2)
    finally:
        hold.set()
    await eventually(lambda: sent.ids == [1])
    runner.stop()


def plain(hold: threading.Event) -> Callable[[PredicateCheck], Mapping[str, str]]:
    """A function that waits."""

    def judge(_: PredicateCheck) -> Mapping[str, str]:
        hold.wait(PATIENCE)
        return {}

    return judge


def in_loop(_: threading.Event) -> Callable[[PredicateCheck], Awaitable[Mapping[str, str]]]:
    """The same function as a coroutine."""

    async def judge(_: PredicateCheck) -> Mapping[str, str]:
        await asyncio.Event().wait()
        return {}

    return judge


@pytest.mark.parametrize("function", [plain, in_loop])
async def test_nothing_is_answered_after_a_stop(
    function: Callable[[threading.Event], Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither running nor waiting checks are answered or counted, and nothing is logged."""
    hold = threading.Event()
    sent, stats = Sent(), Stats()
    runner = CheckRunner(function(hold), answer, sent, stats)
    lists: list[Sequence[PredicateCheck]] = [[check(1), check(2)], [check(3)]]
    for checks in lists:
        runner.start(STAMP, checks)
    await asyncio.sleep(0)
    runner.stop()
    hold.set()
    threads = [each for each in threading.enumerate() if each.name.startswith("licorne-predicates")]
    await eventually(lambda: not any(thread.is_alive() for thread in threads))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (sent.ids, stats.unanswered) == ([], 0)
    assert not caplog.records
