"""The server's event loop, unblocked by grpc.aio's wake-ups and by garbage collection."""

import asyncio
import gc
import socket
import sys
from collections.abc import Iterator

import grpc
import pytest
from structlog.testing import capture_logs

from licorne_server.process import loop as collecting
from licorne_server.process.loop import (
    NEVER,
    QUIET_SECONDS,
    SHORT_SECONDS,
    SLOW_SECONDS,
    SWITCH_SECONDS,
    WORTH,
    YOUNG,
    Collector,
    ServerLoop,
    SlowSteps,
)
from support.peers.shim import eventually


class _Poller:
    """The loop's side of grpc.aio: it reads one byte, whatever the number of events."""

    def __init__(self, wakes: socket.socket) -> None:
        self.wakes = wakes
        self.served = 0
        self.done = asyncio.Event()

    def _handle_events(self) -> None:
        self.wakes.recv(1)
        self.served += 1
        self.done.set()


def test_all_wake_ups_are_read_at_once() -> None:
    """Any number of wake-up bytes costs one round of the loop."""

    async def run() -> None:
        near, far = socket.socketpair()
        near.setblocking(False)
        poller = _Poller(near)
        asyncio.get_running_loop().add_reader(near, poller._handle_events)
        for _ in range(5):
            for _ in range(200):
                far.send(b"x")
            await poller.done.wait()
            poller.done.clear()
        assert poller.served == 5
        asyncio.get_running_loop().remove_reader(near)
        near.close()
        far.close()

    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(run())


def test_the_handler_of_grpc_is_recognized() -> None:
    """The workaround recognizes the handler of this release of grpcio."""
    recognized: list[object] = []

    class Watched(ServerLoop):
        def _add_reader(self, fd: object, callback: object, *args: object) -> object:
            recognized.append(getattr(callback, "__name__", ""))
            return super()._add_reader(fd, callback, *args)  # type: ignore[misc]

    async def run() -> None:
        server = grpc.aio.server()
        server.add_insecure_port("127.0.0.1:0")
        await server.start()
        await server.stop(0)

    with asyncio.Runner(loop_factory=Watched) as runner:
        runner.run(run())
    assert "_serve_drained" in recognized


BLOCK = 1e-7
"""The seconds of a pass for each block of memory."""


class Node:
    """An object that can be part of a reference cycle."""

    def __init__(self) -> None:
        """Start alone."""
        self.other: Node | None = None


class Process:
    """A process with fake memory and time, and real garbage collections."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that has started, and an RM that is connected."""
        self.now, self.blocks, self.each = 1000.0, 100_000, BLOCK
        self.is_connected = True
        self.slow = SlowSteps()
        real = gc.collect

        def collect() -> None:
            self.now += (self.blocks - self.exempt) * self.each
            real()

        self.exempt = 0
        monkeypatch.setattr(collecting, "perf_counter", lambda: self.now)
        monkeypatch.setattr(sys, "getallocatedblocks", lambda: self.blocks)
        monkeypatch.setattr(gc, "collect", collect)
        self.collector = Collector(lambda: self.is_connected, self.slow)
        self.collector.start()
        self.exempt = self.blocks

    def rest(self, asks: int, work: int = WORTH) -> int:
        """Make the engine idle after a while, with this number of asks; return the number of passes so far.

        An ask has fourteen blocks.
        """
        self.blocks = self.exempt + 14 * asks
        self.now += QUIET_SECONDS
        self.collector.idle(work)
        return self.collector.passes


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Restore the collector's settings of the test process.

    Frozen objects remain frozen, because otherwise every later pass would visit all tests.
    """
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*before)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Process:
    """A process with one RM."""
    return Process(monkeypatch)


def cycle() -> None:
    """Create an unreachable reference cycle."""
    one, two = Node(), Node()
    one.other, two.other = two, one


def nodes() -> int:
    """The number of `Node` objects, reachable or not."""
    return sum(isinstance(thing, Node) for thing in gc.get_objects())


@pytest.mark.slow
def test_a_computing_thread_yields_soon() -> None:
    """A computing thread yields the interpreter after a fiftieth of the default time."""
    Collector().start()
    assert sys.getswitchinterval() == pytest.approx(SWITCH_SECONDS) == 0.0001


def test_the_interpreter_visits_young_objects_only() -> None:
    """The interpreter's own passes never visit all objects of a server."""
    Collector().start()
    assert gc.get_threshold() == (YOUNG, NEVER, NEVER)


def test_idle_pass_finds_cycles() -> None:
    """An idle pass frees cycles of any age; objects of the start-up are not visited."""
    collector = Collector(quiet=0.0)
    collector.start()
    cycle()
    gc.collect(1)
    gc.disable()
    cycle()
    collector.idle(WORTH)
    gc.enable()
    assert (nodes(), collector.passes) == (0, 1)
    assert gc.get_freeze_count() > 10_000


def test_an_idle_moment_after_little_work_has_no_long_pass(process: Process) -> None:
    """If little work was done since the last pass, only a short pass is made."""
    process.is_connected = False
    most = int(SHORT_SECONDS / BLOCK / 14)
    assert process.rest(most + 1000, WORTH - 1) == 0
    assert process.rest(most - 1000, WORTH - 1) == 1


def test_passes_are_not_frequent(process: Process) -> None:
    """Idle moments in quick succession share one pass."""
    assert process.rest(1000) == 1
    process.now -= QUIET_SECONDS / 2
    assert process.rest(1000, 2 * WORTH) == 1
    assert process.rest(1000, 2 * WORTH) == 2


def test_no_long_pass_delays_a_connected_rm(process: Process) -> None:
    """While an RM is connected, no long pass is made."""
    most = int(SHORT_SECONDS / BLOCK / 14)
    assert process.rest(most + 1000) == 0
    process.is_connected = False
    assert process.rest(most + 1000) == 1


def test_short_passes_need_neither_work_nor_an_idle_moment() -> None:
    """A timer of the loop frees garbage of libraries while a connected RM is idle."""

    async def run() -> Collector:
        collector = Collector(lambda: True, quiet=0.001)
        collector.start(asyncio.get_running_loop())
        gc.disable()
        cycle()
        await eventually(lambda: not nodes())
        gc.enable()
        return collector

    assert asyncio.run(run()).passes > 0


def test_the_duration_of_a_pass_is_estimated_from_the_last_one(process: Process) -> None:
    """On a machine that has become slower only passes over fewer objects are made."""
    assert process.rest(5_000) == 1
    process.is_connected, process.each = False, 5 * BLOCK
    assert process.rest(5_000, 2 * WORTH) == 2
    process.is_connected = True
    assert process.collector.reckoned() > SHORT_SECONDS > 14 * 5_000 * BLOCK
    assert process.rest(5_000, 3 * WORTH) == 2


def test_a_long_pass_is_a_slow_step(process: Process) -> None:
    """A long pass is counted and logged as a slow step; a short one is not."""
    process.is_connected = False
    with capture_logs() as lines:
        process.rest(int(SLOW_SECONDS / BLOCK / 14) - 1000)
        assert not lines
        process.rest(900_000, 2 * WORTH)
    seconds = 900_000 * 14 * BLOCK
    line = {"event": "slow collection", "log_level": "warning", "seconds": round(seconds, 3)}
    assert lines == [line]
    assert process.slow.count["collection"] == 1
    assert process.slow.seconds["collection"] == pytest.approx(seconds)
