"""Room reserved for asks on nodes: the choice, the bounds, and the end (§§ 8.5-8.7)."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from support.oracle.books import AllocationRecord, Amounts, AppRecord, AskClass, AskRecord, NodeRecord
from support.oracle.checks import (
    exceeds_cluster_only,
    fits,
    is_behind,
    may_be_asked_about,
    may_start,
    node_for,
    refused,
    refuses_place,
    takes,
    within_limits,
    within_maxima,
)
from support.oracle.gangs import is_replaceable
from support.oracle.held import behind
from support.oracle.order import SCHEDULABLE, ClaimRecord, Look, apps_in_order, fit_key
from support.oracle.partition import PartitionOracle
from support.oracle.profiles import extended
from support.oracle.queues import lineage
from support.oracle.terms import ReservationRecord
from support.oracle.topology import is_member, is_whole

PART_OF_NODES = 10
RESERVATION_AGE = 2.0
REVIEW_SECONDS = 1.0
REVIEW = ("review", "")


class GiveUp(NamedTuple):
    """The result of a review: reservations that end, and idle times and yielding of all reservations.

    `idle` are asks whose reservation ends by its timeout, `giving_way` asks whose reservation yields to a
    claim, and `claims` the remaining claims.
    """

    idle: list[AskRecord]
    giving_way: list[AskRecord]
    found: list[tuple[ReservationRecord, float | None, bool]]
    claims: list[ClaimRecord]
    is_review: bool = True


def node_to_reserve(look: Look, app: AppRecord, ask: AskRecord) -> str | None:
    """The node to reserve for an ask that fits on none (§§ 8.5, 8.7)."""
    has_one = ask.reservation is not None and ask.reservation.node_id is not None
    if not look.reserving or has_one:
        return None
    if ask.required_node is not None:
        required = look.nodes.get(ask.required_node)
        return None if required is None or refuses_place(required, ask) else required.node_id
    if look.now < ask.created + RESERVATION_AGE or not _may_reserve(look, app):
        return None

    def key(node: NodeRecord) -> tuple[object, ...]:
        return fit_key(look, node, ask.size)

    holding = [
        node
        for node in look.nodes.values()
        if node.schedulable and not node.yielded
        if node.node_id not in look.usage.reserved | look.usage.planned
        if not any(place.node_id == node.node_id for place in look.places)
        if node.holds(ask.size) and not refused(node, ask, allocate=False)
        if not refuses_place(node, ask)
    ]
    at = {node.node_id: _room_at(look, node, ask) for node in holding}
    return min(holding, key=lambda node: (at[node.node_id], *key(node))).node_id if holding else None


def _is_within(size: Amounts, free: Amounts) -> bool:
    """True if the amounts are free."""
    return all(value <= free.get(name, 0) for name, value in size.items())


def _room_at(look: Look, node: NodeRecord, ask: AskRecord) -> float:
    """The time at which the node has room by expected ends; -inf if it has room, inf if it never has."""
    free = dict(look.usage.available[node.node_id])
    if _is_within(ask.size, free):
        return -inf
    found = [
        (extended(one.end, look.now), one.number, one.ask.size)
        for app in look.apps.values()
        for one in app.allocations.values()
        if one.node_id == node.node_id
    ]
    for end, _, size in sorted(found, key=lambda one: one[:2]):
        free = {name: free.get(name, 0) + size.get(name, 0) for name in {*free, *size}}
        if _is_within(ask.size, free):
            return end
    return inf


def is_large(look: Look, ask: AskRecord) -> bool:
    """True if no empty node has room for two such asks."""
    return any(
        2 * wanted > max((node.capacity.get(name, 0) for node in look.nodes.values()), default=0)
        for name, wanted in ask.size.items()
    )


def _may_reserve(look: Look, app: AppRecord) -> bool:
    """True if one more node may be reserved for the application and in its queues."""
    own = look.queues[app.queue].properties.get("application.reservation.max.nodes")
    most = (_most_of_root(look) + 1) // 2 if own is None else int(own)
    if sum(_counts(ask) for ask in app.asks.values()) >= most:
        return False
    for path in lineage(app.queue):
        written = look.queues[path].properties.get("reservation.max.nodes")
        bound = _most_of_root(look) if path == "root" else written and int(written)
        if bound is None or bound == "":
            continue
        inside = [one for one in look.apps.values() if path in lineage(one.queue)]
        if sum(_counts(ask) for one in inside for ask in _kept_for(one)) >= bound:
            return False
    return True


def _most_of_root(look: Look) -> int:
    written = look.queues["root"].properties.get("reservation.max.nodes")
    return max(1, len(look.nodes) // PART_OF_NODES) if written is None else int(written)


def _kept_for(app: AppRecord) -> list[AskRecord]:
    return [*app.asks.values(), *(app.waiting_ask(key) for key in app.assumed_keys())]


def _counts(ask: AskRecord) -> bool:
    kept = ask.reservation
    return kept is not None and kept.node_id is not None and ask.required_node is None


def review(look: Look, backing_off: Sequence[str] | None) -> GiveUp:
    """The reservations that their asks cannot use, or that yield to asks below their guarantee.

    Applications in `backing_off` are skipped, too. With None no full pass has just ended, so waiting asks are
    those that found no node at their last try.
    """
    found = GiveUp([], [], [], [])
    yielding = []
    for app in look.apps.values():
        for ask in app.asks.values():
            kept = ask.reservation
            if kept is None or kept.node_id is None:
                continue
            since = kept.idle_since
            if _could_go(look, app, ask):
                since = None
            elif since is None:
                since = look.now
            gives_way = not (ask.required_node or ask.is_promised or is_due(look, app, ask))
            found.found.append((kept, since, gives_way))
            timeout = look.queues[app.queue].reservation_idle_timeout
            if since is not None and look.now - since >= timeout:
                found.idle.append(ask)
            elif gives_way:
                yielding.append((kept.serial, ask))
    waiting = _due_and_waiting(look, backing_off) if yielding else {}
    claims = [
        ClaimRecord(replace(waiting[key][0][1]), [(app, ask.kind) for app, ask in waiting[key]])
        for key in sorted(waiting, key=lambda one: (one[0], one[2] or ""))
    ]
    for _, ask in sorted(yielding, key=lambda one: one[0]):
        claim = _room_for(look, ask, claims)
        if claim is not None:
            claims.remove(claim)
            found.giving_way.append(ask)
    return found._replace(claims=claims)


def claim_to(look: Look, ask: AskRecord) -> ClaimRecord | None:
    """The first claim that fits on the node reserved for the ask.

    A claim is void if its asks were removed, or its queue has reached its guarantee.
    """
    if not look.claims:
        return None
    now = {(id(app), one.kind) for waiting in _due_and_waiting(look, None).values() for app, one in waiting}
    standing = [claim for claim in look.claims if any((id(app), kind) in now for app, kind in claim.kinds)]
    return _room_for(look, ask, standing)


def _room_for(look: Look, ask: AskRecord, claims: list[ClaimRecord]) -> ClaimRecord | None:
    kept = ask.reservation
    node = None if kept is None or kept.node_id is None else look.nodes[kept.node_id]
    if node is None or not node.schedulable:
        return None
    return next((claim for claim in claims if fits(look, node, claim.ask)), None)


def claims_on(look: Look, reserved: AskRecord, node: NodeRecord) -> list[tuple[AppRecord, AskRecord]]:
    """The claims with room on a node usable by a reserved ask: the node reserved for it, or another."""
    own = reserved.reservation is not None and reserved.reservation.node_id == node.node_id
    return [
        (app, ask)
        for waiting in _due_and_waiting(look, None).values()
        for app, ask in waiting
        if node.schedulable and within_maxima(look, app, ask) and not is_behind(look, app, ask)
        if (fits(look, node, ask) if own else takes(look, node, ask))
    ]


def first_in_order(look: Look, reserved: AskRecord, node: NodeRecord) -> tuple[AppRecord, AskRecord] | None:
    """The first ask of this size in order, up to the reserved one, that waits only because of the nodes."""
    own = reserved.reservation is not None and reserved.reservation.node_id == node.node_id
    for app in apps_in_order(look):
        backs_off = app.backs_off_until > look.now
        may_be = not (backs_off or (app.state == "Accepted" and not may_start(look, app)))
        for ask in app.asks_in_order():
            if ask is reserved:
                return app, ask
            if not may_be or ask.size != reserved.size or ask.required_node is not None:
                continue
            if ask.kind not in app.nowhere:
                continue
            if is_replaceable(app, ask) or is_whole(look, app, ask) or is_member(look, app, ask):
                continue
            free = within_limits(look, app, ask) and within_maxima(look, app, ask)
            free = free and not is_behind(look, app, ask)
            has_room = fits(look, node, ask) if own else takes(look, node, ask)
            if free and has_room and may_be_asked_about(look, ask):
                return app, ask
    return None


def victims_on(apps: dict[str, AppRecord], kept: ReservationRecord) -> list[AllocationRecord]:
    """The victims on the node of the reservation that still have to be stopped."""
    return [
        one
        for app in apps.values()
        for one in app.allocations.values()
        if one.node_id == kept.node_id and any(one is victim for victim in kept.victims)
    ]


def _could_go(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask would be placed if the node reserved for it were empty."""
    kept = ask.reservation
    node = None if kept is None or kept.node_id is None else look.nodes[kept.node_id]
    is_refused = node is not None and refuses_place(node, ask)
    if kept is not None and is_refused and not victims_on(look.apps, kept):
        return False
    if app.state not in SCHEDULABLE or (app.state == "Accepted" and not may_start(look, app)):
        return False
    if not within_limits(look, app, ask, reserved=True):
        return False
    within = within_maxima(look, app, ask, reserved=True)
    if within and behind(look, app, ask, None, reserved=True):
        return False
    return within or exceeds_cluster_only(look, app, ask, reserved=True)


def _due_and_waiting(
    look: Look, backing_off: Sequence[str] | None
) -> dict[AskClass, list[tuple[AppRecord, AskRecord]]]:
    """The asks within a guarantee that wait only because of the nodes, by class."""
    found: dict[AskClass, list[tuple[AppRecord, AskRecord]]] = {}
    for app in apps_in_order(look):
        backs_off = app.backs_off_until > look.now or app.app_id in (backing_off or ())
        if backs_off or (app.state == "Accepted" and not may_start(look, app)):
            continue
        for ask in app.asks_in_order():
            if ask.required_node is not None or is_replaceable(app, ask):
                continue
            if is_whole(look, app, ask) or is_member(look, app, ask):
                # A single node is useless for a gang.
                continue
            if not within_limits(look, app, ask):
                continue
            if within_maxima(look, app, ask):
                waits = may_be_asked_about(look, ask) and not is_behind(look, app, ask)
                if backing_off is not None:
                    waits = waits and node_for(look, ask) is None
            else:
                waits = exceeds_cluster_only(look, app, ask)
            if backing_off is None:
                waits = waits and ask.kind in app.nowhere
            if waits and is_due(look, app, ask):
                found.setdefault(ask.ask_class, []).append((app, ask))
    return found


def is_due(look: Look, app: AppRecord, ask: AskRecord) -> bool:
    """True if the ask is within the guarantee of the lowest queue that guarantees one of its types."""
    for path in lineage(app.queue):
        due = {name: value for name, value in look.queues[path].guaranteed.items() if value > 0}
        shared = due.keys() & ask.size.keys()
        if shared:
            return all(
                look.usage.in_the_end(look.apps, path, name) + ask.size[name] <= due[name] for name in shared
            )
    return False


def new_reservation(partition: PartitionOracle, app: AppRecord, since: float) -> ReservationRecord:
    """A new reservation, still without a node, with the highest serial number."""
    partition.reservations += 1
    exclusive = partition.queues[app.queue].properties.get("reservation.exclusive") == "true"
    return ReservationRecord(None, since, exclusive=exclusive, serial=partition.reservations)


def review_later(partition: PartitionOracle, now: float) -> None:
    """Review the reservations in a second, if there are any or a node has yielded."""
    wanted = partition.reserved_asks() or any(one.yielded for one in partition.nodes.values())
    if wanted and REVIEW not in partition.timers:
        partition.timers.set(REVIEW, now + REVIEW_SECONDS)
