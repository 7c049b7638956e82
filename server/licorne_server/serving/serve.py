"""`licorne serve`: a server in its own process, until a signal comes or the engine ends."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack

import structlog

from licorne_server.process.loop import ServerLoop
from licorne_server.process.settings import Settings, SettingsError
from licorne_server.serving.app import running
from licorne_server.serving.watchdog import Watchdog

log = structlog.get_logger("core.serve")

OK = 0
FAILED = 1


def serve(settings: Settings, flush_logs: Callable[[], None]) -> int:
    """Serve until the end; returns the exit code.

    Raises:
        SettingsError: the server cannot start.
    """

    def end(reason: str) -> None:
        """End the process from another thread, whatever the loop does."""
        log.critical("server ends itself", reason=reason)
        flush_logs()
        os._exit(FAILED)

    try:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            return runner.run(_until_the_end(settings, end))
    except SettingsError:
        raise
    except Exception:
        log.exception("server failed")
        return FAILED


async def _until_the_end(settings: Settings, end: Callable[[str], None]) -> int:
    """Serve until a signal comes or the engine ends; the exit code."""
    signalled = asyncio.Event()

    def note_signal() -> None:
        if signalled.is_set():
            os._exit(FAILED)
        signalled.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, note_signal)
    with ExitStack() as watching:
        async with running(settings) as server:
            # It watches until the server has stopped, which may take for ever as well.
            watchdog = Watchdog(server, settings.stall, end)
            watchdog.start()
            watching.callback(watchdog.stop)
            loop.add_signal_handler(signal.SIGHUP, server.reload)
            where = f"grpc={server.grpc_address} http={server.http_address or 'off'}"
            metrics = f" metrics={server.metrics_address}" if server.metrics_address else ""
            # In one write: on a terminal the log goes on right behind it.
            sys.stdout.write(f"listening {where}{metrics}\n")
            sys.stdout.flush()
            waits = [asyncio.ensure_future(event.wait()) for event in (signalled, server.failed)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for wait in waits:
                wait.cancel()
        return FAILED if server.failed.is_set() else OK
