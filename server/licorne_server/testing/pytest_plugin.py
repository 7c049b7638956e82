"""Fixtures for pytest, which need pytest-asyncio.

A project enables them in its topmost ``conftest.py``::

    pytest_plugins = ["licorne_server.testing.pytest_plugin"]
"""

from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest
import pytest_asyncio

from licorne_server.process.clock import Clock, SystemClock
from licorne_server.testing.fake_rm import FakeRM
from licorne_server.testing.serving import Served, VirtualClock, serve


class MakeRM(Protocol):
    """Connects another fake resource manager to the server of the test."""

    def __call__(self, rm_id: str = "rm1", **options: Any) -> Awaitable[FakeRM]:
        """Connect; `options` are those of `FakeRM`. The RM is closed after the test."""


@pytest.fixture
def licorne_config() -> str:
    """Queue configuration of `licorne_core`, by default the built-in one; may be overridden."""
    return ""


@pytest.fixture
def virtual_clock() -> VirtualClock:
    """A clock moved by the test, which the server of the test uses."""
    return VirtualClock()


@pytest.fixture
def licorne_clock(request: pytest.FixtureRequest) -> Clock:
    """Clock of `licorne_core`: the virtual clock if the test uses it, else the system's clock."""
    if "virtual_clock" in request.fixturenames:
        clock: Clock = request.getfixturevalue("virtual_clock")
        return clock
    return SystemClock()


@pytest_asyncio.fixture
async def licorne_core(licorne_config: str, licorne_clock: Clock) -> AsyncIterator[Served]:
    """A server on free ports, stopped after the test."""
    async with serve(licorne_config, clock=licorne_clock) as served:
        yield served


@pytest_asyncio.fixture
async def licorne_rm(licorne_core: Served) -> AsyncIterator[MakeRM]:
    """Connects fake resource managers: ``rm = await licorne_rm()``, or ``licorne_rm("rm2")``."""
    async with AsyncExitStack() as stack:

        async def make(rm_id: str = "rm1", **options: Any) -> FakeRM:
            options.setdefault("clock", licorne_core.clock)
            rm = FakeRM(licorne_core.target, rm_id=rm_id, **options)
            return await stack.enter_async_context(rm)

        yield make
