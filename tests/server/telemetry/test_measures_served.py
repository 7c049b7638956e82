"""Measures of RMs on a real server, under a clock moved by the test."""

import aiohttp
import grpc
import pytest

from licorne import AskRejected, Rejected
from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.testing import FakeRM, Served, VirtualClock, serve


async def samples(served: Served) -> dict[str, float]:
    """All samples of a scrape."""
    url = f"http://{served.http}/metrics"
    async with aiohttp.ClientSession() as client, client.get(url) as answer:
        text = await answer.text()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_an_ask_is_timed_from_reading_to_its_allocation() -> None:
    """An ask that waits seven seconds for a node is recorded once, with seven seconds."""
    clock = VirtualClock()
    async with serve(clock=clock) as served, FakeRM(served.target, clock=clock) as rm:
        await rm.submit("app")
        await rm.ask("app", 3)
        await rm.submit("later")
        await clock.advance(7)
        await rm.add_nodes(1)
        await rm.allocated(3)
        found = await samples(served)
    assert found['licorne_allocation_latency_seconds_count{rm="rm1"}'] == 3
    assert found['licorne_allocation_latency_seconds_sum{rm="rm1"}'] == 21
    assert found['licorne_allocation_latency_seconds_bucket{rm="rm1",le="5.0"}'] == 0
    assert found['licorne_turn_duration_seconds_count{rm="rm1"}'] > 0
    assert found['yunikorn_scheduler_trynode_latency_milliseconds_count{rm="rm1"}'] > 0
    assert found['licorne_rm_outbox_wait_seconds_count{rm="rm1"}'] > 0
    assert found['licorne_rm_outbox_age_seconds{rm="rm1"}'] == 0


async def test_answers_are_timed_from_the_question() -> None:
    """An answer after three seconds is recorded with three seconds."""
    clock = VirtualClock()
    async with (
        serve(clock=clock) as served,
        FakeRM(served.target, clock=clock, predicates=lambda *_: None, predicate_deadline=60) as rm,
    ):
        await rm.add_nodes(1)
        await rm.submit("app")
        rm.answering.clear()
        await rm.ask("app")
        await rm.until(lambda: bool(rm.checks), "the question")
        await clock.advance(3)
        rm.answering.set()
        await rm.allocated(1)
        found = await samples(served)
    assert found['licorne_predicate_answer_seconds_count{rm="rm1"}'] == 1
    assert found['licorne_predicate_answer_seconds_sum{rm="rm1"}'] == 3


async def test_rejections_and_connections() -> None:
    """Rejected items are counted by kind and reason, and a reconnected RM as a new connection."""
    async with serve() as served:
        async with FakeRM(served.target) as rm:
            await rm.add_nodes(1)
            await rm.submit("app")
            with pytest.raises(Rejected):
                await rm.submit("strange", user="a b\n")
            await rm.ask("nobody")
            await rm.until(lambda: any(isinstance(e, AskRejected) for e in rm.events), "a no")
        async with FakeRM(served.target):
            found = await samples(served)
    rejections = {key: value for key, value in found.items() if "licorne_rejections" in key}
    assert rejections == {
        'licorne_rejections_total{rm="rm1",item="application",reason="INVALID"}': 1,
        'licorne_rejections_total{rm="rm1",item="allocation",reason="UNKNOWN_APPLICATION"}': 1,
    }
    assert found['licorne_rm_connections_total{rm="rm1"}'] == 2


async def test_calls_are_counted_by_status() -> None:
    """A call is counted by method and status; a stream is one call."""
    async with serve() as served, grpc.aio.insecure_channel(served.target) as channel:
        state = StateStub(channel)
        await state.ListPartitions(pb.ListPartitionsRequest())
        with pytest.raises(grpc.aio.AioRpcError):
            await state.ListQueues(pb.ListQueuesRequest(partition="nowhere"))
        service = 'grpc_service="licorne.v1.State",grpc_method="{}",grpc_type="unary"'
        listed, refused = service.format("ListPartitions"), service.format("ListQueues")
        failed = f'grpc_server_handled_total{{{refused},grpc_code="NOT_FOUND"}}'
        # A caller has the status of a failed call before the call has ended at the server.
        while failed not in (found := await samples(served)):
            continue
    assert found[f"grpc_server_started_total{{{listed}}}"] == 1
    assert found[f'grpc_server_handled_total{{{listed},grpc_code="OK"}}'] == 1
    assert found[failed] == 1
    assert found[f"grpc_server_handling_seconds_count{{{listed}}}"] == 1
