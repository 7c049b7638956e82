"""A server inside the test's own loop, on free ports of the loopback interface."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from licorne_core.config import load
from licorne_core.values.errors import ConfigError
from licorne_core.views import Views
from licorne_server.process.clock import Clock, SystemClock
from licorne_server.process.rm_bounds import RmBounds
from licorne_server.process.settings import Address, Settings, SettingsError
from licorne_server.serving.app import Server
from licorne_server.telemetry.tracing.settings import TraceSettings
from licorne_server.testing.virtual_clock import VirtualClock
from licorne_server.wire.errors import CallError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

LOOPBACK = Address(host="127.0.0.1", port=0)
TICK = 0.001
"""Seconds that a virtual clock is moved before a second server starts: its epoch must be higher."""


class Served:
    """A running server: its addresses, its state, and its crash."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        """Nothing runs before `start`."""
        self._settings = settings
        self.clock = clock
        """The clock that it runs on."""
        self.target = ""
        """``host:port`` of gRPC. It is the same for every server that is started here."""
        self.http = ""
        """``host:port`` of REST, metrics and the page."""
        self._server: Server | None = None

    @property
    def views(self) -> Views:
        """The core's own reports, read them from the test's loop. Raises ValueError if down."""
        return self._up().scheduler.views

    async def start(self) -> None:
        """Start a server with an empty memory; the second and later ones on the ports of the first.

        Raises ValueError if one is running, and SettingsError if another program took the ports.
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
        self._settings = dataclasses.replace(
            self._settings, listen=_address(self.target), http=_address(self.http)
        )

    async def stop(self) -> None:
        """Stop in order: RMs are notified, and all decisions are sent. Does nothing if down."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def crash(self) -> None:
        """Stop without a goodbye, as if the process was killed. Does nothing if down."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(at_once=True)

    async def restart(self, *, crash: bool = False) -> None:
        """Stop in order, or as in a crash, and start with an empty memory on the same ports."""
        await (self.crash() if crash else self.stop())
        await self.start()

    async def drop_streams(self, rm_id: str, *names: str) -> int:
        """Break the open streams of an RM off, without a goodbye; returns how many.

        With `names` only those: ``Session.Update``, or of `si.v1` ``UpdateNode``,
        ``UpdateApplication`` and ``UpdateAllocation``. Books and what waits to be sent stay.

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

    `config` is the queue configuration of the resource managers that register without one.
    With a `VirtualClock` timers fire when the test says so; `drain` is how long open streams may
    take to end, in seconds. The exporter `spans` gets every span when it has ended, and
    `trace_sample` is the share of work traced without a caller's decision; this needs the
    extra `otel`.

    Raises:
        SettingsError: the configuration is refused; the text has all its problems.
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
        log_level="warning",
        # The memory is that of the test, not of a server: it says nothing of a pause.
        rms=RmBounds(plan_pause=0.0),
        traces=None if spans is None else TraceSettings(exporter=spans, sample=trace_sample),
    )
    served = Served(settings, clock or SystemClock())
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


def _address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    return Address(host=host, port=int(port))
