"""The thread that parses configurations: its order, and its bounds."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from sys import getsizeof
from threading import Event

import aiohttp
import grpc
import pytest
from structlog.testing import capture_logs

from licorne.v1.admin_pb2 import ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_server.store.configurations import thread as config_thread
from licorne_server.store.configurations.thread import VALIDATION, ConfigThread, Origin
from licorne_server.telemetry.logs import levels
from licorne_server.telemetry.logs.levels import CONFIGURATIONS
from licorne_server.wire.errors import CallError
from support.patience import PATIENCE
from support.peers.shim import LOOPBACK, Shim, connected, eventually, serving


class Line:
    """A thread that is busy until `go` is set, and the order of its jobs."""

    def __init__(self) -> None:
        """Start empty."""
        self.thread = ConfigThread()
        self.go = Event()
        self.done: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def put(self, peer: str, purpose: str) -> asyncio.Task[None]:
        """Queue a job, which records its peer and purpose."""
        work = partial(self.done.append, f"{peer} {purpose}")
        task = asyncio.create_task(self.thread.run(Origin(peer, purpose), work))
        self.tasks.append(task)
        return task

    async def end(self) -> list[str]:
        """Release the thread; returns the jobs in order."""
        self.go.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.done


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    """A thread that is busy with a job of another peer."""
    line = Line()
    busy = asyncio.create_task(line.thread.run(Origin("busy"), partial(line.go.wait, PATIENCE)))
    await asyncio.sleep(0)
    yield line
    line.go.set()
    assert await busy
    line.thread.stop()


async def test_peers_take_turns(line: Line) -> None:
    """The job of another peer is second, however many jobs the first peer has."""
    for number in range(20):
        line.put("flood", f"RM {number}")
    await asyncio.sleep(0)
    line.put("other", "RM b")
    line.put("other", "RM c")
    done = await line.end()
    assert done[:5] == ["flood RM 0", "other RM b", "flood RM 1", "other RM c", "flood RM 2"]
    assert done[5:] == [f"flood RM {number}" for number in range(3, 20)]


async def test_one_job_of_each_purpose_may_wait(line: Line) -> None:
    """A second waiting job of one purpose is refused; that of another purpose or peer is not."""
    line.put("a", "RM x")
    await asyncio.sleep(0)
    with pytest.raises(CallError, match=r"a configuration of a for RM x waits to be read already"):
        await line.put("a", "RM x")
    line.put("a", "RM y")
    line.put("b", "RM x")
    assert await line.end() == ["a RM x", "b RM x", "a RM y"]


async def test_a_running_job_does_not_count_as_waiting(line: Line) -> None:
    """While the first job of a purpose runs, a second one may wait."""
    begun, go = Event(), Event()

    def first() -> None:
        begun.set()
        assert go.wait(PATIENCE)

    running = asyncio.create_task(line.thread.run(Origin("a", "RM x"), first))
    await asyncio.sleep(0)
    line.go.set()
    await eventually(begun.is_set)
    line.put("a", "RM x")
    await asyncio.sleep(0)
    go.set()
    await running
    assert await line.end() == ["a RM x"]


async def test_a_cancelled_job_makes_room(line: Line) -> None:
    """A job with a cancelled caller is not begun, and makes room."""
    gone = line.put("a", "RM x")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    line.put("a", "RM x")
    assert await line.end() == ["a RM x"]


@pytest.mark.parametrize("bound", ["MAX_WAITING", "MAX_WAITING_BYTES"])
async def test_waiting_questions_of_a_peer_are_bounded(
    line: Line, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    """The waiting questions of a peer are bounded in number and bytes, separately from registrations."""
    texts = [f"partitions: [] # {number}" for number in range(2)]
    largest = max(map(getsizeof, texts))
    monkeypatch.setattr(config_thread, bound, 1 if bound == "MAX_WAITING" else largest)

    async def one_waits(first: Awaitable[object], second: Awaitable[object]) -> asyncio.Future[object]:
        waiting = asyncio.ensure_future(first)
        await asyncio.sleep(0)
        with pytest.raises(CallError, match="wait"):
            await second
        return waiting

    waiting = []
    for peer in ("a", "b"):
        question = partial(line.thread.run, Origin(peer), list[str], largest)
        waiting.append(await one_waits(question(), question()))
        rms = (Origin(peer, name) for name in ("RM x", "RM y"))
        waiting.append(await one_waits(*map(line.thread.parse, rms, texts)))
    waiting[0].cancel()
    await asyncio.wait(waiting[:1])
    waiting[0] = asyncio.ensure_future(line.thread.run(Origin("a"), list[str], largest))
    await line.end()
    await asyncio.gather(*waiting)


async def test_an_error_affects_its_own_job_only(line: Line) -> None:
    """An error in a job is raised for its caller, and the next job runs."""
    failed = asyncio.create_task(line.thread.run(Origin("a"), partial(int, "x")))
    line.put("a", "RM x")
    assert await line.end() == ["a RM x"]
    with pytest.raises(ValueError, match="invalid literal"):
        await failed


async def test_a_stop_cancels_waiting_callers() -> None:
    """A stopped thread cancels all waiting callers."""
    line = Line()
    busy = asyncio.create_task(line.thread.run(Origin("a"), partial(line.go.wait, PATIENCE)))
    await asyncio.sleep(0)
    waiting = line.put("a", "RM x")
    await asyncio.sleep(0)
    line.thread.stop()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    line.go.set()
    assert await busy


async def test_parsed_texts_are_logged_at_debug() -> None:
    """At `debug` each parsed text is logged with purpose, size and validity."""
    thread, origin = ConfigThread(), Origin("host", "RM rm")
    try:
        with capture_logs() as lines:
            await thread.parse(origin, DEFAULT_CONFIG)
            assert not lines
            levels().set(CONFIGURATIONS, "debug")
            for text in (DEFAULT_CONFIG, "partitions: 1"):
                await thread.parse(origin, text)
    finally:
        levels().begin("info")
        thread.stop()
    assert {(line["event"], line["by"], line["purpose"]) for line in lines} == {
        ("configuration read", "host", "RM rm")
    }
    told = [(line["characters"], line["valid"]) for line in lines]
    assert told == [(len(DEFAULT_CONFIG), True), (13, False)]
    assert all(line["ms"] > 0 for line in lines)


async def test_a_flood_of_validations_is_refused_and_others_register() -> None:
    """One validation per peer may wait; the next is refused on both ports, and RMs still register."""
    go = Event()
    async with serving(http=LOOPBACK) as server, connected(server) as channel:
        thread = server.config_thread
        busy = asyncio.create_task(thread.run(Origin("busy"), partial(go.wait, PATIENCE)))
        await asyncio.sleep(0)
        done: list[str] = []
        first = asyncio.create_task(
            thread.run(Origin("127.0.0.1", VALIDATION), partial(done.append, "first"))
        )
        await asyncio.sleep(0)
        request = ValidateConfigurationRequest(config=DEFAULT_CONFIG)
        with pytest.raises(grpc.aio.AioRpcError, match="for validation waits to be read") as error:
            await AdminStub(channel).ValidateConfiguration(request)
        assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        url = f"http://{server.http_address}/ws/v1/validate-conf"
        async with aiohttp.ClientSession() as client:
            answer = await client.post(url, data=DEFAULT_CONFIG.encode())
            assert (answer.status, answer.headers["Retry-After"]) == (429, "1")
            assert "for validation waits to be read" in (await answer.json())["message"]
        registered = asyncio.create_task(Shim(channel).register(DEFAULT_CONFIG))
        await eventually(lambda: server.rms.lock("rm").turns.taken)
        go.set()
        assert await busy
        await registered
        await first
    assert done == ["first"]
