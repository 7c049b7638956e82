"""Spans begin and end in small steps, whatever the number of asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from time import sleep

import pytest
from opentelemetry.sdk.trace import TracerProvider

from licorne_core.messages.commands import UpdateAllocations
from licorne_core.messages.effects import AllocationRejection, AllocationsRejected, Effect, Registered
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_server.process.fair import SLICE_SECONDS, TimeSlices
from licorne_server.telemetry.tracing.ask_spans import AskSpans
from licorne_server.telemetry.tracing.followed import MAX_OF_RM, CheckSpans, FollowedAsks
from licorne_server.telemetry.tracing.spans import AT_ONCE, Ends, Spans
from licorne_server.telemetry.tracing.starting import TOO_MANY_ASKS, TraceCounts
from licorne_server.telemetry.tracing.tracing import BEGUN_AT_ONCE, Tracing
from licorne_server.testing import VirtualClock
from licorne_server.wire.asks import AskReader
from support.peers.shim import eventually
from support.server.traces import Traced, about, traced_ask, tracing

RM = RmId("rm")
MANY = 20 * AT_ONCE


def new_asks(count: int) -> UpdateAllocations:
    """New traced asks."""
    reader = AskReader(RM)
    raw = (traced_ask(f"k{number}", vcore=1).SerializeToString() for number in range(count))
    return UpdateAllocations(rm_id=RM, asks=[reader.read(ask) for ask in raw])


def no_defect() -> None:
    """A handler that expects no defect."""
    raise AssertionError


class Rounds:
    """Counts rounds of the loop."""

    number = 0


@pytest.fixture
async def rounds() -> AsyncIterator[Rounds]:
    """Rounds of the loop of the test."""
    rounds = Rounds()

    async def count() -> None:
        while True:
            rounds.number += 1
            await asyncio.sleep(0)

    task = asyncio.get_running_loop().create_task(count())
    yield rounds
    task.cancel()


@asynccontextmanager
async def following(count: int) -> AsyncIterator[tuple[Traced, Tracing, VirtualClock]]:
    """A server that follows asks unknown to the core."""
    clock = VirtualClock()
    async with tracing(clock=clock) as traced:
        tracer = traced.server.tracing
        assert tracer is not None
        await tracer.asked(RM, new_asks(count))
        assert tracer.counts.followed == count
        yield traced, tracer, clock


async def test_a_few_end_at_once_and_others_in_order_later(rounds: Rounds) -> None:
    """Each time slice is used to its end, and other tasks run between slices."""
    ends = Ends(TimeSlices(lambda: True), no_defect)
    ends.start()
    done: list[tuple[int, int]] = []

    def end(number: int) -> None:
        if number >= AT_ONCE:
            sleep(2 * SLICE_SECONDS)  # this takes a slice for itself
        done.append((number, rounds.number))

    for number in range(AT_ONCE + 5):
        ends.add(lambda number=number: end(number))  # type: ignore[misc]
    assert len(done) == AT_ONCE
    await eventually(lambda: len(done) == AT_ONCE + 5)
    assert [number for number, _ in done] == list(range(AT_ONCE + 5))
    assert len({seen for _, seen in done[AT_ONCE:]}) == 5
    ends.add(lambda: end(0))
    assert len(done) == AT_ONCE + 6
    await ends.stop()


async def test_what_waits_when_the_server_stops_is_ended(rounds: Rounds) -> None:
    """Queued spans end in small steps when the server stops."""
    ends = Ends(TimeSlices(lambda: True), no_defect)
    done: list[int] = []
    for _ in range(4 * AT_ONCE):
        ends.add(lambda: done.append(rounds.number))
    await ends.stop()
    assert len(done) == 4 * AT_ONCE
    assert [done[AT_ONCE:].count(seen) for seen in sorted(set(done[AT_ONCE:]))] == [AT_ONCE] * 3


async def test_a_defect_is_told_and_is_the_last_of_it() -> None:
    """A defect is reported once, in a reader's slice and at the stop of the server."""
    told: list[str] = []
    ends = Ends(TimeSlices(lambda: False), lambda: told.append("defect"))
    for _ in range(AT_ONCE):
        ends.add(lambda: None)
    for _ in range(2):
        ends.add(no_defect)
    ends.start()
    await eventually(lambda: told)
    await ends.stop()
    assert told == ["defect"] * 2


@pytest.mark.parametrize("anew", [False, True])
async def test_the_asks_of_an_rm_that_is_gone_end_little_by_little(*, anew: bool) -> None:
    """The asks of a removed RM end in small steps, each at the time of the removal."""
    async with following(MANY) as (traced, tracer, clock):
        gone = clock.now()
        if anew:
            tracer.told([Registered(rm_id=RM, session=2)])
        else:
            tracer.forget(RM)
        assert len(traced.spans()) == AT_ONCE
        assert not tracer.followed.has(RM)
        await clock.advance(1.0)
        spans = await traced.ended(MANY)
        assert {about(span)["outcome"] for span in spans} == {"rm gone"}
        assert {span.end_time for span in spans} == {int(gone * 1e9)}
        assert tracer.counts.followed == 0


async def test_many_refused_asks_end_little_by_little() -> None:
    """The rejected asks of one command end in small steps."""
    async with following(MANY) as (traced, tracer, _):
        refused = [
            AllocationRejection(key=AllocationKey(f"k{n}"), app_id=AppId("app"), reason="r")
            for n in range(MANY)
        ]
        effects: list[Effect] = [AllocationsRejected(rm_id=RM, rejections=refused)]
        tracer.told(effects)
        assert len(traced.spans()) == AT_ONCE
        spans = await traced.ended(MANY)
        assert {about(span)["outcome"] for span in spans} == {"rejected"}
        assert {span.status.description for span in spans} == {"r"}


async def test_spans_that_wait_for_their_end_count_for_the_bound_of_their_rm() -> None:
    """An RM that registers repeatedly has no more open spans than another."""
    counts = TraceCounts()
    spans = Spans(TracerProvider(shutdown_on_exit=False).get_tracer("test"), lambda: 1.0, 0.0)
    ends = Ends(TimeSlices(lambda: False), no_defect)
    followed = FollowedAsks(counts)
    checks = CheckSpans(spans, followed, ends)
    asks = AskSpans(spans, counts, followed, checks, lambda *_: None, ends)
    for _ in range(2):
        asks.forget(RM)
        for _ in asks.begin(RM, new_asks(MAX_OF_RM).asks, None):
            pass
        assert counts.followed == MAX_OF_RM
    assert counts.dropped == {TOO_MANY_ASKS: MAX_OF_RM - AT_ONCE}
    await ends.stop()
    assert counts.followed == AT_ONCE


async def test_many_asks_are_begun_little_by_little() -> None:
    """The loop runs other tasks between parts of one command."""
    async with tracing() as traced:
        tracer = traced.server.tracing
        assert tracer is not None
        begun = asyncio.get_running_loop().create_task(tracer.asked(RM, new_asks(MANY)))
        seen = [0]
        while not begun.done():
            seen.append(tracer.counts.followed)
            await asyncio.sleep(0)
        seen.append(tracer.counts.followed)
        assert seen[-1] == MANY
        assert max(new - old for old, new in pairwise(seen)) == BEGUN_AT_ONCE
