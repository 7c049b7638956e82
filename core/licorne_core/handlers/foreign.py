"""Foreign allocations: what other schedulers run on our nodes (spec § 7.3)."""

from licorne_core.asks import Allocation, Ask
from licorne_core.errors import Refusal, Rejected
from licorne_core.facts.nodes import OccupiedChanged
from licorne_core.handlers.bounds import check_node_growth, check_types
from licorne_core.handlers.predicates import roll_back_unfitting
from licorne_core.handlers.slices import Slice
from licorne_core.ids import AllocationKey
from licorne_core.nodes.node import Node
from licorne_core.partition import Partition
from licorne_core.resources import charge

FOREIGN_TAG = "foreign"


def is_foreign(ask: Ask) -> bool:
    """Whether the ask is of another scheduler."""
    return any(tag.lower() == FOREIGN_TAG for tag in ask.tags)


def take_foreign(partition: Partition, ask: Ask, now: float) -> None:
    """Book it as occupied on its node, in place of what it took before; never answered."""
    if not ask.node_id:
        raise Rejected(
            f"trying to add a foreign request (non-allocation) {ask.key}", Refusal.INVALID
        )
    if ask.node_id not in partition.nodes.by_id:
        raise Rejected(
            f"failed to find node {ask.node_id} for allocation {ask.key}", Refusal.UNKNOWN_NODE
        )
    node = partition.nodes.by_id[ask.node_id]
    known = node.foreign.get(ask.key)
    before = known.ask.ask_class.items if known is not None else ()
    if ask.key not in partition.foreign:
        partition.rm.holdings.check_ask(ask.key, ask.footprint, exists=True)
    check_types(partition, ask.ask_class.resources)
    check_node_growth(ask.key, before, ask.ask_class.items, node)
    left = _drop(partition, ask.key)
    if left is not None and left is not node:
        _note(partition, left, now)
    partition.foreign[ask.key] = node
    partition.rm.holdings.ask_came(ask.footprint)
    node.foreign[ask.key] = Allocation(ask, ask.node_id, now, now)
    partition.cluster.occupy(node, (), ask.ask_class.items)
    _note(partition, node, now)
    roll_back_unfitting(partition, node, now)


def release_foreign(partition: Partition, key: AllocationKey, now: float) -> None:
    """Forget a foreign allocation; an unknown one is ignored."""
    node = _drop(partition, key)
    if node is not None:
        _note(partition, node, now)


def forget_foreign_on(partition: Partition, node: Node, part: Slice) -> None:
    """Forget foreign allocations of a node that is about to go, as many as the slice may end."""
    freed: dict[str, int] = {}
    for key, allocation in part.take(node.foreign.items()):
        del partition.foreign[key]
        del node.foreign[key]
        partition.rm.holdings.ask_went(allocation.ask.footprint)
        charge(freed, allocation.ask.ask_class.items)
    if freed:
        partition.cluster.occupy(node, tuple(freed.items()), ())


def _drop(partition: Partition, key: AllocationKey) -> Node | None:
    """Forget it in the books; the node that it was on."""
    node = partition.foreign.pop(key, None)
    if node is not None:
        ask = node.foreign.pop(key).ask
        partition.rm.holdings.ask_went(ask.footprint)
        partition.cluster.occupy(node, ask.ask_class.items, ())
    return node


def _note(partition: Partition, node: Node, now: float) -> None:
    partition.journal.note(OccupiedChanged(now, node.node_id, dict(node.occupied)))
