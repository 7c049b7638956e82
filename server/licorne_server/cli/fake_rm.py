"""`licorne fake-rm`: one of the demo's resource managers against a running server, without end."""

import argparse
import asyncio
import signal
from contextlib import suppress
from dataclasses import replace

from licorne import LicorneError
from licorne_server.cli.arguments import seconds
from licorne_server.cli.connection import OK, REFUSED
from licorne_server.cli.demo_rm import DemoRm
from licorne_server.cli.demo_world import rounds, worlds
from licorne_server.cli.output import say
from licorne_server.cli.target import DEFAULT_TARGET, target

EXAMPLES = (
    ("licorne fake-rm", "one of the demo's RMs against the server here"),
    ("licorne fake-rm --world services --rm-id second", "another one, under a name of its own"),
)
WORLDS = {world.rm_id: world for world in worlds()}
DEFAULT_ROUND = 60.0
SHORTEST_ROUND = 1.0
LINES_A_ROUND = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `licorne fake-rm`."""
    parser.add_argument(
        "--target",
        default=DEFAULT_TARGET,
        type=target,
        metavar="HOST[:PORT]",
        help="server (%(default)s)",
    )
    parser.add_argument("--world", choices=WORLDS, default="batch", help="whose (%(default)s)")
    parser.add_argument("--rm-id", default="", metavar="ID", help="(default: that of the world)")
    parser.add_argument(
        "--round",
        type=seconds(SHORTEST_ROUND),
        default=DEFAULT_ROUND,
        metavar="SECONDS",
        help="after which the work starts over (%(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Play until a signal comes. While there is no server, wait for it."""
    try:
        asyncio.run(play_until_signal(args))
    except LicorneError as error:
        say(f"licorne: {error}")
        return REFUSED
    return OK


async def play_until_signal(args: argparse.Namespace) -> None:
    """The world under the wanted name, and now and then a line about it."""
    world = WORLDS[args.world]
    rm = DemoRm(replace(world, rm_id=args.rm_id or world.rm_id), args.round)
    say(f"{rm.world.rm_id}: {args.world}'s work against {args.target}")
    talking = asyncio.create_task(talk(rm, args.round / LINES_A_ROUND))
    player = asyncio.create_task(rm.play(args.target, rounds(world)))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, player.cancel)
    # Cancelled is how it ends in order; everything else is raised.
    with suppress(asyncio.CancelledError):
        await player
    talking.cancel()
    say(f"{rm.world.rm_id}: stopped")


async def talk(rm: DemoRm, seconds: float) -> None:
    """A line every so often."""
    while True:
        await asyncio.sleep(seconds)
        tally = rm.tally
        say(
            f"{rm.world.rm_id}: {tally.allocations:,} placed, {tally.finished:,} finished,"
            f" {tally.asked - tally.allocations:,} waiting"
        )
