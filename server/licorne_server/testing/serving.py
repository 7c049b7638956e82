"""A server in the event loop of the test, on free ports of loopback, and a clock moved by the test."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import TYPE_CHECKING, NamedTuple, Protocol

import grpc

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from licorne_core.views import Views
from licorne_server.assembly.server import Server
from licorne_server.process.bounds import RmBounds
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.process.settings import Address, Settings, SettingsError, TraceSettings
from licorne_server.wire.errors import CallError
from licorne_server.wire.responses import Kind

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

START = 1_700_000_000.0
"""Default start of the clock, in unix seconds."""


PATIENCE = 10.0
"""Seconds of real time within which all parties have to settle."""


class Party(Protocol):
    """A server or an RM that works on a virtual clock."""

    @property
    def is_settled(self) -> bool:
        """True if the party has nothing to do until the clock is moved."""
        ...


class VirtualClock:
    """A clock moved by the test. Due work is done at exactly its time.

    The epoch of a server is its start time. Move the clock between two consecutive servers: otherwise clients
    ignore the second server as older.
    """

    def __init__(self, start: float = START) -> None:
        """Start at `start`, in unix seconds."""
        self._now = start
        self._waiting: dict[asyncio.Event, float] = {}
        self._came = asyncio.Event()
        self._sleeping: dict[asyncio.Event, float] = {}
        self._parties: list[Party] = []

    def attend(self, party: Party) -> None:
        """Let `advance` wait for a party from now on."""
        self._parties.append(party)

    def leave(self, party: Party) -> None:
        """Stop waiting for the party; no effect if `advance` does not wait for it."""
        if party in self._parties:
            self._parties.remove(party)

    def now(self) -> float:
        """Unix seconds."""
        return self._now

    async def wait(self, until: float | None, event: asyncio.Event) -> None:
        """Return when the event is set, or the clock has reached `until`."""
        if until is not None and until <= self._now:
            return
        self._waiting[event] = inf if until is None else until
        self._came.set()
        try:
            await event.wait()
        finally:
            del self._waiting[event]

    async def sleep(self, seconds: float) -> None:
        """Return once the clock was moved by `seconds`. `advance` does not wait for the sleeper."""
        woken = asyncio.Event()
        self._sleeping[woken] = self._now + seconds
        try:
            await woken.wait()
        finally:
            del self._sleeping[woken]

    async def advance(self, seconds: float) -> None:
        """Move the clock by `seconds`, with a stop at each time for which a task waits.

        Before the first step and at each stop, all messages between server and fake RMs are processed, with
        all their consequences. Returns when all due work is done, and all tasks wait again. Sleepers are
        woken at their times; they need not wait again.

        Raises TimeoutError if server and RMs are not settled within 10 s of real time.
        """
        await self._settle(len(self._waiting))
        end = self._now + seconds
        while (nearest := self._nearest()) <= end:
            self._now = max(self._now, nearest)
            for times in (self._waiting, self._sleeping):
                for event in [event for event, until in times.items() if until <= self._now]:
                    event.set()
            await self._settle(len(self._waiting))
        self._now = end

    async def _settle(self, count: int) -> None:
        """Wait until all parties are settled, and all woken tasks wait again, `count` in total.

        A task that an event has woken may not have run yet, and so may not have registered its next wait.
        """
        try:
            async with asyncio.timeout(PATIENCE):
                await self._all_back(count)
                while self._unsettled():
                    # Data on its way between two parties arrives through the loop's selector.
                    await asyncio.sleep(0)
                    await self._all_back(0)
        except TimeoutError:
            names = ", ".join(map(str, self._unsettled())) or "a task"
            raise TimeoutError(f"waited {PATIENCE:g} s for {names} to come to rest") from None

    def _unsettled(self) -> list[Party | str]:
        found: list[Party | str] = [party for party in self._parties if not party.is_settled]
        if any(woken.is_set() for woken in self._sleeping):
            found.append("a sleeper")
        return found

    def _nearest(self) -> float:
        """The next time for which a task waits or sleeps; infinite if there is none."""
        sleeping = (until for woken, until in self._sleeping.items() if not woken.is_set())
        return min((*self._waiting.values(), *sleeping, inf))

    async def _all_back(self, count: int) -> None:
        """Wait until all woken tasks wait again, `count` in total."""
        while True:
            self._came.clear()
            await asyncio.sleep(0)
            if len(self._waiting) >= count and not any(event.is_set() for event in self._waiting):
                return
            if len(self._waiting) < count:
                await self._came.wait()


class Progress(NamedTuple):
    """The state of an RM's session on its server."""

    stamp: tuple[int, int]
    """Epoch and session number."""
    processed: int
    """Number of the last request that was processed."""
    sent: int
    """Number of the last response that was sent."""


_HERE: dict[str, Callable[[], "Served | None"]] = {}
"""The servers and proxies of this process by address: functions that return the server behind each."""


def served_at(target: str) -> "Served | None":
    """The server that a connection to the target reaches now; None if there is none in this process."""
    found = _HERE.get(target)
    return None if found is None else found()


def listen_at(target: str, behind: Callable[[], "Served | None"]) -> None:
    """Register a server or a proxy of this process; `behind` returns the server behind it."""
    _HERE[target] = behind


def gone_from(target: str) -> None:
    """Unregister a server or a proxy."""
    _HERE.pop(target, None)


LOOPBACK = Address(host="127.0.0.1", port=0)
TICK = 0.001
"""Seconds by which a virtual clock is moved before a restart, because the epoch has to rise."""


class Served:
    """A server that a test can start, stop, crash and examine."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Create the server; it does not run before `start`."""
        self._settings = settings
        self.clock = clock
        """Clock of the server."""
        self.target = ""
        """``host:port`` of gRPC, the same after a restart."""
        self.http = ""
        """``host:port`` of REST, metrics and the page."""
        self._server: Server | None = None

    @property
    def views(self) -> Views:
        """Reports of the core, to be read in the event loop of the test. Raises ValueError if it is down."""
        return self._up().scheduler.views

    async def start(self) -> None:
        """Start a server without state; from the second start on, it uses the same ports again.

        Raises ValueError if a server is running, and SettingsError if another program uses the ports.
        """
        if self._server is not None:
            raise ValueError("the server is running")
        if self.target and isinstance(self.clock, VirtualClock):
            await self.clock.advance(TICK)
        server = Server(self._settings, clock=self.clock)
        try:
            await server.start()
        except BaseException:
            await server.stop(at_once=True)
            raise
        self._server = server
        self.target, self.http = server.grpc_address, server.http_address
        listen_at(self.target, lambda: self if self._server is not None else None)
        self._settings = dataclasses.replace(
            self._settings, listen=_address(self.target), http=_address(self.http)
        )

    @property
    def is_settled(self) -> bool:
        """True if the server is down, or has nothing to do until its clock is moved."""
        return self._server is None or not self._server.engine.has_work

    def progress(self, rm_id: str) -> Progress | None:
        """The state of an RM's session; None while there is no session, or messages have to be sent.

        The RM may have read a message that is still being written. Its deadlines begin after that write.
        """
        rm = self._up().rms.find(rm_id)
        if rm is None or rm.session.over_si or rm.outbox.peek(tuple(Kind)) is not None:
            return None
        if any(stream.is_writing for stream in rm.streams.values()):
            return None
        return Progress((rm.epoch, rm.registration.number), rm.session.received, rm.session.sent)

    def __str__(self) -> str:
        """``the server at 127.0.0.1:41233``."""
        return f"the server at {self.target}"

    async def stop(self) -> None:
        """Stop normally: RMs are notified, and all decisions are sent. Does nothing if the server is down."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def crash(self) -> None:
        """Stop without notice to RMs, as if the process was killed. Does nothing if the server is down."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(at_once=True)

    async def restart(self, *, crash: bool = False) -> None:
        """Stop normally, or as in a crash, and start without state on the same ports."""
        await (self.crash() if crash else self.stop())
        await self.start()

    async def drop_streams(self, rm_id: str, *names: str) -> int:
        """Break off the open streams of an RM without notice; returns their number.

        `names` restricts the streams: ``Session.Update``, or of `si.v1` ``UpdateNode``, ``UpdateApplication``
        and ``UpdateAllocation``. Books and unsent messages are retained.

        Raises ValueError for an RM that is not registered.
        """
        rm = self._up().rms.find(rm_id)
        if rm is None:
            raise ValueError(f"rm_id is {rm_id!r}: no such RM is registered")
        error = CallError(grpc.StatusCode.UNAVAILABLE, "the test has dropped this stream")
        dropped = [stream for kind, stream in rm.streams.items() if not names or kind.value in names]
        for stream in dropped:
            stream.end(error)
        for stream in dropped:
            await stream.closed.wait()
        return len(dropped)

    def _up(self) -> Server:
        if self._server is None:
            raise ValueError("the server is down")
        return self._server


@asynccontextmanager
async def serve(
    config: str = "",
    *,
    clock: Clock | None = None,
    drain: float = 1.0,
    spans: "SpanExporter | None" = None,
    trace_sample: float = 1.0,
) -> AsyncIterator[Served]:
    """A server that is ready inside the block and stopped after it.

    `config` is the queue configuration of resource managers that register without one. With a `VirtualClock`
    the test moves the time. `drain` is the number of seconds that open streams may take to end. The exporter
    `spans` receives each span when it ends, and `trace_sample` is the share of work that is traced if its
    caller makes no decision; both need the extra `otel`.

    Raises:
        SettingsError: the configuration is refused; the text has all problems.
    """
    try:
        default = load(config)
    except ConfigError as error:
        raise SettingsError(f"the default configuration is refused:\n{error}") from None
    settings = Settings(
        listen=LOOPBACK,
        http=LOOPBACK,
        default_config=default,
        drain=drain,
        # Pauses cannot be estimated, because the measured memory is that of the whole test process.
        rms=RmBounds(plan_pause=0.0),
        traces=None if spans is None else TraceSettings(exporter=spans, sample=trace_sample),
    )
    clock = clock or SystemClock()
    served = Served(settings, clock)
    await served.start()
    if isinstance(clock, VirtualClock):
        clock.attend(served)
    try:
        yield served
    finally:
        if isinstance(clock, VirtualClock):
            clock.leave(served)
        gone_from(served.target)
        await served.stop()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host=host, port=int(port))
