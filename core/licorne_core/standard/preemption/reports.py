"""Progress of preemption for a pending ask, for explanations (spec § 9)."""

from licorne_core.messages.reasons import UNDER_WAY, PreemptionCheck
from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.standard.preemption.extension import preemption_of
from licorne_core.standard.preemption.laws import Law
from licorne_core.standard.preemption.requests import preemption_request_of
from licorne_core.standard.preemption.search import SearchRefusal
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import in_units

MOST_SPARED = 3
"""Maximum number of queues whose priority comparisons are reported, from the lowest queue up."""

_TEXTS = {
    Law.NO_GUARANTEE: "no queue from {queue} up is guaranteed any of {requested}",
    Law.OVER_GUARANTEE: "with {requested} queue {queue} would have more than {due}: it has {settled}",
    Law.OVER_FAIR_SHARE: "with {requested} queue {queue} would have more than {due}: it has {settled}",
    Law.GANG_INCOMPLETE: (
        "its gang would not be complete: its placeholders wait for {requested}, where queue {queue} has "
        "{settled} of {due}, or victims make too little room for all"
    ),
    Law.NO_NODE: "no node could be reserved for it, whatever victims are stopped",
    Law.NODES_KEPT: (
        "the nodes with possible victims are reserved for other asks; victims are searched again "
        "as soon as one of these is given up"
    ),
    Law.WAITS_FOR_RELEASES: "it fits as soon as the stopped allocations have ended",
    Law.NO_VICTIMS: "no allocation may be a victim",
    Law.NOT_ENOUGH: "no set of victims makes room and respects what other queues are due",
    Law.RM_REFUSED: "the RM accepts it on none of the nodes, whatever victims are stopped",
}


def preemption_check(partition: Partition, app: Application, request: Request) -> PreemptionCheck:
    """State of preemption for a pending ask, as of the last turn of the partition.

    The last search is reported, because a new one would take too long.
    """
    return (
        _underway(partition, request)
        or _not_allowed(partition, app, request)
        or _searched(partition, request)
    )


def _underway(partition: Partition, request: Request) -> PreemptionCheck | None:
    reservation = request.reservation
    promise = request.promise
    if promise is not None and reservation is not None and request.triggered:
        awaited = promise.outstanding or _leaving(partition, reservation.node_id)
        victims = ", ".join(f"{v.ask.app_id}/{v.key}" for v in awaited)
        waits = f"waits for the end of {victims}" if victims else "its victims are gone"
        found = map(partition.stays.get, promise.outstanding)
        stays = [stay for stay in found if stay is not None]
        until = max((stay.stops_at for stay in stays), default=0.0)
        waits += f", {stays[0].words}" if stays else ""
        node_id = reservation.node_id
        kept = "what was promised to it" if node_id is None else f"node {node_id}"
        text = f"{kept} is kept for it, and {waits}"
        return PreemptionCheck(code=UNDER_WAY, text=text, passed=True, until=until)
    if request.triggered:
        text = "victims were stopped for it once, which is never repeated"
        return PreemptionCheck(code="PREEMPTION_DONE", text=text, passed=False)
    wants = preemption_request_of(request.group)
    if wants is not None and wants.is_asking:
        text = "the RM is being asked which victims have to go"
        if not preemption_of(partition.check_context).remedy.rm_judges_victims:
            text = "the RM is being asked about nodes on which victims would have to go"
        return PreemptionCheck(code="PREEMPTION_ASKS_RM", text=text, passed=True)
    return None


def _leaving(partition: Partition, node_id: NodeId | None) -> list[Request]:
    """Allocations on the node that are being stopped, for any ask."""
    there = () if node_id is None else partition.nodes.by_id[node_id].allocations
    found = [partition.applications[one.ask.app_id].requests[one.ask.key] for one in there]
    return [request for request in found if request.state is RequestState.PREEMPTING]


def _not_allowed(partition: Partition, app: Application, request: Request) -> PreemptionCheck | None:
    """The conditions before a search (spec § 9.2)."""
    if request.ask.ask_class.required_node is not None:
        text = "only allocations on its required node could be stopped, which would not make room"
        if request.reservation is None:
            text = (
                "only allocations on its required node could be stopped, once it is reserved; "
                "for that all maxima must have room for it"
            )
        return PreemptionCheck(code="PREEMPTION_ON_REQUIRED_NODE", text=text, passed=False)
    if not preemption_of(partition.check_context).remedy.enabled:
        text = "preemption is switched off in the partition"
        return PreemptionCheck(code="PREEMPTION_OFF", text=text, passed=False)
    if not request.ask.allow_preempt_other:
        text = "the ask may not preempt others (allowPreemptOther)"
        return PreemptionCheck(code="PREEMPTION_NOT_ALLOWED", text=text, passed=False)
    is_whole = app.gang.is_whole or partition.cycle.gangs.always
    if is_whole and app.gang.has_member(request.ask):
        text = "members of a gang that is placed whole preempt nobody"
        return PreemptionCheck(code="PREEMPTION_NOT_ALLOWED", text=text, passed=False)
    delay = partition.leaf_of(app).settings.preemption_delay
    since = request.create_time
    if partition.effort.now < since + delay:
        text = f"it preempts nobody before it has waited for {delay:g} s (preemption.delay)"
        return PreemptionCheck(code="PREEMPTION_DELAYED", text=text, passed=False, until=since + delay)
    return None


def _searched(partition: Partition, request: Request) -> PreemptionCheck:
    """Report the last search, as a new one would take too long for a reader."""
    wants = preemption_request_of(request.group)
    concerns = wants is not None and wants.concerns(request)
    found: SearchRefusal | None = wants.refusal if wants is not None and concerns else None
    if wants is None or found is None:
        paused = max(0.0, wants.paused_until) if wants is not None and concerns else 0.0
        if request.group.refused_stops is not None:
            paused = max(paused, request.group.refused_stops.until)
        text = "victims are searched for when it is tried next"
        return PreemptionCheck(code="PREEMPTION_NOT_YET_TRIED", text=text, passed=True, until=paused)
    text = _text(found) + _spared(found)
    first = wants.searched_for
    if first is not None and first is not request:
        which = "which comes before it" if first.place < request.place else "of the same priority"
        text = f"for {first.key}, {which}: {text}"
    until = found.until or 0.0
    return PreemptionCheck(
        code=f"PREEMPTION_{found.law.name}",
        text=text,
        passed=found.law is Law.WAITS_FOR_RELEASES,
        queue=found.queue,
        requested=found.requested,
        settled=found.settled,
        guaranteed=found.guaranteed,
        causes={out.value: count for out, count in sorted(found.out.items())},
        until=until if until > partition.effort.now else 0.0,
    )


def _text(found: SearchRefusal) -> str:
    """The law that prevents preemption, with the numbers of the queue whose guarantee or share counts."""
    settled, share = in_units(found.settled), found.share
    due = f"the {in_units(found.guaranteed)} that it is guaranteed"
    if share is not None:
        due = f"its fair share of {in_units(share)}"
    text = _TEXTS[found.law].format(
        queue=found.queue, requested=in_units(found.requested), settled=settled, due=due
    )
    if share is None or found.law in (Law.OVER_FAIR_SHARE, Law.GANG_INCOMPLETE):
        return text
    return f"{text}; queue {found.queue} may reclaim up to {due}, and has {settled}"


def _spared(found: SearchRefusal) -> str:
    """Comparisons of priorities that protect allocations, in queues below the meeting queue (law 6)."""
    return "".join(
        f"; in queue {one.queue} it counts as priority {one.ask}, and who is spared there "
        f"as {one.other} or more"
        for one in found.spared[:MOST_SPARED]
    )


HELP = preemption_check
