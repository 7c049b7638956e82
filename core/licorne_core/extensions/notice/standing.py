"""Checks whether victims under notice are still to be stopped (spec §§ 9.1, 9.4, 9.5).

The books change during a notice. So at its end the laws by which the victims were chosen are checked again,
on the books without the promise to the ask, and with the victims as running. Their losses are not compared
again, as they count from the notice on.
"""

from collections.abc import Sequence

from licorne_core.model.apps.application import Application
from licorne_core.model.apps.requests import Request, seconds_run
from licorne_core.model.books import book_preempting, unbook_preempting
from licorne_core.model.nodes.node import Node
from licorne_core.standard.preemption.candidates import Candidates, charges_of
from licorne_core.standard.preemption.laws import quota_shortage
from licorne_core.standard.preemption.leaves import VictimLeaf
from licorne_core.standard.preemption.search import PreemptionSearch
from licorne_core.standard.preemption.victim_index import room_shortage
from licorne_core.standard.preemption.victims import Candidate, Victim, WhatIf, age_of, kind_of


def is_useful(app: Application, request: Request, node: Node) -> bool:
    """True if the ask fits on the node, and in its queues and limits, once all victims have ended.

    For a pending ask, its promise is ignored.
    """
    wanted = request.ask.ask_class.items
    quotas = (*app.leaf.lineage, *app.trackers)
    return not any(room_shortage(node, wanted)) and not any(quota_shortage(quotas, wanted))


def is_legal(
    search: PreemptionSearch, app: Application, request: Request, victims: Sequence[Victim], now: float
) -> bool:
    """True if the laws still allow the stop of these victims under notice for the ask.

    The ask has no required node; its promise is ignored. `now` is in unix seconds.
    """
    for victim in victims:
        unbook_preempting(victim.request.ask.ask_class.items, victim.node, victim.app)
    legal = search.any_claim(app, request, now, lambda found: _are_candidates(found, victims, now))
    for victim in victims:
        book_preempting(victim.request.ask.ask_class.items, victim.node, victim.app)
    return legal


def _are_candidates(candidates: Candidates, victims: Sequence[Victim], now: float) -> bool:
    what_if = WhatIf(len(victims))
    for victim in victims:
        victim_leaf = candidates.leaves.of(victim.app.leaf)
        judged = None
        if isinstance(victim_leaf, VictimLeaf):
            judged = _as_candidate(victim, victim_leaf, now)
        if judged is None or not what_if.take(judged):
            return False
    return True


def _as_candidate(victim: Victim, victim_leaf: VictimLeaf, now: float) -> Candidate | None:
    """The victim as a candidate; None if it is not a candidate any more."""
    request = victim.request
    if victim_leaf.priority is not None and request.priority > victim_leaf.priority:
        return None
    if not victim_leaf.is_counted(request.ask.ask_class.resources):
        return None
    if seconds_run(request, now) < victim_leaf.leaf.settings.preemption_minimum_runtime:
        return None
    charges = charges_of(request.ask.ask_class.items, (), victim_leaf)
    return Candidate(victim, kind_of(request), age_of(request), (), charges)


def gives_way(request: Request, victims: Sequence[Victim]) -> bool:
    """True if the victims still have to be stopped for an ask that requires their node (spec § 9.5)."""
    return all(victim.request.priority <= request.priority for victim in victims)
