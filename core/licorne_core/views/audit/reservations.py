"""Rules A6, L1 and D4 for reservations of nodes (see `invariants.py`)."""

from licorne_core.model.apps.requests import RequestState
from licorne_core.partitions.partition import Partition
from licorne_core.scheduling.reservations.limits import Reserver, reservers
from licorne_core.values.errors import InvariantBroken
from licorne_core.values.resources import charge
from licorne_core.values.timers import Due, Timer


def check_reservations(partition: Partition) -> None:
    """Applications, nodes and limits agree on every reservation; raises InvariantBroken."""
    known = _check_holders(partition)
    for node in partition.nodes.by_id.values():
        there = list(node.reservations.values())
        at = f"node {node.node_id}"
        _require("A6", known.issuperset(there), f"{at} is reserved for somebody unknown")
        shared = len(there) < 2 or all(reservation.required for reservation in there)
        _require("A6", shared, f"{at} is reserved for {len(there)} asks")
        closed = any(reservation.exclusive for reservation in there)
        _require("A6", node.open is (node.schedulable and not closed), f"{at} is open: {node.open}")
        kept: dict[str, int] = {}
        for reservation in there:
            charge(kept, reservation.items)
        _require("A6", kept == node.kept, f"{at}: kept {node.kept}, counted {kept}")
        schedulable = node.wanted and not node.drained
        _require("D4", schedulable == node.schedulable, f"{at} is schedulable: {node.schedulable}")
        spared = not node.drained or all(reservation.required for reservation in there)
        _require("D4", spared, f"{at} is drained and reserved for {len(there)} asks")
        known.difference_update(there)
    _require("A6", not known, f"{len(known)} reservations are on no node")
    _check_limits(partition)


def _check_holders(partition: Partition) -> set[object]:
    """The reservations with a node, as applications have them."""
    known: set[object] = set()
    for app in partition.applications.values():
        asks = {request.key for request in app.requests.values() if request.reservation}
        _require("A6", asks == {*app.reserved}, f"{app!r}: reserved {[*app.reserved]}, not {asks}")
        for key, request in app.reserved.items():
            reservation = request.reservation
            assert reservation is not None, f"{request!r} is listed as reserved"
            at = f"reservation of {reservation.node_id} for {app.app_id}/{key}"
            promised = request.promise is not None
            waits = request.is_pending or (promised and request.state is RequestState.ASSUMED)
            _require("A6", waits, f"{at}, which does not wait")
            timer = Timer(Due.UNRESERVE, app.app_id, key)
            _require("L1", timer in partition.timers, f"{at} has no end")
            if reservation.node_id is None:
                _require("A6", promised, f"{at} is of no node, and nothing is promised")
                continue
            node = partition.nodes.by_id.get(reservation.node_id)
            listed = node and node.reservations.get((app.app_id, key))
            _require("A6", listed is reservation, f"{at} is not the node's")
            known.add(reservation)
    return known


def _check_limits(partition: Partition) -> None:
    counted: dict[Reserver, int] = {}
    for app in partition.applications.values():
        for request in app.reserved.values():
            reservation = request.reservation
            if reservation is not None and reservation.node_id and not reservation.required:
                for reserver in reservers(app):
                    counted[reserver] = counted.get(reserver, 0) + 1
    limits = partition.wakeups.reservation_limits
    known: list[Reserver] = [*partition.applications.values(), *partition.tree.all()]
    for reserver in known:
        there, noted = counted.get(reserver, 0), limits.reserved(reserver)
        _require("A6", there == noted, f"{reserver!r}: {noted} nodes reserved, counted {there}")


def _require(rule: str, holds: bool, figures: str) -> None:
    if not holds:
        raise InvariantBroken(f"{rule}: {figures}")
