"""`licorne fake-rm`: one of the demo's resource managers against a running server, without end."""

import argparse
import asyncio
import logging
import signal
from contextlib import suppress
from dataclasses import replace

from licorne import LicorneError, TlsConfig
from licorne.connection import NO_CONNECTION
from licorne_cli.connection.channel import add_connection_arguments, in_short, with_channel
from licorne_cli.connection.tls import tls_advice, tls_of
from licorne_cli.failures import RefusedError
from licorne_cli.output.text import say
from licorne_cli.parsing.parser import seconds
from licorne_server.lab.demo.dev import DEFAULT_ROUND, SHORTEST_ROUND
from licorne_server.lab.demo.rm import DemoRm
from licorne_server.lab.demo.world import endless, worlds

EXAMPLES = (
    ("licorne fake-rm", "one of the demo's RMs against the server here"),
    ("licorne fake-rm --target host-1,host-2", "against two members of a deployment"),
    ("licorne fake-rm --world services --rm-id second", "another one, under a name of its own"),
    (
        "licorne fake-rm --target core --tls-ca ca.pem --tls-cert batch.pem --tls-key batch.key",
        "against a server that knows RMs by their certificates",
    ),
)
WORLDS = {world.rm_id: world for world in worlds()}
LINES_A_ROUND = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `licorne fake-rm`."""
    add = parser.add_argument
    add("--world", choices=WORLDS, default="batch", help="whose (%(default)s)")
    add("--rm-id", metavar="ID", help="(default: that of the world)")
    add(
        "--round",
        type=seconds(SHORTEST_ROUND),
        default=DEFAULT_ROUND,
        metavar="SECONDS",
        help="after which the work starts over (%(default)s)",
    )
    add_connection_arguments(parser, partition=False, forms=())


def run(args: argparse.Namespace) -> int:
    """Play the workload until a signal. Without a server, wait for one."""
    # The client opens its own channels. This channel is only for checking the options, as in every command.
    return with_channel(args, lambda _: play(args))


def play(args: argparse.Namespace) -> None:
    """Play until a signal.

    Raises:
        RefusedError: the server refuses this RM.
    """
    try:
        asyncio.run(play_until_signal(args))
    except LicorneError as error:
        raise RefusedError([f"licorne: {error}"]) from None


async def play_until_signal(args: argparse.Namespace) -> None:
    """Play the chosen world, and print a line at intervals."""
    logging.getLogger("licorne").addFilter(shortened)
    world = WORLDS[args.world]
    rm = DemoRm(replace(world, rm_id=args.rm_id or world.rm_id), args.round)
    tls = tls_of(args)
    say(f"{rm.world.rm_id}: plays {args.world} against {', '.join(args.targets)}; Ctrl-C ends it")
    talking = asyncio.create_task(talk(rm, args.round / LINES_A_ROUND))
    advising = asyncio.create_task(advise(rm, args, tls))
    player = asyncio.create_task(rm.play(args.targets, endless(world), tls=tls, token=args.token))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, player.cancel)
    # Cancellation is the regular end; other errors are raised.
    with suppress(asyncio.CancelledError):
        await player
    talking.cancel()
    advising.cancel()
    say(f"{rm.world.rm_id}: stopped")


def shortened(record: logging.LogRecord) -> bool:
    """Shorten the reason why a connection was lost."""
    if record.msg == NO_CONNECTION and isinstance(record.args, tuple):
        address, reason = record.args
        record.args = address, in_short(str(reason))
    return True


async def talk(rm: DemoRm, seconds: float) -> None:
    """Print the RM's counts of allocations and waiting asks every `seconds`."""
    while True:
        await asyncio.sleep(seconds)
        tally = rm.tally
        say(
            f"{rm.world.rm_id}: {tally.allocations:,} placed, {tally.finished:,} finished,"
            f" {tally.asked - tally.allocations:,} waiting"
        )


async def advise(rm: DemoRm, args: argparse.Namespace, tls: TlsConfig | None) -> None:
    """Print advice at the timeout, if TLS options are why the RM has not reached the server."""
    await asyncio.sleep(args.timeout)
    if not rm.was_served:
        for target in args.targets:
            if advice := await asyncio.to_thread(tls_advice, target, tls):
                say(f"{rm.world.rm_id}: {advice}")
