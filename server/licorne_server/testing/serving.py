"""A server inside the test's own loop, on free ports of the loopback interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from licorne_core.config import load
from licorne_core.errors import ConfigError
from licorne_core.views import Views
from licorne_server.app import running
from licorne_server.clock import Clock, SystemClock
from licorne_server.settings import Address, Settings, SettingsError

LOOPBACK = Address(host="127.0.0.1", port=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A running server: where it is, and what it knows.

    `target` and `http` are ``host:port``. `views` are the core's own reports, to be read
    from the test's loop.
    """

    target: str
    http: str
    views: Views
    clock: Clock


@asynccontextmanager
async def serve(
    config: str = "", *, clock: Clock | None = None, drain: float = 1.0
) -> AsyncIterator[Served]:
    """A server that is ready inside the block and stopped after it.

    `config` is the queue configuration of the resource managers that register without one.
    With a `VirtualClock` timers fire when the test says so; `drain` is how long open streams may
    take to end, in seconds.

    Raises:
        SettingsError: the configuration is refused; the text has all its problems.
    """
    clock = clock or SystemClock()
    try:
        default = load(config)
    except ConfigError as error:
        raise SettingsError(f"the default configuration is refused:\n{error}") from None
    settings = Settings(
        listen=LOOPBACK, http=LOOPBACK, default_config=default, drain=drain, log_level="warning"
    )
    async with running(settings, clock=clock) as server:
        yield Served(
            target=server.grpc_address,
            http=server.http_address,
            views=server.scheduler.views,
            clock=clock,
        )
