"""`licorne dev`: a server for experiments, and three fake resource managers, until Ctrl-C."""

import argparse
import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress

from licorne import LicorneError
from licorne_cli.connection.target import DEFAULT_TARGET
from licorne_cli.output.text import say
from licorne_cli.parsing.parser import seconds
from licorne_server.commands.ports import Ports
from licorne_server.commands.server_process import ServerFailed, ServerProcess, running_server
from licorne_server.lab.demo.planned import planned_worlds
from licorne_server.lab.demo.rm import STEP_SECONDS, DemoRm
from licorne_server.lab.demo.world import STANDING_APPLICATION, endless
from licorne_server.process.settings import Settings

EXAMPLES = (
    ("licorne dev", "and open the page that it names"),
    ("licorne dev --listen 127.0.0.1:0 --http 127.0.0.1:0", "on free ports, beside another server"),
)
USUAL = Settings()
DEFAULT_ROUND = 60.0
SHORTEST_ROUND = 1.0
TRIED = (
    "top",
    "queues",
    f"explain {STANDING_APPLICATION}",
    "topology --rm research",
    "apps tuning --rm research",
    "calendar",
)
"""Commands that are suggested to the user."""
OK = 0
FAILED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne dev`."""
    add = parser.add_argument
    add("--listen", default=str(USUAL.listen), metavar="HOST:PORT", help="gRPC (%(default)s)")
    add("--http", default=str(USUAL.http), metavar="HOST:PORT", help="the page and REST (%(default)s)")
    add(
        "--round",
        type=seconds(SHORTEST_ROUND),
        default=DEFAULT_ROUND,
        metavar="SECONDS",
        help="after which the RMs' work starts over (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve and play until a signal; returns 0, or 2 if the server did not start or was lost."""
    status = OK
    try:
        asyncio.run(serve_until_signal(args))
    except* (ServerFailed, LicorneError) as failures:
        failure = str(failures.exceptions[0])
        say(f"licorne: {failure}{advice(args, failure)}")
        status = FAILED
    return status


def advice(args: argparse.Namespace, failure: str) -> str:
    """A suggestion to choose another address, if the server cannot listen; else empty."""
    for option, address in (("--listen", args.listen), ("--http", args.http)):
        if f"cannot listen on {address}:" in failure:
            return f"\nlicorne: give another address with {option}, such as 127.0.0.1:0 for a free port"
    return ""


async def serve_until_signal(args: argparse.Namespace) -> None:
    """Serve and play until a signal.

    Raises:
        ServerFailed: the server did not start, or ended by itself.
    """
    serving = asyncio.ensure_future(serve(args))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    # Cancellation is the regular end; other errors are raised.
    with suppress(asyncio.CancelledError):
        await serving
    say("stopped")


async def serve(args: argparse.Namespace) -> None:
    """Serve, and play all RMs until the server ends."""
    rms = [DemoRm(world, args.round) for world in planned_worlds()]
    async with running_server(listen=args.listen, http=args.http) as server:
        for line in introduction(server, ", ".join(rm.world.rm_id for rm in rms)):
            print(line, flush=True)
        async with asyncio.TaskGroup() as group:
            players = group.create_task(play_in_order(rms, server.target))
            await server.process.wait()
            players.cancel()


async def play_in_order(rms: Sequence[DemoRm], target: str) -> None:
    """Play RMs until cancelled. The first one registers first: its partition is the default one."""
    async with asyncio.TaskGroup() as group:
        for rm in rms:
            group.create_task(rm.play(target, endless(rm.world)))
            # The client reports no event at its first registration, so this polls.
            while not rm.was_served:  # noqa: ASYNC110
                await asyncio.sleep(STEP_SECONDS)


def introduction(server: ServerProcess, names: str) -> list[str]:
    """The lines about the server: its page, its address, its RMs, and commands to try."""
    target = "" if server.target == DEFAULT_TARGET else f" --target {server.target}"
    page = Ports(server.target, server.http).page
    return [
        *([f"page   {page}"] if page else []),
        f"gRPC   {server.target}",
        f"RMs    {names}: simulated clusters",
        *(f"try    licorne {words}{target}" for words in TRIED),
        "Ctrl-C ends all of it",
    ]
