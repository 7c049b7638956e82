"""Members with the secret that violate the protocol: each violation costs one line of the log."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp
import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1 import state_pb2 as state
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.http.pages import ACT
from licorne_server.services.members.packing import ACCEPTED, SERVICE
from licorne_server.store.coordination.pb import members_pb2 as pb
from licorne_server.store.coordination.secret import METADATA
from licorne_server.store.coordination.store import Member, MemberId
from support.peers.members import SECRET, Deployment, members
from support.peers.shim import LOOPBACK, connected, eventually
from support.server.reports import warned

PASS = f"/{SERVICE}/Pass"
FRAMES = pb.Frames(
    frames=[
        pb.Frame(
            call=1, open=pb.Open(method="/licorne.v1.State/ListRms", caller=pb.Caller(peer="p", address="x"))
        ),
        pb.Frame(call=1, message=state.ListRmsRequest(page_size=3, page_token="a").SerializeToString()),
        pb.Frame(call=1, half=pb.Half()),
    ]
).SerializeToString()


def damaged(seed: int) -> bytes:
    """Frames with a byte or two replaced."""
    draw = random.Random(seed)
    raw = bytearray(FRAMES)
    for _ in range(draw.randint(1, 2)):
        raw[draw.randrange(len(raw))] = draw.randrange(256)
    return bytes(raw)


async def test_invalid_frames_end_the_stream_of_a_member(two: Deployment, channel: grpc.aio.Channel) -> None:
    """Invalid frames end the stream with their reason, without a defect here; others are answered."""
    with capture_logs() as lines:
        ends = []
        for seed in range(120):
            call: Any = channel.stream_stream(PASS)(metadata=((METADATA, SECRET),))
            assert await call.read() == ACCEPTED
            await call.write(damaged(seed))
            await call.done_writing()
            with suppress(grpc.aio.AioRpcError):
                while await call.read() is not grpc.aio.EOF:
                    pass
            ends.append((await call.code(), await call.details()))
    told = warned(lines)
    cut = [details for code, details in ends if code is grpc.StatusCode.INVALID_ARGUMENT]
    assert 20 < len(cut) < 110
    assert all(details.startswith("malformed message: ") for details in cut)
    assert {code for code, _ in ends} == {grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT}
    assert {line["event"] for line in told} == {"member cut off: it keeps to no protocol"}
    assert len(told) == len(cut)


@asynccontextmanager
async def talking(*answers: bytes) -> AsyncIterator[str]:
    """The address of a member that answers each call between members with these messages."""

    async def talk(_: Any, context: Any) -> None:
        await context.write(ACCEPTED)
        await context.read()
        for answer in answers:
            await context.write(answer)
        await context.read()

    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler(
        SERVICE, {"Pass": grpc.stream_stream_rpc_method_handler(talk)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


NO_ANSWER = pb.Frames(
    frames=[pb.Frame(call=1, message=b"\xff"), pb.Frame(call=1, end=pb.End())]
).SerializeToString()


@pytest.mark.parametrize(("answer", "why"), [(b"\xff", "Frames: "), (NO_ANSWER, "malformed answer: ")])
async def test_an_invalid_answer_counts_as_missing(answer: bytes, why: str) -> None:
    """The member counts as one that does not answer, and the log has the reason in a line."""
    async with members("a") as deployment, talking(answer) as address:
        deployment.add(Member(id=MemberId("b"), name="b", address=address))
        async with connected(deployment.servers["a"]) as channel:
            with capture_logs() as lines:
                stub: Any = StateStub(channel)
                rms = await stub.ListRms(state.ListRmsRequest())
                await eventually(lambda: any(why in line.get("reason", "") for line in lines))
    assert rms.missing_members == ["b"]
    assert not [line for line in lines if line["log_level"] == "error"]


@pytest.mark.parametrize("answer", [b"\xff", NO_ANSWER])
async def test_an_invalid_answer_to_an_act_is_reported_as_missing(answer: bytes) -> None:
    """The page reports a missing answer of the member, and the log has one line."""
    async with (
        members("a", http=LOOPBACK) as deployment,
        talking(answer) as address,
        aiohttp.ClientSession() as client,
    ):
        deployment.add(Member(id=MemberId("b"), name="b", address=address))
        deployment.give("rm", "b")
        url = f"http://{deployment.servers['a'].http_address}{ACT}"
        with capture_logs() as lines:
            async with client.post(url, json={"act": "cordon", "rm": "rm", "name": "n0"}) as refused:
                body = await refused.json()
    assert (refused.status, body["code"]) == (503, "UNAVAILABLE"), body
    assert [line["log_level"] for line in warned(lines)] == ["warning"]
