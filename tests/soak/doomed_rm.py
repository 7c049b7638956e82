"""An RM that will be killed: it prints its running allocations, with key and node in each line."""

import asyncio
import sys

from licorne import Allocated
from licorne_server.testing import FakeRM


async def main(target: str, config: str, asks: int) -> None:
    """Submit many asks, and print the placed ones until the end."""
    async with FakeRM(target, config=config) as rm:
        await rm.add_nodes(10, vcore=1_000_000)
        await rm.submit("app", queue="root.work")
        await rm.ask("app", asks, vcore=100)
        told = 0
        while True:
            count = len(rm.events)
            for event in rm.events[told:count]:
                if isinstance(event, Allocated):
                    print(event.key, event.node_id, flush=True)
            told = count
            await rm.until(lambda count=count: len(rm.events) > count, "events")  # type: ignore[misc]


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
