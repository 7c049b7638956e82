"""The checks of an application or an ask: §§ 4.5-4.6, 4.12, 7.4, 10.4-10.5.

With `reserved` the amounts promised to the ask are available to it.
"""

from support.oracle.backfill import is_closed, lets
from support.oracle.books import Amounts, AppRecord, AskRecord, NodeRecord, add_to
from support.oracle.held import behind
from support.oracle.order import Look, node_key
from support.oracle.queues import lineage
from support.oracle.terms import NO_ANSWER
from support.oracle.usage import NOTHING, limit_for


def within_maxima(look: Look, app: AppRecord, ask: AskRecord, *, reserved: bool = False) -> bool:
    """True if the ask is within the maxima of its queues."""
    own = _own(ask, reserved=reserved)
    return all(_within_max(look, path, ask, own) for path in lineage(app.queue))


def exceeds_cluster_only(look: Look, app: AppRecord, ask: AskRecord, *, reserved: bool = False) -> bool:
    """True if the ask exceeds the remainder of the whole cluster, but no other maximum."""
    own = _own(ask, reserved=reserved)
    exceeded = [path for path in lineage(app.queue) if not _within_max(look, path, ask, own)]
    return exceeded == ["root"]


def _own(ask: AskRecord, *, reserved: bool) -> AskRecord | None:
    return ask if reserved and ask.is_promised else None


def may_be_asked_about(look: Look, ask: AskRecord) -> bool:
    """True if the ask has no predicate, or the RM owes fewer answers than the maximum."""
    return ask.predicate is None or not look.full


def within_limits(look: Look, app: AppRecord, ask: AskRecord, *, reserved: bool = False) -> bool:
    """True if the ask is within the limits of its user and group, and within its budgets, those of hours too.

    Its leaf has to be open as well: preemption helps against none of these.
    """
    within = within_user_limits(look, app, ask, reserved=reserved)
    return within and not is_closed(look, app) and not stops_for_good(look, app, ask)


def within_user_limits(look: Look, app: AppRecord, ask: AskRecord, *, reserved: bool = False) -> bool:
    """True if the ask is within the limits of its user and its group, and within its budgets."""
    own = _own(ask, reserved=reserved)
    within = all(_within_limits_of(look, app, path, ask, own) for path in lineage(app.queue))
    return within and not any(
        claimed.get(name, 0) + ask.size[name] > most[name]
        for _, most, claimed in look.budgets_of(app, own)
        for name in most.keys() & ask.size.keys()
    )


def stops_for_good(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if its budgets of hours are used up: no start is planned for it."""
    return any(
        look.memory.used_up(look.queues[path], name, look.now)
        for path in lineage(app.queue)
        for name, wanted in ask.size.items()
        if wanted
    )


def first_like(app: AppRecord, ask: AskRecord) -> AskRecord:
    """The first ask of the same kind, whose planned start the kind may use."""
    return next((one for one in app.asks_in_order() if one.kind == ask.kind), ask)


def is_behind(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if asks of the kind would delay a start that reserves some of a maximum."""
    return behind(look, app, ask, first_like(app, ask))


def _within_max(look: Look, path: str, ask: AskRecord, own: AskRecord | None) -> bool:
    """True if the ask is within the queue's maximum; for root, within types and amounts of the cluster."""
    used = look.usage.claimed(path, own)
    limit = look.usage.cluster if path == "root" else look.queues[path].max
    for name, wanted in ask.size.items():
        if name in limit:
            if used.get(name, 0) + wanted > limit[name]:
                return False
        elif path == "root":
            return False
    return True


def _within_limits_of(look: Look, app: AppRecord, path: str, ask: AskRecord, own: AskRecord | None) -> bool:
    """True if it is within the limits for user and group in one queue."""
    for kind, name in app.trackers():
        limit = limit_for(look.queues[path], kind, name)
        if limit is None or limit.max is None:
            continue
        used = look.usage.claimed_of((kind, name, path), own)
        for what, bound in limit.max.items():
            wanted = ask.size.get(what, 0)
            if wanted and used.get(what, 0) + wanted > bound:
                return False
    return True


def may_start(look: Look, app: AppRecord) -> bool:
    """True if an accepted application may start in addition to the running ones.

    An allocating one already counts as running in its queues, and one with an allocation for its user and
    group: what counts already is not checked (spec §§ 4.12, 10.5).
    """
    for path in lineage(app.queue):
        most = look.queues[path].max_apps
        if most and not app.allocating and look.usage.running[path] >= most:
            return False
        for kind, name in app.trackers():
            limit = limit_for(look.queues[path], kind, name)
            if limit is None or not limit.max_apps:
                continue
            counted = look.usage.tracked_apps.get((kind, name, path), set())
            if app.app_id not in counted and len(counted) >= limit.max_apps:
                return False
    return True


def is_further(look: Look, app: AppRecord) -> bool:
    """True if the application would add to a bounded number of running ones."""
    paths = lineage(app.queue)
    if not app.allocating and any(look.queues[path].max_apps for path in paths):
        return True
    for kind, name, path in [(*tracker, path) for path in paths for tracker in app.trackers()]:
        limit = limit_for(look.queues[path], kind, name)
        counted = look.usage.tracked_apps.get((kind, name, path), set())
        if limit is not None and limit.max_apps and app.app_id not in counted:
            return True
    return False


def takes(look: Look, node: NodeRecord, ask: AskRecord) -> bool:
    """True if the ask may be placed on the node in the regular pass, and fits.

    The node must be schedulable, and reserved amounts are left free, unless the ask requires the node (§
    7.7).
    """
    if ask.required_node is None:
        kept = look.usage.kept_on.get(node.node_id, {})
        return is_open(look, node) and fits(look, node, ask, kept) and lets(look, node, ask)
    return ask.required_node == node.node_id and fits(look, node, ask)


def node_for(look: Look, ask: AskRecord) -> str | None:
    """The first node in order that accepts the ask; None without one."""
    fitting = [node for node in look.nodes.values() if takes(look, node, ask)]
    return min(fitting, key=lambda node: node_key(look, node)).node_id if fitting else None


def refused(node: NodeRecord, ask: AskRecord, *, allocate: bool = True) -> bool:
    """True if the RM has refused the ask on the node (spec § 8.4)."""
    return bool(node.results.get((ask.ask_class, allocate)))


def refuses_place(node: NodeRecord, ask: AskRecord) -> bool:
    """True if the RM has refused the ask on the node in an answer; missing answers do not count."""
    return node.results.get((ask.ask_class, True), "") not in ("", NO_ANSWER)


def is_open(look: Look, node: NodeRecord) -> bool:
    """True if the node is open to all asks."""
    return node.schedulable and node.node_id not in look.usage.exclusive


def fits(look: Look, node: NodeRecord, ask: AskRecord, kept: Amounts = NOTHING) -> bool:
    """True if the ask fits on the node beside others, and the RM has not refused the node."""
    available = dict(look.usage.available[node.node_id])
    add_to(available, {name: -value for name, value in kept.items()})
    return (
        not refused(node, ask)
        and node.holds(ask.size)
        and all(wanted <= available.get(name, 0) for name, wanted in ask.size.items())
    )
