"""Redirects that lead to no session."""

import asyncio
import logging

import pytest

from licorne import Client, ConnectionLost, RetryConfig
from support.peers.scripted import ScriptedStream, scripted
from support.peers.shim import eventually


async def test_only_the_first_redirect_is_followed_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The next one waits as a failure does: the client does not overrun servers in a circle."""
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
    """How many seconds the client waited after each redirect, as it has logged them."""
    told = [record.getMessage() for record in caplog.records]
    return [float(line.split()[-2]) for line in told if line.startswith("redirected")]


async def test_redirects_are_no_session() -> None:
    """A client that is only redirected gives up in time."""
    addresses: list[str] = []

    async def redirect(stream: ScriptedStream) -> None:
        await stream.welcome(redirect=addresses[0])

    hasty = RetryConfig(initial=0.01, maximum=0.01, give_up_after=0.001)
    async with scripted(*[redirect] * 100) as target:
        addresses.append(target)
        async with Client(target, rm_id="rm1", retry=hasty) as rm:
            with pytest.raises(ConnectionLost, match="redirected"):
                await asyncio.wait_for(rm.ready(), 10)
