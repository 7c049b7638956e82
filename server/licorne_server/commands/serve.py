"""`licorne serve`: a server in its own process, until a signal or a failure.

Run as a program, this module is a worker of `--workers N`; its supervisor has written its settings to a file.
"""

import argparse
import asyncio
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import structlog

from licorne_cli.output.text import say
from licorne_server.commands.child import end_with_parent
from licorne_server.commands.ports import OFF, Ports
from licorne_server.commands.serve_options import add_arguments, build, reading_of
from licorne_server.commands.settings.sources import Reading, named
from licorne_server.process.bounds import raise_file_limit
from licorne_server.process.doors import doors_of
from licorne_server.process.loop import ServerLoop
from licorne_server.process.settings import Settings, SettingsError
from licorne_server.process.watchdog import FAILED, Watchdog

__all__ = ["EXAMPLES", "add_arguments", "run"]

log = structlog.get_logger("core.serve")

OK = 0
EXAMPLES = (
    ("licorne serve", "for this machine alone"),
    ("licorne serve --config queues.yaml", "with queues for RMs that bring none"),
    ("licorne serve --workers auto", "with all cores, for many RMs"),
    ("licorne serve --settings licorne.toml", "with a file, which licorne settings prints"),
    (
        "licorne serve --listen :7070 --tls-cert cert.pem --tls-key key.pem --tls-client-ca ca.pem",
        "for others, who show certificates",
    ),
)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal; returns the exit code."""
    raise_file_limit()
    try:
        reading = reading_of(args)
    except SettingsError as error:
        say(f"licorne: {error}")
        return FAILED
    return serve(reading)


def serve(reading: Reading) -> int:
    """Serve with these settings until a signal; returns the exit code."""
    from licorne_server.telemetry.logs import process_logs
    from licorne_server.telemetry.logs.stderr import STDERR

    tables = reading.tables
    level, form = tables.telemetry.log_level, tables.telemetry.log_format
    try:
        if tables.server.workers > 1:
            from licorne_server.commands.serve_workers import supervise

            # The logs of this process replace stderr.
            stderr = os.dup(STDERR) if sys.stderr is not None else subprocess.DEVNULL
            with process_logs(level, form):
                warn_of(reading.unknown)
                return supervise(reading, stderr)
        settings = build(tables)
        # The logs of all workers are merged, and the supervisor has already logged the warnings.
        of = {"worker": settings.worker} if settings.worker else {}
        with process_logs(level, form, of) as flush:
            if not settings.worker:
                warn_of(reading.unknown)
            return _serve(settings, flush)
    except SettingsError as error:
        say(f"licorne: {named(error, reading.names)}")
        return FAILED


def warn_of(unknown: Mapping[str, str]) -> None:
    """Warn of unknown variables. Other programs may have set them: Kubernetes sets some for each service."""
    for variable, meant in unknown.items():
        log.warning("variable sets nothing", variable=variable, meant=meant)


def _serve(settings: Settings, flush_logs: Callable[[], None]) -> int:
    """Serve until a signal or a failure; returns the exit code.

    Raises:
        SettingsError: the server cannot start.
    """

    def end(reason: str, code: int) -> None:
        """End the process from another thread, without the loop."""
        log.critical("server ends itself", reason=reason)
        flush_logs()
        os._exit(code)

    try:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            return runner.run(_until_the_end(settings, end))
    except SettingsError:
        raise
    except Exception:
        log.exception("server failed")
        return FAILED


async def _until_the_end(settings: Settings, end: Callable[[str, int], None]) -> int:
    """Serve until a signal or a failure; returns the exit code."""
    # Imported here: it is slow, and not needed for the help.
    from licorne_server.assembly.server import running

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
            # The watchdog runs until the server has stopped, as a stop may hang too.
            addresses = (server.grpc_address, server.http_address, server.metrics_address)
            watchdog = Watchdog(server, settings.stall, end, doors_of(settings, *addresses))
            watchdog.start()
            watching.callback(watchdog.stop)
            loop.add_signal_handler(signal.SIGHUP, server.reload)
            scheme = "https" if settings.http_tls else "http"
            http = server.http_address or OFF
            Ports(server.grpc_address, http, server.metrics_address, scheme).announce()
            waits = [asyncio.ensure_future(event.wait()) for event in (signalled, server.failed)]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            watchdog.leave_doors()
            for wait in waits:
                wait.cancel()
        return watchdog.exit_code if server.failed.is_set() else OK


if __name__ == "__main__":
    end_with_parent()
    sys.exit(serve(pickle.loads(Path(sys.argv[1]).read_bytes())))
