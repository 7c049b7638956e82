"""Placeholders that preempt: for nothing, unless their gang can be complete by that (spec § 6).

The pending placeholders of a gang count as one ask here, in the types of the placeholder that preempts:
together they have to stay within the guarantee, and all victims together have to make room for them. Sums
are compared, and no nodes. So the answer is no only where the gang would wait in vain.
"""

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.queues.queue import Queue
from licorne_core.scheduling.preemption.candidates import Candidates
from licorne_core.scheduling.preemption.covering import most_of
from licorne_core.scheduling.preemption.laws import quota_shortage, stays_within_guarantee
from licorne_core.values.resources import Items


def gang_amounts(app: Application, request: Request) -> Items:
    """Amounts of all pending placeholders, in the types of the request; empty unless it is one of them.

    Those with a promise count in their queues already. The request is without its own.
    """
    if not request.ask.placeholder:
        return ()
    total = dict.fromkeys([name for name, _ in request.ask.ask_class.items], 0)
    waiting = {group: group.waiting for group in app.groups.values() if group.waiting and group.key[2]}
    for other in app.reserved.values():
        if other is not request and other.promise is not None and other.is_pending:
            waiting[other.group] -= other.ask.placeholder
    for group, count in waiting.items():
        for name, value in group.ask_class.items:
            if name in total:
                total[name] += value * count
    return tuple(total.items())


def may_be_complete(candidates: Candidates, entitled: Queue, leaf: Queue, together: Items) -> bool:
    """True if these amounts stay within the guarantee, and victims can make room for all of them."""
    if not stays_within_guarantee(entitled, together):
        return False
    victim_leaves = list(candidates.leaves)
    short = zip(together, quota_shortage(leaf.lineage, together), strict=True)
    return all(lacking <= sum([most_of(one, name) for one in victim_leaves]) for (name, _), lacking in short)
