"""An attack in a process of its own: ``python -m … NAME TARGET HTTP PERCENT``.

It prepares the attack, says ``ready``, and waits for a line on stdin. It attacks until its stdin
ends, and then says in a line of JSON what it has done. An attack that is through with its bounded
number of acts keeps its connections until then.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
from contextlib import suppress

from licorne_server.commands.child import end_with_parent
from licorne_tools.bench.isolation.attack import Act, Attack, Site
from licorne_tools.bench.isolation.catalogue import ATTACKS

LIMIT_SECONDS = 600.0
"""No attack lasts longer, whatever becomes of those who watch it."""


async def attacked(attack: Attack, site: Site) -> None:
    """Prepare the attack, and act from the moment it is told to until it is told to stop."""
    async with asyncio.timeout(LIMIT_SECONDS), attack.prepared(site) as act:
        print("ready", flush=True)
        if not await asyncio.to_thread(sys.stdin.readline):
            return
        acting = asyncio.create_task(acted(act))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, acting.cancel)
        end_with_parent()
        with suppress(asyncio.CancelledError):
            await acting


async def acted(act: Act) -> None:
    """Act, and then stay."""
    await act()
    await asyncio.Event().wait()


def arguments() -> tuple[Attack, Site]:
    """The attack and where it takes place, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("target")
    parser.add_argument("http")
    parser.add_argument("percent", type=int)
    args = parser.parse_args()
    site = Site(target=args.target, http=args.http, percent=args.percent)
    return ATTACKS[args.name], site


def main() -> None:
    """The program."""
    # What is to be seen is whether the server is fair, not whether the machine has cores enough.
    os.nice(15)
    attack, site = arguments()
    asyncio.run(attacked(attack, site))
    print(json.dumps({"acts": site.acts, "refused": site.refused}), flush=True)


if __name__ == "__main__":
    main()
