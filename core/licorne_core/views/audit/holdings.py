"""Rule H1 of `invariants.py`: the holdings of an RM are the sum over its partitions."""

from licorne_core.messages.commands import Hold
from licorne_core.partitions.partition import Partition
from licorne_core.partitions.registry import Rm
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.rm_caps import (
    APPLICATION_BYTES,
    ASK_BYTES,
    GROUP_BYTES,
    NODE_BYTES,
    QUEUE_BYTES,
    Holdings,
)


def check_holdings(rm: Rm) -> None:
    """Count the holdings of the RM and its applications anew; raises InvariantBroken.

    Between two slices of a command, a partition that is being built counts, though it is unlisted.
    """
    summed = Holdings()
    for partition in rm.partitions.values():
        _add(summed, partition)
    if Hold.UNFINISHED in rm.holds and rm.holdings.queues > summed.queues:
        summed.queues_changed(rm.holdings.queues - summed.queues)
    known, fresh = rm.holdings.counts(0), summed.counts(0)
    if known != fresh:
        raise InvariantBroken(f"H1: RM {rm.rm_id} has {fresh}, and is known to have {known}")


def _add(summed: Holdings, partition: Partition) -> None:
    summed.queues += len(partition.tree)
    summed.memory += QUEUE_BYTES * len(partition.tree)
    for node in partition.nodes.by_id.values():
        summed.nodes += 1
        summed.memory += NODE_BYTES + node.footprint
        for foreign in node.foreign.values():
            summed.asks += 1
            summed.memory += ASK_BYTES + foreign.ask.footprint
    for app in partition.applications.values():
        summed.applications += 1
        summed.asks += len(app.requests)
        summed.memory += APPLICATION_BYTES + app.footprint + GROUP_BYTES * len(app.groups)
        for request in app.requests.values():
            summed.memory += ASK_BYTES + request.ask.footprint
    for over in (*partition.completed.values(), *partition.rejected.values()):
        summed.ended += 1
        summed.ended_memory += APPLICATION_BYTES + over.footprint
