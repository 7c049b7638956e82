"""One pass in the words of the specification, §§ 8.2-8.7.

It starts from nothing: usage is added up, queues, applications, asks and nodes are sorted. Asks
with a reservation come first; then the first ask wins that all checks let through and that has
a node, or else is old enough to have one reserved.
"""

from typing import NamedTuple

from support.oracle.books import AppRecord, AskClass, AskRecord, NodeRecord
from support.oracle.checks import (
    exceeds_cluster_only,
    fits,
    is_open,
    may_be_asked_about,
    may_start,
    refused,
    takes,
    within_limits,
    within_maxima,
    within_quotas,
)
from support.oracle.order import Look, apps_in_order, fit_key, node_key

RESERVATION_AGE = 2.0


class Decision(NamedTuple):
    """Which ask goes to which node, or which node is to be reserved for which ask."""

    app_id: str
    key: str
    node_id: str
    reserves: bool = False


class Outcome(NamedTuple):
    """What a pass comes to: a decision, and who has to back off, in the order in which that shows.

    `attempted` are the asks that were looked at and within the quota of their user, by application.
    `nowhere` says of each class that was looked at whether there is no node for it.
    """

    decision: Decision | None
    backing_off: list[str]
    attempted: dict[str, list[AskRecord]]
    nowhere: dict[str, dict[AskClass, bool]]


def decide(look: Look) -> Outcome:
    """One pass over all queues; changes nothing."""
    decision = _reserved_pass(look)
    outcome = Outcome(decision, [], {}, {})
    if decision is not None:
        return outcome
    for app in apps_in_order(look):
        if app.backs_off_until > look.now or (app.state == "Accepted" and not may_start(look, app)):
            continue
        decision, backs_off = _decide_for(look, app, outcome)
        if backs_off:
            outcome.backing_off.append(app.app_id)
        elif decision is not None:
            return outcome._replace(decision=decision)
    return outcome


def _reserved_pass(look: Look) -> Decision | None:
    """The first reserved ask that fits on its node, or on another if it may go there (§ 8.6)."""
    if not look.usage.reserved:
        return None
    for app in apps_in_order(look, newcomers=True):
        for ask in app.asks_in_order():
            if ask.reservation is None or not may_be_asked_about(look, ask):
                continue
            if app.state == "Accepted" and not may_start(look, app):
                continue
            if not within_quotas(look, app, ask):
                continue
            node = look.nodes[ask.reservation.node_id]
            if fits(look, node, ask):
                return Decision(app.app_id, ask.key, node.node_id)
            elsewhere = _node_for(look, ask) if ask.required_node is None else None
            if elsewhere is not None:
                return Decision(app.app_id, ask.key, elsewhere)
    return None


def _decide_for(look: Look, app: AppRecord, outcome: Outcome) -> tuple[Decision | None, bool]:
    """The application's first ask with a node, and whether it has to back off instead (§ 8.3).

    An application that has to back off has all its asks before that one looked at, as any other.
    """
    threshold = look.queues[app.queue].backoff
    attempted = outcome.attempted.setdefault(app.app_id, [])
    nowhere = outcome.nowhere.setdefault(app.app_id, {})
    without_node = 0
    backs_off = False
    for ask in app.asks_in_order():
        backs_off = backs_off or 0 < threshold <= without_node
        if not within_limits(look, app, ask):
            continue
        within = within_maxima(look, app, ask)
        if within or exceeds_cluster_only(look, app, ask):
            nowhere[ask.ask_class] = not within
        if within and not may_be_asked_about(look, ask):
            continue
        attempted.append(ask)
        if not within:
            continue
        node_id = _node_for(look, ask)
        if node_id is not None:
            return Decision(app.app_id, ask.key, node_id), backs_off
        nowhere[ask.ask_class] = True
        to_reserve = _node_to_reserve(look, ask)
        if to_reserve is not None:
            return Decision(app.app_id, ask.key, to_reserve, reserves=True), backs_off
        without_node += 1
    return None, backs_off


def _node_for(look: Look, ask: AskRecord) -> str | None:
    """The first node in order that takes the ask."""
    fitting = [node for node in look.nodes.values() if takes(look, node, ask)]
    return min(fitting, key=lambda node: node_key(look, node)).node_id if fitting else None


def _node_to_reserve(look: Look, ask: AskRecord) -> str | None:
    """The node that is to be kept for an ask that fits on none (§§ 8.5, 8.7)."""
    if not look.reserving or ask.reservation is not None:
        return None
    if ask.required_node is not None:
        return ask.required_node if ask.required_node in look.nodes else None
    if look.now < ask.created + RESERVATION_AGE:
        return None

    def key(node: NodeRecord) -> tuple[float, float, float, str]:
        return fit_key(look, node, ask.size)

    holding = [
        node
        for node in look.nodes.values()
        if is_open(look, node) and node.holds(ask.size) and not refused(node, ask, allocate=False)
    ]
    return min(holding, key=key).node_id if holding else None
