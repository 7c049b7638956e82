"""Spans of asks: their parents, events and outcomes."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from licorne.si.v1 import si_pb2 as si
from licorne.v1 import admin_pb2 as ap
from licorne.v1 import session_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.messages.commands import UpdateAllocations
from licorne_core.values.ids import RmId
from licorne_server.telemetry.tracing.ask_spans import MAX_OF_RM, MAX_RESOURCES, UNKNOWN_SECONDS
from licorne_server.telemetry.tracing.spans import MAX_EVENTS
from licorne_server.testing import VirtualClock
from support.peers.shim import (
    Call,
    RawSession,
    Shim,
    application,
    ask,
    connected,
    eventually,
    node,
    releases,
    resource,
)
from support.server.traces import (
    PARENT,
    TRACE,
    Traced,
    about,
    reasons,
    trace_id,
    traced_ask,
    traceparent,
    tracing,
)

QUEUES = (
    "partitions: [{{name: default, queues: [{{name: root, submitacl: '*', queues: "
    "[{{name: a, resources: {{max: {{vcore: {vcore}m}}}}}}]}}]}}]"
)
PREDICATES = sp.Callbacks(predicates=sp.Predicates(deadline_milliseconds=2000))
OTHER_TRACE = 0xABCDEF


@pytest.fixture
async def traced() -> AsyncIterator[Traced]:
    """A server that traces asks of sampled callers."""
    async with tracing() as traced:
        yield traced


@pytest.fixture
async def channel(traced: Traced) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to the server."""
    async with connected(traced.server) as channel:
        yield channel


@pytest.fixture
def shim(channel: grpc.aio.Channel) -> Shim:
    """An RM over `si.v1`."""
    return Shim(channel)


def closed(node_id: str, **amounts: int) -> si.NodeInfo:
    """A node to create that accepts no asks."""
    made = node(node_id, **amounts)
    made.action = si.NodeInfo.CREATE_DRAIN
    return made


async def cluster(shim: Shim, *, vcore: int = 300, metadata: Any = ()) -> tuple[Call, Call]:
    """An RM with the application `app` in a queue of this number of milli-cores, and no node.

    The streams of allocations, opened with the metadata, and of nodes.
    """
    await shim.register(QUEUES.format(vcore=vcore))
    app_call = shim.open("UpdateApplication")
    await shim.applications(app_call, application("app", "root.a"))
    return shim.open("UpdateAllocation", metadata), shim.open("UpdateNode")


async def test_an_ask_is_a_span_in_the_trace_of_its_caller(traced: Traced, shim: Shim) -> None:
    """The span lasts from the read to the allocation, with an event for each change of the blocker."""
    calls = await cluster(shim)
    await shim.ask(calls[0], traced_ask("k", vcore=200, priority=7))
    await traced.reason("rm", "k", "PARTITION_NOT_SCHEDULING")
    await shim.nodes(calls[1], node("small", vcore=150), closed("other", vcore=1000))
    await traced.reason("rm", "k", "NO_NODE_FITS")
    admin: Any = AdminStub(shim.channel)
    for vcore, reason in ((150, "NEVER_FITS"), (300, "NO_NODE_FITS")):
        config = QUEUES.format(vcore=vcore)
        await admin.UpdateConfiguration(ap.UpdateConfigurationRequest(rm_id="rm", config=config))
        await traced.reason("rm", "k", reason)
    await shim.nodes(calls[1], node("large", vcore=1000))
    [span] = await traced.ended()
    assert trace_id(span) == TRACE
    assert span.parent is not None
    assert span.parent.span_id == PARENT
    assert span.parent.is_remote
    assert reasons(span) == [
        "PARTITION_NOT_SCHEDULING",
        "NO_NODE_FITS",
        "NEVER_FITS",
        "NO_NODE_FITS",
    ]
    assert about(span) == {
        "rm_id": "rm",
        "partition": "[rm]default",
        "queue": "root.a",
        "application_id": "app",
        "allocation_key": "k",
        "node_id": "large",
        "priority": 7,
        "placeholder": False,
        "resource.vcore": 200,
        "outcome": "allocated",
    }
    times = [span.start_time, *(event.timestamp for event in span.events), span.end_time]
    assert times == sorted(time for time in times if time is not None)


async def test_the_metadata_of_the_stream_is_for_asks_without_a_context(traced: Traced, shim: Shim) -> None:
    """The tag of an ask, in any case of letters, overrides the context of its call."""
    metadata = [("traceparent", traceparent()), ("tracestate", "vendor=1")]
    calls = await cluster(shim, metadata=metadata)
    await shim.nodes(calls[1], node("n", vcore=1000))
    own = {"Licorne/TraceParent": traceparent(OTHER_TRACE), "licorne/tracestate": "other=2"}
    await shim.ask(calls[0], ask("a"), ask("b", allocationTags=own))
    spans = {about(span)["allocation_key"]: span for span in await traced.ended(2)}
    assert {key: trace_id(span) for key, span in spans.items()} == {"a": TRACE, "b": OTHER_TRACE}
    states = {key: span.context.trace_state for key, span in spans.items() if span.context}
    assert {key: state.to_header() for key, state in states.items()} == {
        "a": "vendor=1",
        "b": "other=2",
    }


async def test_the_metadata_of_a_session_is_for_its_asks(traced: Traced, channel: grpc.aio.Channel) -> None:
    """The context of a session's stream is that of its asks."""
    session = RawSession(channel)
    call, _ = await session.begin(metadata=[("traceparent", traceparent())])
    await session.replay(call, asks={"k": "app"})
    [span] = await traced.ended()
    assert (trace_id(span), about(span)["outcome"]) == (TRACE, "allocated")


async def test_a_caller_decides_whether_its_asks_are_traced(shim: Shim, traced: Traced) -> None:
    """Without the sampled flag nothing is recorded; without a context the sampling rate decides."""
    calls = await cluster(shim)
    await shim.nodes(calls[1], node("n", vcore=1000))
    unwanted = traced_ask("no", traceparent(OTHER_TRACE, sampled=False))
    await shim.ask(calls[0], unwanted, ask("without"), traced_ask("yes"))
    [span] = await traced.ended()
    assert about(span)["allocation_key"] == "yes"


async def test_asks_without_a_context_are_sampled() -> None:
    """At a rate of 1 each ask is a root span, unless its caller is not sampled."""
    async with tracing(sample=1.0) as traced, connected(traced.server) as channel:
        shim = Shim(channel)
        calls = await cluster(shim)
        await shim.nodes(calls[1], node("n", vcore=1000))
        unwanted = traced_ask("no", traceparent(sampled=False))
        await shim.ask(calls[0], unwanted, ask("a"), ask("b"))
        spans = await traced.ended(2)
        assert [span.parent for span in spans] == [None, None]
        assert len({trace_id(span) for span in spans}) == 2


@pytest.mark.parametrize("value", ["x", traceparent().upper(), "9" * 4000, traceparent()[:-1]])
async def test_a_malformed_context_refuses_no_ask(traced: Traced, shim: Shim, value: str) -> None:
    """The ask is placed, with the context of its stream, and the malformed one is counted."""
    calls = await cluster(shim, metadata=[("traceparent", traceparent())])
    await shim.nodes(calls[1], node("n", vcore=1000))
    await shim.ask(calls[0], traced_ask("k", value))
    [span] = await traced.ended()
    assert (trace_id(span), about(span)["outcome"]) == (TRACE, "allocated")
    assert traced.server.tracing is not None
    assert traced.server.tracing.counts.malformed == 1


async def test_malformed_metadata_refuses_no_call(traced: Traced, shim: Shim) -> None:
    """The stream is served as without a context."""
    calls = await cluster(shim, metadata=[("traceparent", "x")])
    await shim.nodes(calls[1], node("n", vcore=1000))
    await shim.ask(calls[0], ask("k"), traced_ask("own"))
    [span] = await traced.ended()
    assert about(span)["allocation_key"] == "own"
    assert traced.server.tracing is not None
    assert traced.server.tracing.counts.malformed == 1


async def test_a_refused_ask_is_an_error(traced: Traced, shim: Shim) -> None:
    """The span of a rejected ask has the reason of the rejection."""
    calls = await cluster(shim)
    await shim.ask(calls[0], traced_ask("k", app_id="nobody"))
    answer = await calls[0].next()
    [span] = await traced.ended()
    assert about(span)["outcome"] == "rejected"
    assert span.status.description == answer.rejectedAllocations[0].reason
    assert not span.status.is_ok


async def test_the_span_of_a_released_ask_ends(traced: Traced, shim: Shim) -> None:
    """The span of an ask ends when its RM releases it, removes the application or registers again."""
    calls = await cluster(shim)
    await shim.ask(calls[0], *(traced_ask(key) for key in "abc"))
    for key in "abc":
        await traced.reason("rm", key, "PARTITION_NOT_SCHEDULING")
    gone = si.AllocationRelease(applicationID="app", allocationKey="a", terminationType=si.STOPPED_BY_RM)
    request = si.AllocationRequest(rmID="rm", releases=releases(gone))
    await calls[0].send(request)
    await traced.ended(1)
    remove = [si.RemoveApplicationRequest(applicationID="app")]
    app_call = shim.open("UpdateApplication")
    await app_call.send(si.ApplicationRequest(rmID="rm", remove=remove))
    await traced.ended(3)
    calls = await cluster(shim)
    await shim.ask(calls[0], traced_ask("d"))
    await traced.reason("rm", "d", "PARTITION_NOT_SCHEDULING")
    await shim.register()
    spans = await traced.ended(4)
    outcomes = {about(span)["allocation_key"]: about(span)["outcome"] for span in spans}
    assert outcomes == {"a": "released", "b": "gone", "c": "gone", "d": "rm gone"}


async def test_repeated_asks_and_allocations_have_no_second_span(traced: Traced, shim: Shim) -> None:
    """Only asks that are new to the core have spans."""
    calls = await cluster(shim)
    await shim.nodes(calls[1], node("n", vcore=1000))
    await shim.ask(calls[0], traced_ask("k"), traced_ask("there", nodeID="n"))
    await traced.ended(1)
    await shim.ask(calls[0], traced_ask("k"))
    await traced.still()
    assert traced.server.tracing is not None
    counts = traced.server.tracing.counts
    await eventually(lambda: not counts.followed)
    await shim.ask(calls[0], traced_ask("waits", vcore=250), traced_ask("waits", vcore=250))
    await traced.reason("rm", "waits", "QUEUE_MAX_EXCEEDED")
    assert counts.followed == 1
    assert len(traced.spans()) == 1


async def test_a_check_by_the_rm_is_a_span_below_that_of_the_ask(
    traced: Traced, channel: grpc.aio.Channel
) -> None:
    """A predicate check is a span from question to answer."""
    session = RawSession(channel)
    call, _ = await session.begin(callbacks=PREDICATES)
    await session.replay(call)
    request = si.AllocationRequest(allocations=[traced_ask("k")])
    await session.send(call, allocations=request)
    [check] = (await session.until(call, "predicate_checks")).predicate_checks.checks
    await traced.reason("rm", "k", "WAITS_FOR_ANSWER")
    answers = [sp.PredicateAnswer(id=check.id)]
    await session.send(call, predicate_answers=sp.PredicateAnswers(answers=answers))
    [span] = await traced.ended()
    [question] = traced.spans("predicate check")
    assert question.parent is not None
    assert span.context is not None
    assert question.parent.span_id == span.context.span_id
    assert about(question) == {
        "rm_id": "rm",
        "partition": "[rm]default",
        "check": check.id,
        "nodes": 1,
        "outcome": "answered",
    }
    assert reasons(span) == ["WAITS_FOR_ANSWER"]


async def test_the_span_of_a_lost_ask_ends() -> None:
    """The span of an ask that does not reach the core ends after some seconds, and makes room."""
    clock = VirtualClock()
    async with tracing(clock=clock) as traced, connected(traced.server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin()
        await session.replay(call)
        rm = traced.server.rms.find("rm")
        assert rm is not None
        tracer = traced.server.tracing
        assert tracer is not None
        lost = rm.reader.read(traced_ask("lost").SerializeToString())
        tracer.asked(rm.rm_id, UpdateAllocations(rm_id=rm.rm_id, asks=[lost]))
        await clock.advance(UNKNOWN_SECONDS - 1)
        assert not traced.spans()
        await clock.advance(3)
        [span] = await traced.ended()
        assert about(span)["outcome"] == "gone"
        assert tracer.counts.followed == 0


async def test_the_number_of_followed_asks_is_bounded(traced: Traced, shim: Shim) -> None:
    """Asks beyond the bound of an RM are scheduled, and counted as not followed."""
    calls = await cluster(shim)
    tags = {"licorne/traceparent": traceparent()}
    asks = [ask(f"k{n}", vcore=1, allocationTags=tags) for n in range(MAX_OF_RM + 3)]
    for begin in range(0, len(asks), 2000):
        await shim.ask(calls[0], *asks[begin : begin + 2000])
    assert traced.server.tracing is not None
    counts = traced.server.tracing.counts
    await eventually(lambda: counts.dropped["too_many_asks"] == 3)
    assert counts.followed == MAX_OF_RM


async def test_the_last_events_of_a_long_span_are_kept(traced: Traced, shim: Shim) -> None:
    """A span keeps its last events, in bounded memory."""
    calls = await cluster(shim)
    await shim.nodes(calls[1], node("small", vcore=150), closed("other", vcore=1000))
    await shim.ask(calls[0], traced_ask("k", vcore=200))
    await traced.reason("rm", "k", "NO_NODE_FITS")
    admin: Any = AdminStub(shim.channel)
    ways = ((150, "NEVER_FITS"), (300, "NO_NODE_FITS")) * (MAX_EVENTS // 2 + 1)
    for vcore, reason in ways:
        config = QUEUES.format(vcore=vcore)
        await admin.UpdateConfiguration(ap.UpdateConfigurationRequest(rm_id="rm", config=config))
        await traced.reason("rm", "k", reason)
    await shim.nodes(calls[1], node("large", vcore=1000))
    [span] = await traced.ended()
    assert len(span.events) == MAX_EVENTS
    assert span.dropped_events >= len(ways) - MAX_EVENTS
    last = [reason for reason in reasons(span) if reason in {name for _, name in ways}]
    assert last == [name for _, name in ways][-len(last) :]


async def test_spans_of_a_removed_rm_end(traced: Traced, shim: Shim) -> None:
    """The spans of a removed RM end with it, and none of its asks are followed any more."""
    calls = await cluster(shim)
    await shim.ask(calls[0], *(traced_ask(f"k{n}", vcore=1) for n in range(50)))
    tracer = traced.server.tracing
    assert tracer is not None
    await eventually(lambda: tracer.counts.followed == 50)
    tracer.forget(RmId("rm"))
    assert {about(span)["outcome"] for span in await traced.ended(50)} == {"rm gone"}
    assert tracer.counts.followed == 0
    assert not tracer.asks.has(RmId("rm"))


async def test_a_span_has_some_of_very_many_resources(traced: Traced, shim: Shim) -> None:
    """The span has the first resources of the ask; identity and outcome always fit."""
    calls = await cluster(shim)
    wanted = resource(**{f"kind{number:03}": 1 for number in range(300)})
    await shim.ask(calls[0], traced_ask("k", app_id="nobody", resourcePerAlloc=wanted))
    [span] = await traced.ended()
    told = about(span)
    assert (told["rm_id"], told["allocation_key"], told["outcome"]) == ("rm", "k", "rejected")
    named = [name for name in told if name.startswith("resource.")]
    assert named == [f"resource.kind{number:03}" for number in range(MAX_RESOURCES)]
