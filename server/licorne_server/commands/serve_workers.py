"""`licorne serve --workers N`: the supervisor of N processes of `licorne serve`, until a signal."""

import asyncio
import fcntl
import os
import pickle
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from licorne_server.assembly.workers.supervisor import (
    STORE,
    Plan,
    Reservation,
    Supervisor,
    documents_of_workers,
)
from licorne_server.commands.ports import OFF, Ports
from licorne_server.commands.serve_options import build
from licorne_server.commands.settings.sources import Reading
from licorne_server.commands.settings.tables import Members, Server, Tables
from licorne_server.process.coordination import Coordination, worker_name
from licorne_server.process.loop import ServerLoop
from licorne_server.process.settings import Address, Settings, SettingsError

OK = 0
FAILED = 1

# With -P no modules are loaded from the current folder. The child ends with this process.
PROGRAM = (sys.executable, "-P", "-m", "licorne_server.commands.serve")

SETTINGS = ".settings"
"""Suffix of the files with the settings of the workers; the number of the worker precedes it."""

MAX_FOLDER = 80
"""Maximum number of bytes of the path of the sockets' folder: the kernel accepts 107 for a socket."""


def supervise(reading: Reading, stderr: int) -> int:
    """Serve by several processes until a signal; returns the exit code.

    All workers get the settings as read at the start, even after a restart: files and variables may have
    changed meanwhile. `stderr` is a descriptor for the logs of the workers.

    Raises:
        SettingsError: the workers cannot start.
    """
    tables = reading.tables
    if tables.coordination.store is not None:
        raise SettingsError(
            "server.workers cannot be used with coordination.store: a worker has no address of its own"
        )
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        # Settings that a worker would refuse are refused here, once and before anything is started.
        settings = build(_own(tables, folder, 1))
        settings.check()
        ports = _reserved(settings, stack)
        workers = range(1, tables.server.workers + 1)
        # The limit applies to all workers together: they share a machine and a control group.
        bounds = replace(tables.bounds, max_memory=settings.rms.memory // len(workers))
        shared = replace(tables, server=_listening(tables.server, ports), bounds=bounds)
        for number in workers:
            own = reading._replace(tables=_own(shared, folder, number))
            _file(folder, number).write_bytes(pickle.dumps(own))
        plan = Plan(
            folder=folder,
            commands=[(*PROGRAM, str(_file(folder, number))) for number in workers],
            stderr=stderr,
            drain=settings.drain,
            stall=settings.stall,
        )
        documents = documents_of_workers(settings.state_dir)
        documents.open()
        supervisor = Supervisor(plan, documents=documents)
        runner = stack.enter_context(asyncio.Runner(loop_factory=ServerLoop))
        return runner.run(_until_the_end(supervisor, ports))


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for sockets and settings, which only this user may enter.

    Raises:
        SettingsError: the folder cannot be created.
    """
    try:
        with TemporaryDirectory(prefix="licorne-", ignore_cleanup_errors=True) as name:
            if len(os.fsencode(name)) > MAX_FOLDER:
                raise SettingsError(f"server.workers: the path for sockets is too long, set TMPDIR: {name}")
            with ExitStack() as stack:
                # systemd-tmpfiles removes old files, except those in locked folders.
                descriptor = os.open(name, os.O_RDONLY)
                stack.callback(os.close, descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_SH)
                yield Path(name)
    except FileNotFoundError as error:
        raise SettingsError(f"server.workers needs a folder for sockets, set TMPDIR: {error}") from None


def _file(folder: Path, number: int) -> Path:
    """The file with the settings of a worker."""
    return folder / f"{number}{SETTINGS}"


def _own(tables: Tables, folder: Path, number: int) -> Tables:
    """The settings of a worker: those of the supervisor, plus those of a member."""
    server, name = tables.server, worker_name(number)
    journal = None if server.journal is None else server.journal / name
    size = server.journal_size // server.workers
    members = Members(
        store=Coordination(backend="local", hosts=(str(folder / STORE),)),
        advertise=f"unix:{folder / f'{number}.grpc'}",
        name=name,
    )
    server = replace(server, workers=1, journal=journal, journal_size=size)
    return replace(tables, server=server, coordination=members)


def _listening(server: Server, ports: Ports) -> Server:
    """The settings with the addresses that were reserved."""
    http, metrics = (
        None if text in ("", OFF) else Address.parse(text) for text in (ports.http, ports.metrics)
    )
    return replace(server, listen=Address.parse(ports.grpc), http=http, metrics=metrics)


def _reserved(settings: Settings, stack: ExitStack) -> Ports:
    """Reserve the addresses until `stack` is closed.

    Raises:
        SettingsError: one of them is in use, or cannot be used.
    """
    found = []
    for address in (settings.listen, settings.http, settings.metrics):
        if address is None:
            found.append("")
            continue
        reservation = Reservation(address)
        stack.callback(reservation.close)
        found.append(str(reservation.address))
    grpc, http, metrics = found
    return Ports(grpc, http or OFF, metrics, "https" if settings.http_tls else "http")


async def _until_the_end(supervisor: Supervisor, ports: Ports) -> int:
    """Supervise until a signal, or until the supervisor has failed; returns the exit code."""
    signalled = asyncio.Event()

    def note_signal() -> None:
        if signalled.is_set():
            supervisor.kill("a second signal has come")
        signalled.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, note_signal)
    loop.add_signal_handler(signal.SIGHUP, supervisor.reload)
    try:
        starting = asyncio.create_task(supervisor.start())
        waits = [asyncio.create_task(event.wait()) for event in (signalled, supervisor.failed)]
        await asyncio.wait([starting, *waits], return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and starting.result():
            ports.announce()
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in (starting, *waits):
            task.cancel()
    finally:
        all_well = await supervisor.stop()
    return OK if all_well and not supervisor.failed.is_set() else FAILED
