"""All attacks by name, in the order of measurement.

As a program it executes one attack: ``python -m … NAME TARGET HTTP PERCENT``.
"""

import argparse
import asyncio
import json
import os
import signal
from contextlib import suppress

from licorne_server.commands.child import end_with_parent
from licorne_tools.bench.isolation import frames, items, messages, readers
from licorne_tools.bench.isolation.attack import Act, Attack, Site
from licorne_tools.bench.programs import told_to_begin

ATTACKS = {
    "asks": Attack("200,000 asks at once", items.flood),
    "releases": Attack("asks that are given back at once", items.releases),
    "nodes": Attack("nodes created and decommissioned", items.nodes),
    "applications": Attack("applications added and removed", items.applications),
    "explain": Attack("8 readers of explanations", readers.explain),
    "lists": Attack("8 readers of outstanding asks, applications, nodes", readers.lists),
    "rest": Attack("8 readers of lists over REST", readers.rest),
    "dump": Attack("8 readers of the state dump", readers.dump),
    "watchers": Attack("100 event watchers of asks that come and go", readers.watchers),
    "register": Attack("50 RMs register again and again", items.register),
    "reload": Attack("configurations of 1,000 queues updated", items.reload),
    "validate": Attack("configurations of 1,000 queues validated", items.validate),
    "partitions": Attack("asks in 800 partitions", items.partitions),
    "sizes": Attack("20,000 asks of as many sizes that fit nowhere", items.sizes),
    "tags": Attack("200,000 asks of 20 tags that fit nowhere", items.tagged),
    "planned": Attack("planned starts of 2,000 asks on 5,000 nodes", items.planned),
    "namespaces": Attack("10,000 queues of namespaces that come and go", items.namespaces),
    "messages": Attack("messages of 8 MiB with tiny fields", messages.largest),
    "ping": Attack("PING frames of HTTP/2", frames.ping),
    "settings": Attack("SETTINGS frames of HTTP/2", frames.settings),
    "metadata": Attack("calls with thousands of binary values, over one connection", frames.one_costly),
    "metadata20": Attack("the same over 20 connections", frames.many_costly),
    "unfinished": Attack("100 messages of 4 MiB that never end", frames.unfinished),
    "bytes": Attack("DATA frames of one byte over 4 connections", frames.dripping),
}


LIMIT_SECONDS = 600.0
"""Maximum number of seconds of an attack, even if its parent process has failed."""


async def attacked(attack: Attack, site: Site) -> None:
    """Prepare the attack, begin it after a line on stdin, and cancel it after SIGTERM."""
    async with asyncio.timeout(LIMIT_SECONDS), attack.prepared(site) as act:
        if not await told_to_begin():
            return
        acting = asyncio.create_task(acted(act))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, acting.cancel)
        end_with_parent()
        with suppress(asyncio.CancelledError):
            await acting


async def acted(act: Act) -> None:
    """Act, then wait to be cancelled."""
    await act()
    await asyncio.Event().wait()


def arguments() -> tuple[Attack, Site]:
    """The attack and its site, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("target")
    parser.add_argument("http")
    parser.add_argument("percent", type=int)
    args = parser.parse_args()
    site = Site(target=args.target, http=args.http, percent=args.percent)
    return ATTACKS[args.name], site


def main() -> None:
    """Run one attack, and print its counts as JSON."""
    # A low priority: the benchmark is about the fairness of the server, not about the number of cores.
    os.nice(15)
    attack, site = arguments()
    asyncio.run(attacked(attack, site))
    print(json.dumps({"acts": site.acts, "refused": site.refused}), flush=True)


if __name__ == "__main__":
    main()
