"""Kills and faults of servers, RMs and members, repeatedly: ``python tests/soak``, or ``make soak``.

The exit code is 0 if both sides always had the same state and the memory of the server stayed constant, 1
otherwise.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from soak.chaos import shake
from soak.counts import MIB, RATIO, ROUNDS, THIRD, Reading, growth, is_flat, soak
from soak.kills import kill_the_rm, kill_the_server
from soak.ledger import SoakFailed
from support.seeds import positive

SERVER_KILLS = 100
RM_KILLS = 20
CHAOS_CYCLES = 100
MEMBERS = 3
SHOWN_KILLS = 10
"""The number of kills after which a line is printed."""


def main() -> int:
    """Run everything; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-kills", type=positive, default=SERVER_KILLS)
    parser.add_argument("--rm-kills", type=positive, default=RM_KILLS)
    parser.add_argument("--chaos", type=positive, default=CHAOS_CYCLES, help="cycles of faults of members")
    parser.add_argument("--rounds", type=positive, default=ROUNDS)
    arguments = parser.parse_args()
    # Each kill and each cut connection is a warning of the client.
    logging.getLogger("licorne").setLevel(logging.ERROR)
    try:
        return asyncio.run(run(arguments))
    except SoakFailed as error:
        print(f"failed: {error}")
        return 1


async def run(arguments: argparse.Namespace) -> int:
    """Run the kills, the faults of members, and the soak; returns the exit code."""
    await kill_the_server(arguments.server_kills, shown("kills of the server"))
    await kill_the_rm(arguments.rm_kills, shown("kills of an RM"))
    await shake(MEMBERS, arguments.chaos, shown("cycles of faults of members"))
    print("rounds  allocations  reconnects  RSS in MiB", flush=True)
    readings = await soak(arguments.rounds, show)
    rss = [reading.rss for reading in readings]
    if len(rss) <= THIRD:
        print("too few rounds to judge the memory by")
        return 0
    verdict = "flat" if is_flat(rss) else "not flat"
    print(
        f"memory is {verdict}: {growth(rss):.3f} times that of reading {THIRD} in the end, {RATIO} is allowed"
    )
    return 0 if is_flat(rss) else 1


def shown(what: str) -> Callable[[int], None]:
    """Print a line after some kills."""

    def told(number: int) -> None:
        if number % SHOWN_KILLS == 0:
            print(f"{number} {what}, the same books on both sides", flush=True)

    return told


def show(reading: Reading) -> None:
    """Print a reading."""
    print(
        f"{reading.rounds:6}  {reading.allocations:11}  {reading.reconnects:10}  {reading.rss / MIB:10.1f}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
