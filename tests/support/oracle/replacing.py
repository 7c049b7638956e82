"""The real ask that replaces each placeholder (spec § 6.5)."""

from typing import NamedTuple

from support.oracle.books import AllocationRecord, AppRecord, AskRecord
from support.oracle.checks import may_be_asked_about, node_for
from support.oracle.gangs import free_placeholders
from support.oracle.order import Look, apps_in_order
from support.oracle.topology import node_for_member

INCOMPATIBLE = "cancel placeholder: resource incompatible"


class Replacement(NamedTuple):
    """A real ask, the placeholder that it replaces, and the node if it differs from the placeholder's.

    `asks`: the RM has to accept the node first. `cancels`: the placeholder is too small for the ask, and is
    stopped.
    """

    app_id: str
    key: str
    placeholder: str
    node_id: str | None = None
    asks: bool = False
    cancels: bool = False


class _Found(NamedTuple):
    """The result for the placeholders' own nodes: a decision, and the first pairs that fit by size."""

    decision: Replacement | None
    fitting: Replacement | None


def replace_one(look: Look) -> Replacement | None:
    """The first application in which a placeholder can be replaced or has to be stopped."""
    for app in apps_in_order(look, newcomers=True):
        decision = _replace_one_of(look, app)
        if decision is not None:
            return decision
    return None


def _replace_one_of(look: Look, app: AppRecord) -> Replacement | None:
    """Try the placeholders' own nodes for all asks, then the first pair on another node."""
    first: Replacement | None = None
    for ask in app.asks_in_order():
        if ask.placeholder or not may_be_asked_about(look, ask):
            continue
        found = _on_own_node(look, app, ask)
        if found.decision is not None:
            return found.decision
        first = first or found.fitting
    if first is None:
        return None
    ask = app.asks[first.key]
    in_domain = app.terms is not None and app.terms.required
    node_id = node_for_member(look, app, ask, None) if in_domain else node_for(look, ask)
    if node_id is None:
        return None
    asks = look.must_ask(ask, look.nodes[node_id], allocate=True)
    return first._replace(node_id=node_id, asks=asks)


def _on_own_node(look: Look, app: AppRecord, ask: AskRecord) -> _Found:
    first: Replacement | None = None
    for key in free_placeholders(app, ask.task_group):
        placeholder = app.allocations[key]
        pair = Replacement(app.app_id, ask.key, key)
        if not _is_large_enough(placeholder, ask):
            return _Found(pair._replace(cancels=True), None)
        first = first or pair
        node = look.nodes[placeholder.node_id]
        if ask.required_node not in (None, node.node_id):
            continue
        if look.must_ask(ask, node, allocate=False):
            return _Found(pair._replace(asks=True), None)
        if not (ask.predicate and node.results.get((ask.ask_class, False))):
            return _Found(pair, None)
    return _Found(None, first)


def _is_large_enough(placeholder: AllocationRecord, ask: AskRecord) -> bool:
    return all(wanted <= placeholder.ask.size.get(name, 0) for name, wanted in ask.size.items())
