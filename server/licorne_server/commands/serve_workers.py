"""`licorne serve --workers N`: the supervisor of N processes of `licorne serve`, until a signal."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from licorne_cli.commands import parser_for
from licorne_server.assembly.workers.disk import Disk
from licorne_server.assembly.workers.ports import Reservation
from licorne_server.assembly.workers.supervisor import STORE, Plan, Supervisor
from licorne_server.commands.ports import OFF, Ports
from licorne_server.commands.serve_options import settings_of
from licorne_server.process.coordination import worker_name
from licorne_server.process.loop import ServerLoop
from licorne_server.process.settings import Settings, SettingsError

OK = 0
FAILED = 1

# With -P no modules are loaded from the current folder. The child ends with this process.
PROGRAM = (sys.executable, "-P", "-m", "licorne_server.commands.child")

MAX_FOLDER = 80
"""Bytes of the path of the sockets' folder, at most: the kernel takes 107 for a socket."""


def supervise(args: argparse.Namespace, stderr: int) -> int:
    """Serve by `args.workers` processes until a signal; returns the exit code.

    `stderr` is a descriptor for the logs of the workers.

    Raises:
        SettingsError: they cannot start.
    """
    if args.coordination:
        raise SettingsError(
            "--workers cannot be used with --coordination: a worker has no address of its own"
        )
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        # Whatever a worker would refuse is refused here, once and before anything is started.
        settings = _settings(_arguments(args, folder, 1))
        settings.check()
        ports = _reserved(settings, stack)
        commands = [
            (*PROGRAM, *_arguments(args, folder, number, _shared(settings, ports, args.workers)))
            for number in range(1, args.workers + 1)
        ]
        plan = Plan(
            folder=folder, commands=commands, stderr=stderr, drain=settings.drain, stall=settings.stall
        )
        supervisor = Supervisor(plan, disk=None if settings.state_dir is None else Disk(settings.state_dir))
        runner = stack.enter_context(asyncio.Runner(loop_factory=ServerLoop))
        return runner.run(_until_the_end(supervisor, ports))


@contextmanager
def _folder() -> Iterator[Path]:
    """A folder for the sockets, which only this user may enter.

    Raises:
        SettingsError: there is no place for it.
    """
    try:
        with TemporaryDirectory(prefix="licorne-", ignore_cleanup_errors=True) as name:
            if len(os.fsencode(name)) > MAX_FOLDER:
                raise SettingsError(f"--workers: the path for sockets is too long, set TMPDIR: {name}")
            yield Path(name)
    except FileNotFoundError as error:
        raise SettingsError(f"--workers needs a folder for sockets, set TMPDIR: {error}") from None


def _arguments(args: argparse.Namespace, folder: Path, number: int, shared: Sequence[str] = ()) -> list[str]:
    """The arguments of a worker: those of the supervisor, and what makes it a member. The last one counts."""
    journal = {}
    if args.journal is not None:
        journal = {
            "--journal": str(args.journal / worker_name(number)),
            "--journal-size": str(args.journal_size // args.workers),
        }
    own = {
        **journal,
        "--workers": "1",
        "--coordination": f"local:{folder / STORE}",
        "--member-name": worker_name(number),
        "--advertise": f"unix:{folder / f'{number}.grpc'}",
        "--advertise-http": f"unix:{folder / f'{number}.http'}",
    }
    return [*args.given, *(word for pair in own.items() for word in pair), *shared]


def _settings(arguments: Sequence[str]) -> Settings:
    return settings_of(parser_for("serve").parse_line(arguments))


def _shared(settings: Settings, ports: Ports, workers: int) -> list[str]:
    """The arguments that all workers have in common."""
    metrics = ["--metrics", ports.metrics] if ports.metrics else []
    # The limit is that of all workers together: they share a machine and a control group.
    memory = str(settings.rms.memory // workers)
    return ["--listen", ports.grpc, "--http", ports.http, *metrics, "--max-memory", memory]


def _reserved(settings: Settings, stack: ExitStack) -> Ports:
    """Reserve the addresses until the end of the stack.

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
