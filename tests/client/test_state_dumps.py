"""The client's part of a state dump of the server."""

import asyncio
from typing import Any

import aiohttp
import pytest

from licorne import Client
from licorne.v1.session_pb2 import StateDump, StateDumpWanted
from support.patience import PATIENCE
from support.peers.scripted import ScriptedStream, listening, scripted, served
from support.peers.shim import LOOPBACK, eventually, serving


async def answer_of(function: Any, deadline: int = 10_000) -> StateDump:
    """The answer of a client with that function."""
    answers: list[StateDump] = []

    async def script(stream: ScriptedStream) -> None:
        hello = await stream.welcome()
        assert hello.hello.callbacks.state_dump
        await stream.replay()
        wanted = StateDumpWanted(id=7, deadline_milliseconds=deadline)
        await stream.write(number=2, state_dump_wanted=wanted)
        request = await stream.read()
        assert request is not None
        assert request.number > 0
        answers.append(request.state_dump)
        await stream.until_goodbye()

    async with scripted(script) as target, listening(target, on_state_dump=function):
        await eventually(lambda: answers)
    return answers[0]


async def later() -> Any:
    """A state that takes a moment."""
    await asyncio.sleep(0)
    return {"pods": [1]}


def broken() -> Any:
    """A function without a state."""
    raise RuntimeError("no cache")


@pytest.mark.parametrize(
    ("function", "json", "error"),
    [
        (lambda: {"pods": [1]}, '{"pods": [1]}', ""),
        (later, '{"pods": [1]}', ""),
        (lambda: later(), '{"pods": [1]}', ""),  # noqa: PLW0108
        (lambda: '{"ready": true}', '{"ready": true}', ""),
        (broken, "", "RuntimeError: no cache"),
        (lambda: {1, 2}, "", "TypeError: Object of type set is not JSON serializable"),
        (lambda: float("nan"), "", "ValueError: Out of range float values are not JSON compliant"),
        (
            lambda: "x" * 1_048_577,
            "",
            "ValueError: the state has 1048577 bytes, at most 1048576 are taken",
        ),
    ],
)
async def test_the_result_of_the_function_is_sent(function: Any, json: str, error: str) -> None:
    """A value or a text is sent, at once or later; for an invalid value an error is sent instead."""
    answer = await answer_of(function)
    assert (answer.id, answer.json) == (7, json)
    assert answer.error.startswith(error) if error else not answer.error


async def test_a_late_state_is_not_sent() -> None:
    """After the deadline the client sends nothing; the next request is answered."""
    asked: list[int] = []
    answers: list[StateDump] = []

    async def state() -> Any:
        asked.append(1)
        if len(asked) == 1:
            await asyncio.Event().wait()
        return asked

    @served
    async def script(stream: ScriptedStream) -> None:
        hurried = StateDumpWanted(id=1, deadline_milliseconds=1)
        await stream.write(number=2, state_dump_wanted=hurried)
        await eventually(lambda: asked)
        wanted = StateDumpWanted(id=2, deadline_milliseconds=10_000)
        await stream.write(number=3, state_dump_wanted=wanted)
        request = await stream.read()
        assert request is not None
        answers.append(request.state_dump)

    async with scripted(script) as target, listening(target, on_state_dump=state):
        await eventually(lambda: answers)
    assert answers == [StateDump(id=2, json="[1, 1]")]


@pytest.mark.row(166)
async def test_state_is_in_the_dump_of_a_server() -> None:
    """A reader of the dump gets the RM's part."""
    async with serving(http=LOOPBACK) as server:
        state = {"cache": {"pods": 3}}
        async with Client(server.grpc_address, rm_id="rm1", on_state_dump=lambda: state) as rm:
            await asyncio.wait_for(rm.ready(), PATIENCE)
            url = f"http://{server.http_address}/debug/fullstatedump"
            async with aiohttp.ClientSession() as client, client.get(url) as answer:
                assert (await answer.json())["rmDiagnostics"] == {"rm1": state}
