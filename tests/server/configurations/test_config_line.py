"""Who waits for the thread of configurations, in which order, and who is refused."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from sys import getsizeof
from threading import Event

import aiohttp
import grpc
import pytest

from licorne.v1.admin_pb2 import ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.config import DEFAULT_CONFIG
from licorne_server.configurations import thread as config_thread
from licorne_server.configurations.thread import VALIDATION, ConfigThread, Origin
from licorne_server.wire.errors import CallError
from support.peers.shim import LOOPBACK, PATIENCE, Shim, connected, eventually, serving


class Line:
    """A thread that is at work until `go` is set, and what it did afterwards."""

    def __init__(self) -> None:
        """Nothing waits."""
        self.thread = ConfigThread()
        self.go = Event()
        self.done: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []

    def put(self, peer: str, purpose: str) -> asyncio.Task[None]:
        """Let some work wait; it notes its peer and purpose when it is done."""
        work = partial(self.done.append, f"{peer} {purpose}")
        task = asyncio.create_task(self.thread.run(Origin(peer, purpose), work))
        self.tasks.append(task)
        return task

    async def end(self) -> list[str]:
        """Let the thread go on; what was done, in order."""
        self.go.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return self.done


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    """A thread that is at work on something of another peer."""
    line = Line()
    busy = asyncio.create_task(line.thread.run(Origin("busy"), partial(line.go.wait, PATIENCE)))
    await asyncio.sleep(0)
    yield line
    line.go.set()
    assert await busy
    line.thread.stop()


async def test_peers_take_turns(line: Line) -> None:
    """However much one peer has waiting, another's comes second."""
    for number in range(20):
        line.put("flood", f"RM {number}")
    await asyncio.sleep(0)
    line.put("other", "RM b")
    line.put("other", "RM c")
    done = await line.end()
    assert done[:5] == ["flood RM 0", "other RM b", "flood RM 1", "other RM c", "flood RM 2"]
    assert len(done) == 22


async def test_one_waits_for_each_purpose(line: Line) -> None:
    """A second piece of work of one purpose is refused; another purpose or peer is not."""
    line.put("a", "RM x")
    await asyncio.sleep(0)
    with pytest.raises(CallError, match=r"a configuration of a for RM x waits to be read already"):
        await line.put("a", "RM x")
    line.put("a", "RM y")
    line.put("b", "RM x")
    assert await line.end() == ["a RM x", "b RM x", "a RM y"]


async def test_what_has_begun_does_not_wait(line: Line) -> None:
    """While the first of a purpose is worked on, a second one may wait."""
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


async def test_who_gives_up_makes_room(line: Line) -> None:
    """Once a caller has gone, another may wait in its place."""
    gone = line.put("a", "RM x")
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.wait([gone])
    line.put("a", "RM x")
    assert await line.end() == ["a RM x"]


async def test_what_waits_of_a_peer_is_bounded(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer has a largest number of questions, whatever they ask; others are not refused."""
    monkeypatch.setattr(config_thread, "MAX_WAITING", 3)
    for number in range(3):
        line.put("a", f"RM {number}")
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="3 configurations of a wait to be read already"):
        await line.put("a", "")
    line.put("b", "")
    assert len(await line.end()) == 4


@pytest.mark.parametrize("bound", ["MAX_WAITING", "MAX_WAITING_BYTES"])
async def test_questions_keep_no_rm_out(line: Line, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Where too many questions of a peer wait, its registrations are read all the same."""
    texts = [f"partitions: [] # {number}" for number in range(2)]
    largest = max(map(getsizeof, texts))
    monkeypatch.setattr(config_thread, bound, 1 if bound == "MAX_WAITING" else largest)
    thread = line.thread
    question = asyncio.create_task(thread.run(Origin("a"), list[str], largest))
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="wait"):
        await thread.run(Origin("a"), list[str], largest)
    registration = asyncio.create_task(thread.parse(Origin("a", "RM x"), texts[0]))
    await asyncio.sleep(0)
    with pytest.raises(CallError, match="wait"):
        await thread.parse(Origin("a", "RM y"), texts[1])
    await line.end()
    await question
    await asyncio.wait([registration])


async def test_an_error_ends_nothing_but_its_own_work(line: Line) -> None:
    """What a piece of work raises is for its caller; the next is done."""
    failed = asyncio.create_task(line.thread.run(Origin("a"), partial(int, "x")))
    line.put("a", "RM x")
    assert await line.end() == ["a RM x"]
    with pytest.raises(ValueError, match="invalid literal"):
        await failed


async def test_whoever_waits_at_the_end_is_cancelled() -> None:
    """A thread that is stopped leaves nobody waiting."""
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


async def test_a_flood_of_validations_is_refused_and_others_register() -> None:
    """Of one peer's validations one waits; the next is refused on both ports, and RMs come in."""
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
