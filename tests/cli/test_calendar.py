"""The calendar, and expected starts of asks: over gRPC, by the client, and by commands."""

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, NamedTuple

import grpc
import pytest

from licorne.v1 import state_pb2 as pb
from licorne.v1.state_pb2_grpc import StateStub
from licorne_server.testing import FakeRM, VirtualClock, serve
from support.core.builders import config
from support.patience import PATIENCE
from support.peers.town import Shell
from support.server.reports import listed

if TYPE_CHECKING:
    from licorne.v1.state_pb2_grpc import StateAsyncStub

CONFIG = config("[{name: batch}, {name: other}]", properties="{backfill: conservative}")
START_BY = 10**9
HELD = ["next-1", "next-2", "next-3"]


class Planned(NamedTuple):
    """An RM with jobs planned one after the other, and a shell for commands."""

    rm: FakeRM
    shell: Shell
    stub: "StateAsyncStub"
    calendar: list[pb.CalendarEntry]


@pytest.fixture
async def planned(capsys: pytest.CaptureFixture[str]) -> AsyncIterator[Planned]:
    """A job of ten minutes on all resources, after which three of the same size are planned."""
    async with (
        serve(CONFIG, clock=VirtualClock()) as served,
        FakeRM(served.target) as rm,
        grpc.aio.insecure_channel(served.target) as channel,
    ):
        await rm.add_nodes(1, vcore=4000)
        tags = {"licorne/runtime": "600"}
        await rm.submit("job", queue="root.batch", tags=tags)
        await rm.ask("job", vcore=4000)
        await rm.allocated(1)
        await rm.ask("job", 3, prefix="next", tags={"licorne/start-by": str(START_BY)}, vcore=4000)
        async with asyncio.timeout(PATIENCE):
            while len(calendar := await rm.client.state.calendar()) < len(HELD):
                pass
        yield Planned(rm, Shell(served.target, capsys), StateStub(channel), calendar)


async def test_the_calendar_lists_planned_starts(planned: Planned) -> None:
    """Entries are sorted by start, each with its confidence; a queue includes its descendants."""
    first, second, _ = planned.calendar
    assert [one.allocation_key for one in planned.calendar] == HELD
    starts = [one.start.starts_at / 1e9 for one in planned.calendar]
    assert [starts[1] - starts[0], starts[2] - starts[1]] == [600.0, 600.0]
    assert {(one.start.confidence, one.asks, one.nodes, one.queue) for one in planned.calendar} == {
        ("declared", 1, 1, "root.batch")
    }
    assert dict(first.requested) == {"vcore": 4000}
    assert first.start.first_told == first.start.starts_at > first.since > 0
    state = planned.rm.client.state
    found = [
        len(await state.calendar(queue=queue)) for queue in ("root", "root.batch", "root.other", "root.b")
    ]
    assert found == [3, 3, 0, 0]
    explained = await state.explain("next-2")
    assert explained.expected_start == second.start
    assert explained.expected_start.start_by == START_BY * 10**9
    assert not (await state.explain("job-1")).HasField("expected_start")


async def test_the_calendar_is_paged(planned: Planned) -> None:
    """Each entry is on exactly one page, whatever the page size; an invalid token is refused."""
    for size in (0, 1, 2, 3, 4):
        request = pb.ListCalendarRequest(page_size=size)
        keys = [one.allocation_key async for one in listed(planned.stub.ListCalendar, request)]
        assert keys == HELD
    for token in ("next-1", "[", '["known", 1, "job", "next-1"]'):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await planned.stub.ListCalendar(pb.ListCalendarRequest(page_token=token))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
