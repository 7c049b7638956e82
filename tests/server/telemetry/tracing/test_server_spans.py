"""Spans of the server's own work, and their parents."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from licorne.v1 import admin_pb2 as ap
from licorne.v1 import session_pb2 as sp
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import load
from licorne_core.messages.commands import UpdateAllocations
from licorne_core.values.ids import RmId
from licorne_server.process.clock import SystemClock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.settings import TraceSettings
from licorne_server.telemetry.tracing.tracing import Tracing
from licorne_server.wire.asks import AskReader
from support.peers.shim import RawSession, Shim, ask, connected, eventually, new_allocations, node
from support.server.configuring import BROKEN, A, B, C, text, write
from support.server.traces import TRACE, about, trace_id, traced_ask, traceparent, tracing

CALLER = (("traceparent", traceparent()),)
UNWANTED = (("traceparent", traceparent(sampled=False)),)


async def update(channel: grpc.aio.Channel, config: str, metadata: Sequence[tuple[str, str]] = ()) -> None:
    """Update the RM's configuration, whether accepted or refused."""
    admin: Any = AdminStub(channel)
    request = ap.UpdateConfigurationRequest(rm_id="rm", config=config)
    with suppress(grpc.aio.AioRpcError):
        await admin.UpdateConfiguration(request, metadata=metadata)


async def test_the_turn_that_places_a_traced_ask_is_traced() -> None:
    """The turn links to the ask; other turns are sampled, here at a rate of 0."""
    async with tracing() as traced, connected(traced.server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up()
        await shim.ask(calls[0], ask("plain"))
        await new_allocations(calls[0], 1)
        assert not traced.spans("turn")
        await shim.ask(calls[0], ask("first"), traced_ask("traced"), ask("last"))
        [turn] = await traced.ended(1, "turn")
        [span] = traced.spans()
        assert [link.context for link in turn.links] == [span.context]
        told = about(turn)
        assert (told["rm_id"], told["partition"]) == ("rm", "[rm]default")
        assert told["allocations"] == 3
        assert turn.parent is None
        assert turn.start_time is not None
        assert turn.end_time is not None
        assert turn.start_time <= turn.end_time


async def test_turns_with_effects_are_sampled() -> None:
    """With a sampling rate of 1 each turn with an effect is traced."""
    async with tracing(sample=1.0) as traced, connected(traced.server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up()
        await shim.ask(calls[0], ask("k"))
        await new_allocations(calls[0], 1)
        await traced.still()
        placed = [about(turn)["allocations"] for turn in traced.spans("turn")]
        assert sum(placed) == 1


async def test_another_configuration_is_a_span_in_the_trace_of_its_caller() -> None:
    """A configuration has a span, changed or refused, unless its caller is not sampled."""
    async with tracing() as traced, connected(traced.server) as channel:
        await Shim(channel).register(A)
        for config, metadata in ((B, CALLER), (B, ()), (BROKEN, CALLER), (C, UNWANTED)):
            await update(channel, config, metadata)
        spans = traced.spans("configuration")
        assert [about(span) for span in spans] == [
            {"rm_id": "rm", "outcome": outcome} for outcome in ("changed", "unchanged", "refused")
        ]
        assert trace_id(spans[0]) == trace_id(spans[2]) == TRACE
        assert spans[1].parent is None
        assert [span.status.is_ok for span in spans] == [True, True, False]
        assert spans[2].status.description


async def test_a_reload_is_a_span_with_the_configurations_below_it(tmp_path: Path) -> None:
    """Each RM with the file's configuration has a span below the reload; an invalid file is an error."""
    file = tmp_path / "queues.yaml"
    write(file, A)
    async with (
        tracing(default_config=load(A), config_file=file) as traced,
        connected(traced.server) as channel,
    ):
        for name, config in (("one", ""), ("two", ""), ("own", C)):
            await Shim(channel, name).register(config)
        write(file, B)
        admin: Any = AdminStub(channel)
        await admin.ReloadConfiguration(ap.ReloadConfigurationRequest(), metadata=CALLER)
        [reload] = traced.spans("reload")
        below = traced.spans("configuration")
        assert {about(span)["rm_id"] for span in below} == {"one", "two"}
        assert reload.context is not None
        parents = {span.parent.span_id for span in below if span.parent}
        assert parents == {reload.context.span_id}
        assert {trace_id(span) for span in (reload, *below)} == {TRACE}
        write(file, text("["))
        with pytest.raises(grpc.aio.AioRpcError):
            await admin.ReloadConfiguration(ap.ReloadConfigurationRequest())
        write(file, B)
        assert [span.status.is_ok for span in traced.spans("reload")] == [True, False]
        await admin.ReloadConfiguration(ap.ReloadConfigurationRequest(), metadata=UNWANTED)
        assert len(traced.spans("reload")) == 2


async def test_a_replay_is_a_span_from_the_registration_on() -> None:
    """The span of a replay ends when it is complete, with events for missing items."""
    async with tracing() as traced, connected(traced.server) as channel:
        session = RawSession(channel)
        call, _ = await session.begin(metadata=CALLER)
        await session.send(call, replay_begin=sp.ReplayBegin())
        await session.send(call, replay_end=sp.ReplayEnd(nodes=3))
        await session.until(call, "replay_result")
        assert not traced.spans("replay")
        await session.replay(call)
        [span] = await traced.ended(1, "replay")
        assert trace_id(span) == TRACE
        assert about(span) == {"rm_id": "rm", "session": 1}
        [event] = span.events
        assert event.attributes == {"licorne.missing": "arrived: 0 of 3 nodes"}
        assert span.status.is_ok


async def test_a_replay_that_never_ends_is_an_error() -> None:
    """A new registration ends an unfinished replay with an error; `si.v1` has no replay."""
    async with tracing() as traced, connected(traced.server) as channel:
        session = RawSession(channel)
        await session.begin()
        call, _ = await session.begin(instance=2)
        [span] = await traced.ended(1, "replay")
        assert not span.status.is_ok
        await session.replay(call)
        assert [span.status.is_ok for span in await traced.ended(2, "replay")] == [False, True]
        shim = Shim(channel, "other")
        await shim.register()
        await shim.register()
        await shim.nodes(shim.open("UpdateNode"), node("n"))
        assert len(traced.spans("replay")) == 2


async def test_a_defect_of_the_traces_ends_them_only() -> None:
    """After a defect of the traces the RM is still served, and the log has the defect once."""
    async with tracing() as traced, connected(traced.server) as channel:
        shim = Shim(channel)
        calls = await shim.set_up()
        tracer = traced.server.tracing
        assert tracer is not None
        with capture_logs() as lines:
            tracer.saw(None, None, 0.0, None)  # type: ignore[arg-type]
            assert tracer.defects.failed
            await shim.ask(calls[0], traced_ask("k"))
            assert await new_allocations(calls[0], 1) == {"k": "n0"}
            await update(channel, B)
        assert [line["event"] for line in lines if line["log_level"] == "error"] == [
            "traces have failed, none are made from now on"
        ]
        assert not traced.spans()
        assert not traced.spans("configuration")


async def test_a_defect_around_a_configuration_does_not_affect_it() -> None:
    """A defect of the traces does not affect configurations and reloads."""
    async with tracing() as traced:
        tracer = traced.server.tracing
        assert tracer is not None
        with capture_logs() as lines, tracer.configurations.configuring(RmId("rm")):
            tracer.saw(None, [object()], 0.0, None)  # type: ignore[list-item]
        assert tracer.defects.failed
        with tracer.configurations.reloading():
            pass
        assert [line["log_level"] for line in lines] == ["error"]
        assert not traced.spans("reload")


async def test_a_defect_in_observing_asks_is_logged_and_ends_the_traces() -> None:
    """A defect while asks are observed is logged at once, and ends the traces."""

    def broken(*_: str) -> None:
        raise RuntimeError("broken")

    settings = TraceSettings(exporter=InMemorySpanExporter(), sample=1.0)
    tracer = Tracing(settings, "1", SystemClock(), TimeSlices(lambda: False), broken)
    tracer.start()
    with capture_logs() as lines:
        wanted = AskReader("rm").read(ask("k").SerializeToString())
        tracer.asked(RmId("rm"), UpdateAllocations(rm_id=RmId("rm"), asks=[wanted]))
        await eventually(lambda: tracer.defects.failed)
    await tracer.stop()
    assert [line["log_level"] for line in lines] == ["error"]
