"""Hundreds of thousands of frames outside of calls: the connection is cut, and others continue."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from attacks.conftest import Check
from support.patience import PATIENCE
from support.peers.networks import (
    END_HEADERS,
    HEADERS,
    PING,
    PRIORITY,
    RESET,
    SETTINGS,
    UNKNOWN,
    WINDOW,
    RawHttp2,
    frame,
    header_block,
)
from support.server.server_process import ServerProcess

AT_ONCE = 1_000
CALL = header_block("/si.v1.Scheduler/UpdateNode")
CANCEL = (8).to_bytes(4, "big")


def opened_and_reset(number: int) -> bytes:
    """A stream that is opened and reset at once."""
    opening = frame(HEADERS, CALL, stream=number, flags=END_HEADERS)
    return opening + frame(RESET, CANCEL, stream=number)


@pytest.fixture
async def attacker(server: ServerProcess) -> AsyncIterator[RawHttp2]:
    """A connection of HTTP/2 without calls."""
    attacker = await RawHttp2.open(server.target)
    await attacker.begin()
    yield attacker
    await attacker.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        pytest.param(frame(SETTINGS), id="settings"),
        pytest.param(frame(SETTINGS, b"\0\4\0\1\0\0"), id="settings with a value"),
        pytest.param(frame(WINDOW, b"\0\0\0\1"), id="window update"),
        pytest.param(frame(PRIORITY, b"\0\0\0\0\1", stream=1), id="priority"),
        pytest.param(frame(UNKNOWN), id="unknown"),
    ],
)
async def test_a_flood_of_frames_is_cut(
    server: ServerProcess, attacker: RawHttp2, others_are_served: Check, unit: bytes
) -> None:
    """A connection that sends nothing but control frames is closed, and others are served."""
    beside = asyncio.create_task(others_are_served(server))
    async with asyncio.timeout(PATIENCE):
        while not attacker.closed.is_set():
            await attacker.send(unit * AT_ONCE)
    await beside


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 50, AT_ONCE])
async def test_a_flood_of_pings_is_cut(
    server: ServerProcess, attacker: RawHttp2, others_are_served: Check, at_once: int
) -> None:
    """A connection that sends only pings is closed soon, however many are sent at once."""
    beside = asyncio.create_task(others_are_served(server))
    async with asyncio.timeout(PATIENCE):
        while not attacker.closed.is_set():
            await attacker.send(frame(PING, b"12345678") * at_once)
    await beside


@pytest.mark.slow
async def test_keep_alive_pings_are_no_flood(server: ServerProcess, attacker: RawHttp2) -> None:
    """Two pings in a row are answered, and the connection stays open."""
    for _ in range(2):
        await attacker.dealt_with()
    assert not attacker.closed.is_set()


@pytest.mark.slow
async def test_a_flood_of_resets_is_cut(
    server: ServerProcess, attacker: RawHttp2, others_are_served: Check
) -> None:
    """A connection that opens streams and resets them at once is closed."""
    numbers = count(1, 2)
    beside = asyncio.create_task(others_are_served(server))
    async with asyncio.timeout(PATIENCE):
        while not attacker.closed.is_set():
            await attacker.send(b"".join(opened_and_reset(next(numbers)) for _ in range(20)))
    await beside
