"""One size of one dimension, measured in a process of its own: `python -m … NAME SIZE`.

A process that has measured something else has memory in other places, and caches that are warm.
"""

import gc
import json
import sys

from licorne_server.commands.child import end_with_parent
from licorne_server.commands.server_process import ServerFailed
from licorne_server.process.collector import Collector
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth.catalogue import DIMENSIONS
from licorne_tools.bench.growth.dimension import Dimension
from licorne_tools.bench.growth.world import Cost

LEAST_ROUNDS, MOST_ROUNDS = 3, 20
ENOUGH_SECONDS = 1.0
"""CPU seconds after which there are no more rounds than have to be."""


def main(name: str, size: str) -> None:
    """Print the figures as JSON, or what has failed."""
    end_with_parent()
    Collector().start()
    dimension = DIMENSIONS[name]
    try:
        figures = best(dimension, int(size), dimension.work)
    except (BenchError, ServerFailed) as error:
        figures = {"error": str(error)}
    print(json.dumps(figures))


def best(dimension: Dimension, size: int, work: int) -> dict[str, float | str]:
    """Microseconds for an allocation and for an ask: the least of several rounds.

    Whatever else the machine does can only make a round longer.

    Raises:
        BenchError: the world did not do what it is about.
        ServerFailed: its server did not start, or ended early.
    """
    costs: list[Cost] = []
    spent = 0.0
    while len(costs) < LEAST_ROUNDS or (spent < ENOUGH_SECONDS and len(costs) < MOST_ROUNDS):
        # The world before is not collected while this one is measured.
        gc.collect()
        cost = dimension.measure(size, work)
        costs.append(cost)
        spent += cost.deciding + cost.taking
    last = costs[-1]
    return {
        "rounds": len(costs),
        "allocations": last.allocations,
        "us_per_allocation": min(cost.deciding for cost in costs) / last.allocations * 1e6,
        "asks": last.asks,
        "us_per_ask": min(cost.taking for cost in costs) / max(1, last.asks) * 1e6,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
