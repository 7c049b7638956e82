"""Repeated check of the laws for victims under notice."""

from support.oracle.books import NOTICED, VICTIMS, AppRecord, AskRecord, total
from support.oracle.order import Look
from support.oracle.queues import lineage
from support.oracle.usage import limit_for
from support.oracle.victims import Name, search_for
from support.preemption.brute_force import BruteForce, is_charged


def still_stands(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if all victims under notice for the ask may still be stopped, and the ask still needs that."""
    kept = ask.reservation
    if kept is None or kept.cleared not in look.nodes or not _is_useful(look, app, ask, kept.cleared):
        return False
    noticed = [one for one in kept.victims if one.state == NOTICED]
    if ask.required_node is not None:
        return all(one.ask.priority <= ask.priority for one in noticed)
    if not look.preemption.enabled:
        return False
    ids = [id(one) for one in noticed]
    names = [
        (other.app_id, one.ask.key)
        for other in look.apps.values()
        for one in other.allocations.values()
        if id(one) in ids
    ]
    return any(_is_legal(tried, names) for tried in search_for(look, app, ask, ids).claims())


def _is_legal(tried: BruteForce, names: list[Name]) -> bool:
    rules = tried.rules
    gone = [one for one in tried.cluster.requests if (one.app, one.key) in names and one.counts]
    leaves = [leaf for leaf in rules.eligible() if rules.is_over(leaf)]
    return rules.keeps_guarantees(gone) and all(
        one.leaf in leaves
        and is_charged(rules, one)
        and rules.counted(one, tried.ask) <= rules.counted(tried.ask, one)
        and rules.seconds(one) >= tried.cluster.queue(one.leaf).settings.preemption_minimum_runtime
        for one in gone
    )


def _is_useful(look: Look, app: AppRecord, ask: AskRecord, node_id: str) -> bool:
    """True if the ask fits on the node, and into all maxima and limits, once all victims have ended."""
    running = [(other, one) for other in look.apps.values() for one in other.allocations.values()]
    leaving = total(one.ask.size for _, one in running if one.state in VICTIMS and one.node_id == node_id)
    free = look.usage.available[node_id]
    if any(free.get(name, 0) + leaving.get(name, 0) < wanted for name, wanted in ask.size.items()):
        return False
    own = ask.reservation.promised if ask.reservation is not None else {}
    for path in lineage(app.queue):
        is_root = path == "root"
        most = look.usage.cluster if is_root else look.queues[path].max
        for name, wanted in ask.size.items():
            used = look.usage.in_the_end(look.apps, path, name) - own.get(name, 0)
            used -= look.usage.overhang.get(name, 0) if is_root else 0
            if (is_root or name in most) and used + wanted > most.get(name, 0):
                return False
        for who in app.trackers():
            limit = limit_for(look.queues[path], *who)
            if limit is not None and limit.max is not None and not _within(look, ask, who, path, limit.max):
                return False
    return True


def _within(look: Look, ask: AskRecord, who: tuple[str, str], path: str, most: dict[str, int]) -> bool:
    """True if the ask is within a limit of its user or group in the queue, once all victims have ended."""
    members = [one for one in look.apps.values() if who in one.trackers() and path in lineage(one.queue)]
    used = total(
        one.ask.size for app in members for one in app.allocations.values() if one.state not in VICTIMS
    )
    others = [one for app in members for one in app.asks.values() if one is not ask]
    promised = total(one.reservation.promised for one in others if one.reservation is not None)
    return all(
        used.get(name, 0) + promised.get(name, 0) + wanted <= most[name]
        for name, wanted in ask.size.items()
        if name in most and wanted
    )
