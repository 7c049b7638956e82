"""The victims on the node that an ask requires (spec § 9.5)."""

from support.oracle.books import VICTIMS, AllocationRecord, AppRecord, AskRecord
from support.oracle.elastic import units_of
from support.oracle.order import Look
from support.oracle.victims import MAY_GO, Preemption


def victims_on_required_node(look: Look, app: AppRecord, ask: AskRecord) -> Preemption | None:
    """The victims on the required node of the ask (spec § 9.5)."""
    node_id = ask.required_node
    assert node_id is not None
    here = [
        (other, one)
        for other in look.apps.values()
        for one in other.allocations.values()
        if one.node_id == node_id
    ]
    free = look.usage.available[node_id]
    cluster = look.usage.cluster
    beyond = {k: _used_in_the_end(look, k) + wanted - cluster.get(k, 0) for k, wanted in ask.size.items()}
    missing = {
        name: wanted
        - free.get(name, 0)
        - sum(one.ask.size.get(name, 0) for _, one in here if one.state in VICTIMS)
        for name, wanted in ask.size.items()
    }
    needed = {name: max(lack, min(beyond[name], ask.size[name])) for name, lack in missing.items()}
    found: list[tuple[tuple[object, ...], AppRecord, list[AllocationRecord]]] = []
    for other, one in here:
        mine = [(unit, step) for unit, step in units_of(other) if any(known is one for known in unit)]
        together, step = mine[-1] if mine else ([one], 0)
        found.append((_rank_there(ask, other, together, step), other, together))
    victims: list[tuple[str, str]] = []
    gone = dict.fromkeys(ask.size, 0)
    for _, other, together in sorted(found, key=lambda one: one[0]):
        open_ = {name for name, need in needed.items() if gone[name] < need}
        if not open_:
            break
        there = [
            one.ask
            for one in together
            if one.node_id == node_id and (other.app_id, one.ask.key) not in victims
        ]
        helps = any(victim.size.get(name, 0) for victim in there for name in open_)
        if not helps or not all(_gives_way(ask, one) for one in together):
            continue
        for one in together:
            if (other.app_id, one.ask.key) not in victims:
                victims.append((other.app_id, one.ask.key))
                for name in gone:
                    gone[name] += one.ask.size.get(name, 0) if one.node_id == node_id else 0
    enough = all(gone[name] >= max(lack, beyond[name]) for name, lack in missing.items())
    if not enough or all(lack <= 0 for lack in missing.values()):
        return None
    return Preemption(app.app_id, ask.key, node_id, victims)


def _gives_way(ask: AskRecord, one: AllocationRecord) -> bool:
    return one.state in MAY_GO and one.ask.priority <= ask.priority and one.ask.required_node is None


def _rank_there(
    ask: AskRecord, app: AppRecord, together: list[AllocationRecord], step: int
) -> tuple[object, ...]:
    """The order of victims: steps of gangs from the highest down, then kind, priority, youth and size."""
    asks = [one.ask for one in together]
    kind = max(2 if one.terms.originator else 0 if one.terms.itself else 1 for one in asks)
    shared = sum(one.size.get(name, 0) for one in asks for name in ask.size)
    first = min(together, key=lambda one: (-one.ask.created, one.ask.key))
    last = (-first.ask.created, shared, first.ask.key, app.app_id)
    if step and not kind:
        return (-1, -step, *last)
    return (kind, max(one.priority for one in asks), *last)


def _used_in_the_end(look: Look, name: str) -> int:
    """The usage once all victims have ended and the asks that need them are placed."""
    apps = look.apps.values()
    stopping = [one for app in apps for one in app.allocations.values() if one.state in VICTIMS]
    promised = [
        ask.reservation.promised for app in apps for ask in app.asks.values() if ask.reservation is not None
    ]
    used: int = look.usage.allocated["root"].get(name, 0) - look.usage.overhang.get(name, 0)
    used -= sum(one.ask.size.get(name, 0) for one in stopping)
    return used + sum(amounts.get(name, 0) for amounts in promised)
