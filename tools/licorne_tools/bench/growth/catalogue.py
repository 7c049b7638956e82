"""All dimensions, in the order of measurement.

As a program it measures one size of a dimension: `python -m … NAME SIZE`.
"""

import gc
import json
import sys

from licorne_server.commands.child import end_with_parent
from licorne_server.commands.server_process import ServerFailed
from licorne_server.process.loop import Collector
from licorne_tools.bench.driver import BenchError
from licorne_tools.bench.growth import of_cluster, of_queues, of_watchers
from licorne_tools.bench.growth.measure import Dimension, built
from licorne_tools.bench.growth.world import Cost

TENS = (10, 100, 1_000)
HUNDREDS = (100, 1_000, 10_000)

ALL = (
    Dimension(
        name="asks",
        about="asks of one application",
        sizes=(1_000, 10_000, 100_000),
        measure=built(of_queues.asks),
    ),
    Dimension(
        name="apps-fifo",
        about="applications in one leaf, in fifo order",
        sizes=HUNDREDS,
        measure=built(of_queues.applications("fifo")),
        note="Each application has ten asks. What is touched for the next application is not in "
        "the processor's cache any more.",
    ),
    Dimension(
        name="apps-fair",
        about="applications in one leaf that shares out evenly",
        sizes=HUNDREDS,
        measure=built(of_queues.applications("fair")),
        note="As with apps-fifo, and each allocation ranks its application anew among all of them.",
    ),
    Dimension(
        name="queues",
        about="leaves below root",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.flat),
        note="Each allocation ranks its queue anew among all of them, and what is touched "
        "for it is not in the processor's cache any more.",
    ),
    Dimension(
        name="dynamic",
        about="leaves made by placement",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.dynamic),
        note="As with queues.",
    ),
    Dimension(
        name="namespaces",
        about="namespaces with a queue and a quota each",
        sizes=(20, 200, 2_000),
        measure=built(of_queues.namespaces),
        note="As with queues.",
    ),
    Dimension(
        name="depth",
        about="levels of queues, one below the other",
        sizes=(1, 3, 10),
        measure=built(of_queues.chain),
        note="Each level has a queue to be asked for headroom, booked and ranked: the work "
        "is that of the levels.",
    ),
    Dimension(
        name="tree",
        about="levels of queues, two below each: 2, 8 and 1,024 leaves",
        sizes=(1, 3, 10),
        measure=built(of_queues.tree),
        note="As with depth, and the queues are twice as many with each level: 2,046 with ten.",
    ),
    Dimension(
        name="users",
        about="users with a limit each",
        sizes=HUNDREDS,
        measure=built(of_queues.users),
        note="As with apps-fifo, and each user has a tracker in each queue that is limited.",
    ),
    Dimension(
        name="groups",
        about="groups with a limit each",
        sizes=HUNDREDS,
        measure=built(of_queues.groups),
        note="As with apps-fifo, and each user and group has a tracker in each queue that is limited.",
    ),
    Dimension(
        name="nodes",
        about="nodes with room",
        sizes=(200, 2_000, 20_000),
        measure=built(of_cluster.nodes),
    ),
    Dimension(
        name="types",
        about="types of resources in asks and nodes",
        sizes=(2, 4, 16),
        measure=built(of_queues.resource_types),
        note="Each type is compared and booked by itself, on the node, in each queue and in the application.",
    ),
    Dimension(
        name="sizes",
        about="distinct sizes of asks that fit",
        sizes=HUNDREDS,
        measure=built(of_queues.distinct_sizes),
        note="A group, and what is known of its nodes, is made for each size.",
    ),
    Dimension(
        name="waiting",
        about="sizes that wait while one allocation after the other is released",
        sizes=(1, 10, 1_000),
        measure=built(of_cluster.waiting_sizes, of_cluster.release_each),
        note="Stretches of the line in which a size may fit what is released are looked at.",
    ),
    Dimension(
        name="reports",
        about="asks of one size that fit nowhere, and of which the RM is told so when that is due",
        sizes=(1_000, 10_000, 100_000),
        measure=of_cluster.reports,
        note="What is counted is reports, in place of allocations.",
    ),
    Dimension(
        name="unplaceable",
        about="sizes that fit nowhere, and stand ahead of those that fit",
        sizes=(10, 100, 5_000),
        measure=built(of_cluster.unplaceable),
        work=1_000,
    ),
    Dimension(
        name="untried",
        about="sizes that fit nowhere, and come with 1,000 asks that do",
        sizes=(10, 100, 5_000),
        measure=built(of_cluster.untried),
        work=1_000,
        note="Each size is tried once, which costs about as much as two allocations; here there "
        "are five for each allocation.",
    ),
    Dimension(
        name="reservations",
        about="nodes reserved for large asks",
        sizes=(50, 500, 5_000),
        measure=built(of_cluster.reservations),
    ),
    Dimension(
        name="predicates",
        about="predicate classes that the RM is asked about",
        sizes=TENS,
        measure=built(of_cluster.predicate_classes),
    ),
    Dimension(
        name="priorities",
        about="priorities in one application",
        sizes=HUNDREDS,
        measure=built(of_queues.priorities),
    ),
    Dimension(
        name="gangs",
        about="gangs of 10: placeholders, then what replaces them",
        sizes=TENS,
        measure=built(of_cluster.gangs, of_cluster.come_together),
    ),
    Dimension(
        name="members",
        about="members of each of 10 gangs",
        sizes=TENS,
        measure=built(of_cluster.members, of_cluster.come_together),
    ),
    Dimension(
        name="idle-rms",
        about="other RMs that have nothing to do",
        sizes=TENS,
        measure=built(of_cluster.idle_rms),
    ),
    Dimension(
        name="watchers",
        about="watchers of events; it is the whole server that is measured",
        sizes=(1, 10, 100),
        measure=of_watchers.watchers,
        work=2_000,
        note="Each event goes to each watcher, so what grows is what is written to them.",
    ),
)

DIMENSIONS = {dimension.name: dimension for dimension in ALL}


LEAST_ROUNDS, MOST_ROUNDS = 3, 20
ENOUGH_SECONDS = 1.0
"""CPU seconds after which no further round is started beyond `LEAST_ROUNDS`."""


def main(name: str, size: str) -> None:
    """Print the figures or an error as JSON."""
    end_with_parent()
    Collector().start()
    dimension = DIMENSIONS[name]
    try:
        figures = best(dimension, int(size), dimension.work)
    except (BenchError, ServerFailed) as error:
        figures = {"error": str(error)}
    print(json.dumps(figures))


def best(dimension: Dimension, size: int, work: int) -> dict[str, float | str]:
    """Microseconds per allocation and per ask: the minimum of several rounds.

    The minimum counts, because other work of the machine can only make a round slower.

    Raises:
        BenchError: the world has failed.
        ServerFailed: its server did not start, or ended early.
    """
    costs: list[Cost] = []
    spent = 0.0
    while len(costs) < LEAST_ROUNDS or (spent < ENOUGH_SECONDS and len(costs) < MOST_ROUNDS):
        # Collect the previous world now, not during the measurement.
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
