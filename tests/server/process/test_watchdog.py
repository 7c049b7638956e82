"""The watchdog reports an ended or stalled engine, and ends the process."""

import asyncio
import contextlib
import json
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc  # type: ignore[import-untyped]

from licorne_core.messages.commands import RegisterRm
from licorne_core.messages.effects import Effect
from licorne_core.scheduler import Scheduler
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.engine.engine import Engine
from licorne_server.process.doors import Door
from licorne_server.process.watchdog import FAILED, SHUT, STOP_SECONDS, Watchdog
from licorne_server.wire.errors import Stopped
from support.patience import PATIENCE
from support.peers.networks import header_block, headers, raw_connection
from support.peers.shim import LOOPBACK, Shim, connected, eventually, serving
from support.server.process_log import opened
from support.server.server_process import ServerProcess
from support.server.settings_file import settings_file

DOOMED_SERVER = Path(__file__).parents[2] / "support" / "server" / "doomed_server.py"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
LIMIT = 30.0
STILL = "the engine has not turned for 30 s"


class Turning:
    """A fake engine."""

    def __init__(self) -> None:
        """Start without an ended round, and without work."""
        self.rounds = 0
        self.has_work = False


class Standing:
    """A fake server."""

    def __init__(self) -> None:
        """Start healthy."""
        self.engine = Turning()
        self.failed = asyncio.Event()
        self.reasons: list[str] = []

    def stalled(self, reason: str) -> None:
        """Record the reason of a stall."""
        self.reasons.append(reason)

    def fail(self, reason: str, concern: str = "server") -> None:
        """Record the reason of a failure, and that the server has failed."""
        self.reasons.append(reason)
        self.failed.set()


class Watching:
    """A watchdog whose checks are triggered by the test."""

    def __init__(self, limit: float = LIMIT, *doors: Door) -> None:
        """Watch a server without work, and these doors."""
        self.server = Standing()
        self.ended: list[str] = []
        self.codes: list[int] = []
        self.dog = Watchdog(self.server, limit, self._end, doors)

    def _end(self, reason: str, code: int) -> None:
        self.ended.append(reason)
        self.codes.append(code)

    async def look(self, seconds: float, *, times: int = 1, loop_turns: bool = True) -> None:
        """Check this number of times, at this interval in seconds."""
        for _ in range(times):
            self.dog.look(seconds)
            if loop_turns:
                await asyncio.sleep(0)


async def test_an_idle_engine_is_not_stalled() -> None:
    """An idle engine is never stalled."""
    watching = Watching()
    await watching.look(1.0, times=1000)
    assert (watching.server.reasons, watching.ended) == ([], [])


async def test_an_engine_that_ends_rounds_is_not_stalled() -> None:
    """An engine that ends rounds within the limit is not stalled, whatever its work."""
    watching = Watching()
    watching.server.engine.has_work = True
    for _ in range(20):
        await watching.look(1.0, times=29)
        watching.server.engine.rounds += 1
    assert (watching.server.reasons, watching.ended) == ([], [])


async def test_unfinished_work_is_a_stall() -> None:
    """A stall is reported once after the limit; after twice the limit the process ends."""
    watching = Watching()
    watching.server.engine.has_work = True
    await watching.look(1.0, times=30)
    assert watching.server.reasons == []
    await watching.look(1.0)
    assert watching.server.reasons == [STILL]
    await watching.look(1.0, times=29)
    assert watching.ended == []
    await watching.look(1.0)
    assert (watching.server.reasons, watching.ended) == ([STILL], [STILL])


async def test_a_completed_round_ends_a_stall() -> None:
    """A completed round ends the stall, and the next stall counts from zero."""
    watching = Watching()
    watching.server.engine.has_work = True
    await watching.look(1.0, times=40)
    watching.server.engine.rounds += 1
    await watching.look(1.0, times=30)
    assert watching.server.reasons == [STILL, ""]
    await watching.look(1.0)
    assert (watching.server.reasons, watching.ended) == ([STILL, "", STILL], [])


async def test_a_blocked_loop_is_a_stall() -> None:
    """A stalled loop is detected although there is no work, and without help of the loop."""
    watching = Watching()
    await watching.look(1.0, times=61, loop_turns=False)
    assert watching.ended == ["the event loop has not turned for 30 s"]


@pytest.fixture
def shut() -> Iterator[Door]:
    """The door of an address without a listener."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        door = Door("grpc", (bound.family, bound.getsockname()), lambda: b"question")
        yield door
        door.close()


REFUSED = "the grpc address has refused connections for 10 s"


async def test_server_whose_address_is_shut_fails_with_a_code_of_its_own(shut: Door) -> None:
    """The server fails once for that reason; if it does not stop, the process ends with the same code."""
    watching = Watching(LIMIT, shut)
    await watching.look(1.0, times=20)
    assert (watching.server.reasons, watching.dog.exit_code) == ([REFUSED], SHUT)
    assert watching.server.failed.is_set()
    await watching.look(1.0, times=int(STOP_SECONDS))
    assert (watching.server.reasons, watching.codes[0]) == ([REFUSED], SHUT)


async def test_addresses_are_not_checked_while_the_loop_is_blocked(shut: Door) -> None:
    """A stalled loop cannot answer, so only the stall is reported."""
    watching = Watching(LIMIT, shut)
    await watching.look(1.0, times=25, loop_turns=False)
    assert (watching.server.reasons, watching.dog.exit_code) == ([], FAILED)


async def test_a_server_that_stops_may_close_its_addresses(shut: Door) -> None:
    """Addresses are not checked once the server stops."""
    watching = Watching(LIMIT, shut)
    watching.dog.leave_doors()
    await watching.look(1.0, times=30)
    assert (watching.server.reasons, watching.dog.exit_code) == ([], FAILED)


async def test_a_pause_of_the_whole_process_is_not_a_stall() -> None:
    """A pause of the process or the machine counts for two checks at most."""
    watching = Watching()
    watching.server.engine.has_work = True
    await watching.look(1.0, times=20)
    await watching.look(1_000_000.0, loop_turns=False)
    await watching.look(1.0)
    assert (watching.server.reasons, watching.ended) == ([], [])


async def test_without_a_limit_stalls_are_not_detected() -> None:
    """With 0 stalls are not detected, but an ended engine is."""
    watching = Watching(0.0)
    watching.server.engine.has_work = True
    await watching.look(1.0, times=1000, loop_turns=False)
    assert (watching.server.reasons, watching.ended) == ([], [])
    watching.server.failed.set()
    await watching.look(1.0, times=int(STOP_SECONDS))
    assert watching.ended == ["the server has failed, and does not stop"]


class StillClock:
    """A clock that wakes no task."""

    def __init__(self) -> None:
        """Stand at 100 seconds."""
        self.time = 100.0

    def now(self) -> float:
        """The time that the test has set."""
        return self.time

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Wait only for the event."""
        await event.wait()


class Looking:
    """A sink that reads `has_work` for each effect."""

    def __init__(self, engine: Engine) -> None:
        """Start without results."""
        self._engine = engine
        self.seen: list[bool] = []

    def route(self, effects: Sequence[Effect]) -> None:
        """Read `has_work`."""
        self.seen.append(self._engine.has_work)

    def halt(self, rm_id: RmId, correlation_id: str) -> None:
        """Ignore the halt."""
        raise AssertionError(rm_id, correlation_id)


async def test_commands_deadlines_and_unfinished_rounds_are_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting commands, due deadlines and unfinished rounds are work."""
    clock = StillClock()
    monkeypatch.setattr(Scheduler, "next_deadline", lambda _: 200.0)
    engine = Engine(Scheduler(), clock)
    sink = Looking(engine)

    def has_work() -> bool:
        return engine.has_work

    assert not has_work()
    engine.start(sink)
    await eventually(lambda: engine.rounds == 1)
    assert not has_work()
    engine.post(RegisterRm(rm_id=RmId("rm")))
    assert has_work()
    await eventually(lambda: engine.rounds == 2)
    assert sink.seen == [True]
    assert not has_work()
    clock.time = 200.0
    assert has_work()
    await engine.stop()
    assert not has_work()


async def verdicts(server: Server, channel: grpc.aio.Channel) -> tuple[int, str, int]:
    """The answers of /livez and of the health service for the whole server."""
    stub = health_pb2_grpc.HealthStub(channel)
    async with (
        aiohttp.ClientSession() as client,
        client.get(f"http://{server.http_address}/livez") as answer,
    ):
        text = await answer.text()
    health = await stub.Check(health_pb2.HealthCheckRequest())
    return answer.status, text, health.status


async def test_all_probes_report_an_ended_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """/livez has the reason, and the health service has NOT_SERVING, whatever the state of the log."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    async with serving(http=LOOPBACK) as server, connected(server) as channel:
        assert await verdicts(server, channel) == (200, "ok\n", SERVING)
        monkeypatch.setattr(Scheduler, "next_deadline", fail)
        monkeypatch.setattr("licorne_server.engine.engine.log.error", fail)
        server.engine.post(RegisterRm(rm_id=RmId("rm")))
        await server.failed.wait()
        reason = "down: engine stopped: RuntimeError\n"
        assert await verdicts(server, channel) == (503, reason, NOT_SERVING)
        server.stalled("")
        assert await verdicts(server, channel) == (503, reason, NOT_SERVING)


HURRIED = (
    "import sys; from licorne_cli.commands import main; from licorne_server.process import doors;"
    "doors.REST_SECONDS = doors.REFUSED_SECONDS = 0.3; sys.exit(main())"
)
"""`licorne` with frequent checks of its addresses."""


async def test_a_process_whose_port_is_shut_ends_with_a_code_of_its_own(tmp_path: Path) -> None:
    """If a request shuts the port of gRPC's own server, the log names the port, and the process ends."""
    program = (sys.executable, "-c", HURRIED)
    path = tmp_path / "log"
    with opened(path) as log:
        flags = settings_file(server={"transport": "grpc", "stall": 2})
        async with (
            ServerProcess(*flags, stderr=log, program=program) as server,
            raw_connection(server.target) as stranger,
        ):
            await stranger.dealt_with()
            await stranger.send(headers(header_block("/?/x").replace(b"?", b"\xff")))
            async with asyncio.timeout(PATIENCE):
                assert await server.ended() == SHUT
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    [reason] = [entry["reason"] for entry in entries if entry["event"] == "address shut"]
    assert "the grpc address has refused connections" in reason


async def test_a_cancelled_engine_has_failed() -> None:
    """If the engine's task ends other than by `stop`, the server has failed."""
    async with serving() as server:
        [task] = [task for task in asyncio.all_tasks() if task.get_name() == "engine"]
        task.cancel()
        await asyncio.wait_for(server.failed.wait(), PATIENCE)
        with pytest.raises(Stopped):
            await server.engine.submit(RegisterRm(rm_id=RmId("rm")))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("way", "flags", "events"),
    [
        ("engine_ends", (), ["engine stopped"]),
        ("engine_waits", settings_file(server={"stall": 2}), ["server stands still", "server ends itself"]),
        ("loop_hangs", settings_file(server={"stall": 2}), ["server stands still", "server ends itself"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_process_without_an_engine_ends_with_an_error(
    way: str, flags: Sequence[str], events: list[str], tmp_path: Path
) -> None:
    """The process ends with an error if the engine has ended or waits for ever, or the loop hangs."""
    program = (sys.executable, str(DOOMED_SERVER), way)
    path = tmp_path / "log"
    with opened(path) as log:
        async with (
            ServerProcess(*flags, stderr=log, program=program) as server,
            grpc.aio.insecure_channel(server.target) as channel,
        ):
            await Shim(channel).register()
            with contextlib.suppress(grpc.aio.AioRpcError):
                await Shim(channel, "doomed").register()
            async with asyncio.timeout(PATIENCE):
                assert await server.ended() == 1
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    assert [entry["event"] for entry in entries] == events
