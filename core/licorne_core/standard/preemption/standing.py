"""Checks whether chosen victims are still to be stopped (spec §§ 9.1, 9.4, 9.5).

Between the choice and the stop, an RM answers and the books change. So the laws by which the victims were
chosen are checked again, without the ask's promise, as for the choice.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request
from licorne_core.model.nodes.node import Node
from licorne_core.model.queues.queue import Queue
from licorne_core.standard.preemption.candidates import Candidates
from licorne_core.standard.preemption.hosts import room_lacking
from licorne_core.standard.preemption.laws import Claim, claims_of, fence_of, quota_shortage
from licorne_core.standard.preemption.leaves import VictimLeaf
from licorne_core.standard.preemption.planning import VictimPlan
from licorne_core.standard.preemption.shares import Divisions
from licorne_core.standard.preemption.victim_index import VictimIndex
from licorne_core.standard.preemption.victims import Candidate, Victim, WhatIf, less

Result = TypeVar("Result")


def without_promise(request: Request, question: Callable[[], Result]) -> Result:
    """Evaluate `question` as if nothing were promised to the pending ask."""
    promise = request.promise
    if promise is None:
        return question()
    promise.unbook()
    try:
        return question()
    finally:
        promise.book()


def candidates_for(
    index: VictimIndex, app: Application, claim: Claim, request: Request, now: float
) -> Candidates:
    """The candidates for an ask with this claim."""
    leaf: Queue = app.leaf
    wanted = request.ask.ask_class.items
    fence = fence_of(leaf, request.priority, wanted, claim.shares)
    return Candidates(index, leaf, claim, fence, wanted, now)


def plan_stands(
    index: VictimIndex,
    divisions: Divisions,
    app: Application,
    request: Request,
    plan: VictimPlan,
    victims: Sequence[Victim],
    now: float,
) -> tuple[bool, int]:
    """True if these victims, possibly none, are legal, needed and enough; and the work of the check."""
    work = 0
    if index.nodes.get(plan.node.node_id) is plan.node:
        for claim in claims_of(app.leaf, request.ask.ask_class.items, divisions):
            stands, cost = _stands_by(index, app, request, plan.node, claim, victims, now)
            work += cost
            if stands:
                return True, work
    return False, work


def _stands_by(
    index: VictimIndex,
    app: Application,
    request: Request,
    node: Node,
    claim: Claim,
    victims: Sequence[Victim],
    now: float,
) -> tuple[bool, int]:
    """Do the same as `plan_stands`, by one claim of the ask."""
    leaf: Queue = app.leaf
    wanted = request.ask.ask_class.items
    if not claim.covers(wanted):
        return False, 0
    room = room_lacking(node, request, claim, index.applications, now)
    beyond = quota_shortage(leaf.lineage, wanted)
    if room is None or (any(room) or any(beyond)) is not bool(victims):
        return False, 0
    candidates = candidates_for(index, app, claim, request, now)
    what_if = WhatIf(len(victims))
    going = {victim.request for victim in victims}
    done: set[Request] = set()
    for victim in victims:
        if victim.request in done:
            # It was stopped together with another member of its unit.
            continue
        candidate = _still_candidate(index, candidates, victim, node, going)
        if candidate is None or not what_if.take(candidate):
            return False, 0
        together = {one.request for one in candidate.victims}
        if not together <= going:
            return False, 0
        done |= together
        if candidate.is_on(node):
            room = less(room, candidate.gives)
        beyond = less(beyond, candidate.total)
    return not any(room) and not any(beyond), what_if.steps + candidates.looked_at


def _still_candidate(
    index: VictimIndex, candidates: Candidates, victim: Victim, room_on: Node, going: set[Request]
) -> Candidate | None:
    """The victim, or its unit, with the room that it frees on a node; None if it is no longer a candidate."""
    app, request, node = victim
    if index.applications.get(app.app_id) is not app:
        return None
    if app.requests.get(request.key) is not request or request.allocation is None:
        return None
    if index.nodes.get(request.allocation.node_id) is not node:
        return None
    victim_leaf = candidates.leaves.of(app.leaf)
    if not isinstance(victim_leaf, VictimLeaf):
        return None
    unit = candidates.units.unit(app, request)
    if unit is None:
        judged = candidates.judge(app, request, node, victim_leaf)
    else:
        if unit.whole is not None and all(one.request in going for one in unit.whole.victims):
            unit = unit.whole
        judged = candidates.unit_on(room_on, unit, victim_leaf)
    return judged if isinstance(judged, Candidate) else None
