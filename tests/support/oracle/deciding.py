"""One pass in the words of the specification, §§ 8.2-8.4.

It starts from nothing: usage is added up, queues, applications, asks and nodes are sorted, and
the first ask that all gates let through and that has a node wins.
"""

from typing import NamedTuple

from support.oracle.books import AppRecord, AskRecord
from support.oracle.gates import may_start, takes, within_quotas
from support.oracle.order import Look, apps_in_order, node_key


class Decision(NamedTuple):
    """Which ask goes to which node."""

    app_id: str
    key: str
    node_id: str


class Outcome(NamedTuple):
    """What a pass comes to: a decision, and who has to rest, in the order in which that shows."""

    decision: Decision | None
    resting: list[str]


def decide(look: Look) -> Outcome:
    """One pass over all queues; changes nothing."""
    resting = []
    for app in apps_in_order(look):
        if app.rests_until > look.now or (app.state == "Accepted" and not may_start(look, app)):
            continue
        decision, rests = _decide_for(look, app)
        if rests:
            resting.append(app.app_id)
        if decision is not None:
            return Outcome(decision, resting)
    return Outcome(None, resting)


def _decide_for(look: Look, app: AppRecord) -> tuple[Decision | None, bool]:
    """The application's first ask with a node, or whether it has to rest first (§ 8.3)."""
    threshold = look.queues[app.queue].backoff
    without_node = 0
    for ask in app.asks_in_order():
        if threshold and without_node >= threshold:
            return None, True
        if not within_quotas(look, app, ask):
            continue
        node_id = _node_for(look, ask)
        if node_id is not None:
            return Decision(app.app_id, ask.key, node_id), False
        without_node += 1
    return None, False


def _node_for(look: Look, ask: AskRecord) -> str | None:
    """The first node in order that takes the ask."""
    fitting = [node for node in look.nodes.values() if takes(look, node, ask)]
    return min(fitting, key=lambda node: node_key(look, node)).node_id if fitting else None
