"""Reconnection after the loss of a server: its time and its address."""

import asyncio
import logging
from itertools import count

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]
from grpc import aio

from licorne import Client, ConnectionLost, RetryConfig
from licorne import connection as client_connection
from licorne.channel import Backoff, wanted_wait
from licorne_server.testing import Proxy, serve
from support.patience import PATIENCE
from support.peers.scripted import QUICK, ScriptedStream, scripted
from support.peers.shim import eventually


class Recorded(Backoff):
    """A back-off that records its calls, and never waits long."""

    def __init__(self, retry: RetryConfig) -> None:
        """Start without calls."""
        super().__init__(retry)
        self.asked: list[float | str] = []

    def next(self, *, exhausted: bool = False) -> float:
        """Record whether the server had no room."""
        self.asked.append("exhausted" if exhausted else "lost")
        return 0.0

    def told(self, seconds: float) -> float:
        """Record the wait that the server requested."""
        self.asked.append(seconds)
        return 0.0


async def test_every_try_has_its_own_connection() -> None:
    """Each try has its own connection, and gRPC itself makes none.

    So only the client's own waits determine when and how often it tries to reconnect.
    """
    async with Proxy() as proxy, Client(proxy.target, rm_id="rm1", retry=QUICK) as rm:
        await eventually(lambda: rm.stats.streams > 5)
        # The connection of the last try may still be missing.
        assert proxy.connections in (rm.stats.streams, rm.stats.streams - 1)


async def test_the_next_try_joins_a_server_that_is_back() -> None:
    """However many tries have failed, the first one after the return of the server succeeds."""
    async with (
        serve() as server,
        Proxy() as proxy,
        Client(proxy.target, rm_id="rm1", retry=QUICK) as rm,
    ):
        await eventually(lambda: rm.stats.streams > 5)
        assert rm.stats.welcomed == 0
        proxy.upstream, before = server.target, proxy.connections
        await asyncio.wait_for(rm.ready(), PATIENCE)
        assert rm.stats.welcomed == 1
        # One connection may have been in progress before the server's return.
        assert proxy.connections <= before + 2


def refused(code: grpc.StatusCode, *details: bytes) -> aio.AioRpcError:
    """An error of a call with these details."""
    trailing = aio.Metadata(*[("grpc-status-details-bin", detail) for detail in details])
    return aio.AioRpcError(code, aio.Metadata(), trailing, "not now")


def with_delay(**duration: int) -> bytes:
    """Details with a delay before the next try."""
    status = status_pb2.Status(code=8)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="TOO_MANY_RMS"))
    status.details.add().Pack(error_details_pb2.RetryInfo(retry_delay=Duration(**duration)))
    raw: bytes = status.SerializeToString()
    return raw


@pytest.mark.parametrize(
    ("details", "seconds"),
    [
        ((with_delay(seconds=7, nanos=500_000_000),), 7.5),
        ((with_delay(),), None),
        ((with_delay(seconds=-1),), None),
        ((b"\x07 no status",), None),
        ((), None),
    ],
)
def test_a_status_may_request_a_delay(details: tuple[bytes, ...], seconds: float | None) -> None:
    """The delay is read from the details; a missing or invalid delay counts as none."""
    assert wanted_wait(refused(grpc.StatusCode.RESOURCE_EXHAUSTED, *details)) == seconds


async def test_a_server_without_room_is_called_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A requested delay is kept; without one a full server gets more time than an unavailable one."""
    monkeypatch.setattr(client_connection, "Backoff", Recorded)
    full = grpc.StatusCode.RESOURCE_EXHAUSTED

    async def waits(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.end(full, with_delay(seconds=7))

    async def is_full(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(full, "full")

    async def is_away(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "away")

    async def welcomes(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.until_goodbye()

    scripts = (waits, is_full, is_away, welcomes)
    async with scripted(*scripts) as target, Client(target, rm_id="rm1") as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
        backoff = rm._connection._backoff
    assert isinstance(backoff, Recorded)
    assert backoff.asked[:3] == [7.0, "exhausted", "lost"]


async def test_an_outage_is_logged_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    """Failures 1, 2, 4 and 8 of ten have a line, and so have those with a new reason, and the return."""

    async def is_away(stream: ScriptedStream) -> None:
        await stream.read()
        await stream.abort(grpc.StatusCode.UNAVAILABLE, "full" if next(tries) == 6 else "away")

    async def welcomes(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await stream.until_goodbye()

    tries = count(1)
    soon = RetryConfig(initial=0.001, maximum=0.001)
    async with scripted(*[is_away] * 10, welcomes) as target, Client(target, rm_id="rm1", retry=soon) as rm:
        await asyncio.wait_for(rm.ready(), PATIENCE)
    said = [record.getMessage() for record in caplog.records if "connect" in record.getMessage()]
    away = [f"no connection to {target}: {why}" for why in ("away", "away", "away", "full", "away", "away")]
    assert said == [*away, f"connected to {target}, failures before: 10"]


async def test_only_the_first_redirect_is_followed_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A second redirect waits like a failure, so that the client does not flood servers in a circle."""
    caplog.set_level(logging.INFO, "licorne")
    patient = RetryConfig(initial=1_000_000, maximum=1_000_000)
    addresses: list[str] = []

    async def redirect(stream: ScriptedStream) -> None:
        await stream.welcome(redirect=addresses[0])

    async with scripted(redirect, redirect) as target:
        addresses.append(target)
        async with Client(target, rm_id="rm1", retry=patient):
            await eventually(lambda: len(waits(caplog)) == 2)
    assert waits(caplog)[0] == 0
    assert waits(caplog)[1] > 0


def waits(caplog: pytest.LogCaptureFixture) -> list[float]:
    """The seconds that the client waited after each redirect, from its log."""
    told = [record.getMessage() for record in caplog.records]
    return [float(line.split()[-2]) for line in told if line.startswith("redirected")]


async def test_redirects_do_not_count_as_sessions() -> None:
    """A client that is only redirected gives up after its patience."""
    addresses: list[str] = []

    async def redirect(stream: ScriptedStream) -> None:
        await stream.welcome(redirect=addresses[0])

    hasty = RetryConfig(initial=0.01, maximum=0.01, give_up_after=0.001)
    async with scripted(*[redirect] * 100) as target:
        addresses.append(target)
        async with Client(target, rm_id="rm1", retry=hasty) as rm:
            with pytest.raises(ConnectionLost, match="redirected"):
                await asyncio.wait_for(rm.ready(), PATIENCE)
