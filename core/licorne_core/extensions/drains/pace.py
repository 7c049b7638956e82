"""Stops of allocations on drained nodes: one by one, evenly until a deadline.

`DrainTerms` gives the number that may run at each time. Allocations that end by themselves count, so a
drain never stops more than necessary. Foreign allocations are exempt, and so are those of asks that require
the node: their RM would start them on it again. A drain ends with the cordon: allocations that are added
later, as in a replay, are stopped as well.
"""

from collections.abc import Iterator, Mapping

from licorne_core.extensions.drains.messages import DrainTerms
from licorne_core.handlers.outcome import TimerJob
from licorne_core.messages.preemption import PreemptionRule
from licorne_core.model.apps.requests import MAY_GO, Request
from licorne_core.model.nodes.node import Node
from licorne_core.partitions.partition import Partition
from licorne_core.standard.preemption.stopping import record_of, stop_victim
from licorne_core.standard.preemption.victims import Victim, age_of
from licorne_core.values.asks import Allocation
from licorne_core.values.ids import NodeId
from licorne_core.values.slices import PART, put_in_order


def stop_some(terms_of: Mapping[NodeId, DrainTerms], job: TimerJob) -> Iterator[int]:
    """Stop the due allocations of one node, and set the time of the next stop."""
    partition = job.partition
    node = partition.nodes.by_id.get(job.timer.node_id)
    terms = terms_of.get(job.timer.node_id)
    if node is None or terms is None or terms.deadline is None:
        return
    found: list[Victim] = []
    for number, allocation in enumerate(list(node.allocations), 1):
        victim = _victim(partition, node, allocation)
        if victim is not None:
            found.append(victim)
        if not number % PART:
            yield 1
    running = len(found)
    for number, victim in enumerate((yield from put_in_order(found, key=_rank)), 1):
        if terms_of.get(node.node_id) is not terms:
            return
        if _may_go(victim.request, victim.request.allocation):
            due = terms.due(running)
            if due > job.now:
                partition.timers.set(job.timer, due)
                return
            _stop(job, victim)
            yield 1
        elif not number % PART:
            yield 1
        running -= 1


def _victim(partition: Partition, node: Node, allocation: Allocation) -> Victim | None:
    """The allocation as a victim; None if it is exempt, or is being stopped already."""
    app = partition.applications[allocation.ask.app_id]
    request = app.requests[allocation.key]
    return Victim(app, request, node) if _may_go(request, allocation) else None


def _may_go(request: Request, allocation: Allocation | None) -> bool:
    """True if the allocation runs, and may be placed on another node."""
    return (
        request.state in MAY_GO
        and request.allocation is allocation
        and request.ask.ask_class.required_node is None
    )


def _rank(victim: Victim) -> tuple[object, ...]:
    """Sort key in the order of stops.

    Placeholders are first, as no work runs in them. Then the order is that of victims: allocations that did
    not opt out, low priority, the youngest.
    """
    request = victim.request
    kind, *age = age_of(request)
    return (not request.ask.placeholder, kind, request.priority, *age)


def _stop(job: TimerJob, victim: Victim) -> None:
    partition = job.partition
    record = record_of(victim, PreemptionRule.DRAIN, job.now)
    stop_victim(partition, victim, record, job.now, job.outcome, (victim.request,))
