"""The nodes of one partition, their total capacity, and the orders by utilization (spec § 7.5)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import takewhile
from math import fsum, inf
from typing import Any, Final, NamedTuple, assert_never

from licorne_core.config.schema import NodeSortPolicy, NodeSortType
from licorne_core.messages.operators import OperatorMark
from licorne_core.model.nodes.node import Node, Recent, overhang_of, usable
from licorne_core.values.ids import NodeId
from licorne_core.values.resources import Items, Resources, add, charge, refund, subtract, without_zeros
from licorne_core.values.rm_caps import Holdings


class Packing(NamedTuple):
    """The units that the order `auto` keeps whole: single nodes, and groups of nodes.

    Nodes that agree in all attributes of one of the `groupings` are a group, and the widest grouping is
    first. The fill level of a group depends on the resource `types` that gangs want there.
    """

    groupings: tuple[tuple[str, ...], ...] = ()
    types: tuple[str, ...] = ()


NODES: Final = Packing()
"""No grouping: single nodes are packed."""


def all_of(wanted: Collection[Packing]) -> Packing | None:
    """One packing with all groupings and types; None if `wanted` is empty."""
    groupings = sorted((len(grouping), grouping) for grouping in {g for one in wanted for g in one.groupings})
    types = sorted({name for one in wanted for name in one.types})
    return Packing(tuple([grouping for _, grouping in groupings]), tuple(types)) if wanted else None


class NodeOrder:
    """Order of nodes under one policy.

    The node with the lowest score is first, ties by node id. A score may be a number or a tuple, of one kind
    for all nodes. It is cached until `voids` names the node: an order whose scores depend on other nodes has
    to name all nodes whose score a change of one node may change.
    """

    packs: Packing | None
    """The units that `auto` now keeps whole, fullest first; None while it spreads, and for other policies."""
    has_mates: bool
    """True if `voids` may return other nodes than the changed one."""

    def __init__(self, policy: NodeSortPolicy) -> None:
        """Use the policy; types without weight do not count."""
        self.policy = policy
        self.weights = _weights(policy)
        self.has_mates = False
        self.packs: Packing | None = None

    def score(self, node: Node) -> Any:
        """The sort key of the node at present."""
        raise NotImplementedError

    def voids(self, node: Node) -> Iterable[Node]:
        """Nodes whose scores may have changed, because this node was changed, added or removed.

        Called once after each such change. The node itself is included unless it was removed.
        """
        return (node,)

    def add(self, node: Node) -> None:
        """Add a node to the order."""

    def remove(self, node: Node) -> None:
        """Remove a node from the order."""


def node_order(policy: NodeSortPolicy, packs: Packing | None = None) -> NodeOrder:
    """The order of a policy, without nodes. `packs` has the units that `auto` keeps whole now."""
    match policy.type:
        case NodeSortType.AUTO if packs is not None and packs.groupings:
            return GroupedOrder(policy, packs)
        case NodeSortType.AUTO | NodeSortType.FAIR | NodeSortType.BINPACKING:
            return UtilizationOrder(policy, packs)
        case NodeSortType.SPREAD:
            return SpreadOrder(policy)
        case _:
            assert_never(policy.type)


class UtilizationOrder(NodeOrder):
    """The emptiest node first (fair), or the fullest first (bin packing); `auto` alternates between them."""

    def __init__(self, policy: NodeSortPolicy, packs: Packing | None) -> None:
        """Use the policy's type and weights."""
        super().__init__(policy)
        self.packs = packs if policy.type is NodeSortType.AUTO else None
        self._sign = -1.0 if self.packs or policy.type is NodeSortType.BINPACKING else 1.0

    def score(self, node: Node) -> Any:
        """Utilization, negated for bin packing."""
        return self._sign * _utilization(node, self.weights)


STEPS: Final = 16
"""Number of steps from an empty group to a full one; any usage is above the first step."""

MOST_MATES: Final = 1_000
"""Maximum number of nodes of a group that is compared with others; all its scores may be void together."""


class _Group:
    """The nodes of a group, and their total amounts of each type."""

    __slots__ = ("capacity", "nodes", "step", "taken")

    def __init__(self, types: int) -> None:
        self.nodes: dict[Node, None] = {}
        self.capacity = [0] * types
        self.taken = [0] * types
        self.step = -1
        """Fill level in the scores of its nodes; -1 before the first measurement."""

    def count(self, amounts: Sequence[tuple[int, int]], sign: int) -> None:
        """Add capacity and used amount of each type, or subtract them (`sign` is -1)."""
        for number, (size, taken) in enumerate(amounts):
            self.capacity[number] += sign * size
            self.taken[number] += sign * taken

    def measure(self) -> int:
        """Used steps of the type with the least free share; full without capacity, 0 in a too large group."""
        if len(self.nodes) > MOST_MATES:
            return 0
        pairs = zip(self.capacity, self.taken, strict=True)
        return max([-(-STEPS * taken // size) if size > 0 else STEPS for size, taken in pairs], default=0)


class GroupedOrder(UtilizationOrder):
    """The fullest group of nodes of the widest grouping first, and in it the fullest node.

    A node in no group is before all others: an ask there leaves all groups whole. Groups are compared by
    steps, so that small changes of a node seldom void the scores of its group.
    """

    def __init__(self, policy: NodeSortPolicy, packs: Packing) -> None:
        """Use the policy's weights, which count for single nodes."""
        super().__init__(policy, packs)
        self.has_mates = True
        self._by = packs.groupings
        self._types = packs.types
        self._groups: list[dict[tuple[str, ...], _Group]] = [{} for _ in packs.groupings]
        self._counted: dict[Node, Sequence[tuple[int, int]]] = {}
        """Capacity and used amount of each type, as included in the sums of the node's groups."""

    def score(self, node: Node) -> Any:
        """The steps of its groups, then its utilization, all negated."""
        steps: list[float] = []
        for group in self._groups_of(node):
            if group is not None:
                group.step = group.measure()
            steps.append(-inf if group is None else -group.step)
        return (*steps, super().score(node))

    def voids(self, node: Node) -> Iterable[Node]:
        """The node, and all nodes of its groups whose step has changed."""
        found: dict[Node, None] = {}
        if node in self._counted:
            self._count(node, self._amounts(node))
            found[node] = None
        for group in self._groups_of(node):
            if group is not None and group.step != group.measure():
                group.step = group.measure()
                found.update(group.nodes)
        return found

    def add(self, node: Node) -> None:
        """Add a node to its groups."""
        for groups, path in self._paths(node):
            if path is not None:
                groups.setdefault(path, _Group(len(self._types))).nodes[node] = None
        self._count(node, self._amounts(node))

    def remove(self, node: Node) -> None:
        """Remove a node from its groups, if it was added."""
        if node in self._counted:
            self._count(node, [(0, 0)] * len(self._types))
            del self._counted[node]
            for groups, path in self._paths(node):
                if path is not None:
                    del groups[path].nodes[node]
                    if not groups[path].nodes:
                        del groups[path]

    def _count(self, node: Node, amounts: Sequence[tuple[int, int]]) -> None:
        """Count these amounts in the groups of the node, in place of the former amounts."""
        before = self._counted.get(node) or [(0, 0)] * len(self._types)
        self._counted[node] = amounts
        if amounts != before:
            for group in self._groups_of(node):
                if group is not None:
                    group.count(before, -1)
                    group.count(amounts, 1)

    def _amounts(self, node: Node) -> Sequence[tuple[int, int]]:
        sizes = [(name, node.capacity.get(name, 0)) for name in self._types]
        return [(size, size - node.available.get(name, 0)) for name, size in sizes]

    def _groups_of(self, node: Node) -> list[_Group | None]:
        """The group of the node by each grouping; None if it is in no group."""
        return [None if path is None else groups.get(path) for groups, path in self._paths(node)]

    def _paths(self, node: Node) -> list[tuple[dict[tuple[str, ...], _Group], tuple[str, ...] | None]]:
        """The groups of each grouping, with the path of the node; None if the node lacks an attribute."""
        paths = [tuple([node.attributes.get(name, "") for name in names]) for names in self._by]
        return [
            (groups, path if path[-1] else None) for groups, path in zip(self._groups, paths, strict=True)
        ]


class SpreadOrder(NodeOrder):
    """The emptiest group of nodes first, and in it the emptiest node.

    Nodes with the same value of the policy's attribute are one group; nodes without the attribute are
    another. The utilization of a group is the mean of its nodes, including drained ones. Every change of a
    node voids the scores of its group, so a decision costs more the larger the groups are.
    """

    def __init__(self, policy: NodeSortPolicy) -> None:
        """Use the policy's attribute and weights."""
        super().__init__(policy)
        # The scores of all nodes of a group depend on the group's mean.
        self.has_mates = True
        self._groups: dict[str, dict[Node, float]] = {}
        """The utilization of each node at its last change, by group."""
        self._means: dict[str, float] = {}

    def score(self, node: Node) -> tuple[float, float]:
        """The mean utilization of the node's group, then the node's own utilization."""
        value = self._value(node)
        mean = self._means.get(value)
        if mean is None:
            mean = self._means[value] = _mean(self._groups[value])
        return (mean, self._groups[value][node])

    def voids(self, node: Node) -> Iterable[Node]:
        """All nodes of the node's group, as they share its mean."""
        value = self._value(node)
        group = self._groups.get(value)
        if group is None:
            return ()
        if node in group:
            group[node] = _utilization(node, self.weights)
        self._means[value] = _mean(group)
        return group

    def add(self, node: Node) -> None:
        """Add a node to its group."""
        value = self._value(node)
        self._groups.setdefault(value, {})[node] = _utilization(node, self.weights)
        self._means.pop(value, None)

    def remove(self, node: Node) -> None:
        """Remove a node from its group, if it was added."""
        value = self._value(node)
        group = self._groups.get(value, {})
        if group.pop(node, None) is not None and not group:
            del self._groups[value]
            self._means.pop(value, None)

    def _value(self, node: Node) -> str:
        return node.attributes.get(self.policy.attribute, "")


def _mean(group: Mapping[Node, float]) -> float:
    """Mean utilization of a group, from a total that does not depend on the order of its nodes."""
    return fsum(group.values()) / len(group)


def _weights(policy: NodeSortPolicy) -> tuple[tuple[str, float], ...]:
    return tuple(sorted((name, weight) for name, weight in policy.weights.items() if weight > 0))


def utilization(node: Node, policy: NodeSortPolicy) -> float:
    """Weighted mean of utilization by type (spec § 7.5): 0.0 if empty, 1.0 if full."""
    return _utilization(node, _weights(policy))


def _utilization(node: Node, weights: tuple[tuple[str, float], ...]) -> float:
    taken = 0.0
    total = 0.0
    capacity = node.capacity
    available = node.available
    for name, weight in weights:
        size = capacity.get(name, 0)
        if size > 0:
            taken += weight * (1 - available.get(name, 0) / size)
            total += weight
    return taken / total if total else 0.0


def _holds(capacity: Resources, other: Resources) -> bool:
    return all(capacity.get(name, 0) >= value for name, value in other.items())


def _growth(capacity: Resources, items: Items) -> list[tuple[bool, Fraction]]:
    """Requested amounts divided by the capacity, the largest first; True for types that it lacks."""
    amounts = [(value, capacity.get(name, 0)) for name, value in items]
    return sorted([(value > size == 0, Fraction(value, size or 1)) for value, size in amounts], reverse=True)


def _raise_to(largest: dict[str, int], capacity: Mapping[str, int]) -> None:
    """Raise the largest amounts to the capacity of one more node, where the node has more."""
    for name, value in capacity.items():
        if value > largest.get(name, 0):
            largest[name] = value


MOST_SIZES: Final = 64
"""Maximum number of capacities in `NodeBook.sizes`."""


class NodeBook:
    """Nodes by id. `total` is the sum of all capacities, including drained nodes (spec § 4.5).

    A node may have more allocated than its capacity: after it has shrunk, or after its RM has added or
    enlarged an allocation. Only this node lacks room, so sums of nodes are compared without `overhang`.
    """

    order: NodeOrder
    """The order in which nodes are tried."""

    def __init__(self, policy: NodeSortPolicy, holdings: Holdings | None = None) -> None:
        """Start without nodes; the policy gives their order."""
        self._holdings = holdings or Holdings()
        self.by_id: dict[NodeId, Node] = {}
        self.closed: dict[NodeId, OperatorMark] = {}
        """Marks of operators who closed nodes to new allocations, including marks of removed nodes."""
        self.order = node_order(policy)
        self.total: Resources = {}
        self.overhang: dict[str, int] = {}
        """Sum over all nodes of the amounts allocated beyond their capacity, by resource name."""
        self._overhangs: dict[Node, Items] = {}
        self.usable: dict[str, int] = {}
        """Amounts that nodes have for queues (`node.usable`), by resource name."""
        self._usable: dict[Node, Items] = {}
        self._largest: dict[str, int] | None = None
        self.highest: dict[str, int] = {}
        """The largest capacity of any node ever, by type."""
        self.sizes: list[Resources] | None = []
        """The capacities that nodes ever had and that no other one exceeds; None once there were too many."""
        self._births = 0
        self.changed: Recent[Node] = Recent()
        """Current nodes in the order of their last changes in size, use, victims or reservations."""
        self.sized: Recent[Node] = Recent()
        """Current nodes in the order of their last changes in size, or in being schedulable."""
        self.lacked: set[Packing] = set()
        """Packings for which a node was lacking since this set was last cleared, for the order `auto`."""
        self.refusals_count = False
        """True once slots for gangs were counted: from then on, a refusal by the RM is a change of a node."""

    def add(self, node: Node) -> None:
        """Add a node."""
        self._births += 1
        node.birth = self._births
        self.by_id[node.node_id] = node
        self._holdings.node_added(node.footprint)
        self.total = add(self.total, node.capacity)
        self._largest = None
        self._note_size(node.capacity)
        self.order.add(node)
        self.changed.note(node)
        self.count(node)

    def remove(self, node: Node) -> None:
        """Remove a node; remaining references see it as unschedulable."""
        del self.by_id[node.node_id]
        self._holdings.node_removed(node.footprint)
        node.set_schedulable(schedulable=False)
        self.total = without_zeros(subtract(self.total, node.capacity))
        refund(self.overhang, self._overhangs.pop(node, ()))
        refund(self.usable, self._usable.pop(node, ()))
        self._largest = None
        self.order.remove(node)
        self.changed.forget(node)
        self.sized.forget(node)

    def since(self, births: int) -> list[Node]:
        """Nodes that were added after the first `births` nodes, in order."""
        found = list(takewhile(lambda node: node.birth > births, reversed(self.by_id.values())))
        found.reverse()
        return found

    def resize(self, node: Node, capacity: Resources) -> None:
        """Replace a node's capacity."""
        self.total = without_zeros(add(subtract(self.total, node.capacity), capacity))
        self._largest = None
        self._note_size(capacity)
        self._holdings.memory -= node.footprint
        node.set_capacity(capacity)
        self._holdings.memory += node.footprint
        self.measure(node)
        self.count(node)

    def measure(self, node: Node) -> None:
        """Recompute the overhang of a node, as its capacity or its allocations have changed.

        An ask that fits does not change it. The usable amounts of a closed node change, too.
        """
        if not node.schedulable:
            self.count_usable(node)
        if min(node.available.values(), default=0) < 0 or node in self._overhangs:
            refund(self.overhang, self._overhangs.pop(node, ()))
            beyond = overhang_of(node)
            if beyond:
                self._overhangs[node] = beyond
                charge(self.overhang, beyond)

    def count(self, node: Node) -> None:
        """Count a node that is new, has another size, or was closed or reopened."""
        self.sized.note(node)
        self.count_usable(node)

    def count_usable(self, node: Node) -> None:
        """Count the usable amounts of a node again, as foreign allocations or victims may have changed."""
        refund(self.usable, self._usable.get(node, ()))
        self._usable[node] = usable(node)
        charge(self.usable, self._usable[node])

    def is_too_large(self, items: Items) -> bool:
        """True if, for one of the types, every node is too small even when empty."""
        largest = self._largest_amounts()
        return any(largest.get(name, 0) < value for name, value in items)

    def never_held(self, items: Items) -> bool:
        """True if each node has always been too small even when empty; each may lack another type."""
        sizes = (self.highest,) if self.sizes is None else self.sizes
        return all(any(size.get(name, 0) < value for name, value in items) for size in sizes)

    def closest_size(self, items: Items) -> Resources:
        """The capacity that a node ever had that has to grow by the smallest factor to hold the amounts."""
        return min(self.sizes or (self.highest,), key=lambda size: _growth(size, items))

    def is_large(self, items: Items) -> bool:
        """True if no node has room for two such asks, even when empty."""
        largest = self._largest_amounts()
        return any(largest.get(name, 0) < 2 * value for name, value in items)

    def _note_size(self, capacity: Resources) -> None:
        _raise_to(self.highest, capacity)
        known = self.sizes
        if known is not None and not any(_holds(size, capacity) for size in known):
            largest = [*(size for size in known if not _holds(capacity, size)), dict(capacity)]
            self.sizes = largest if len(largest) <= MOST_SIZES else None

    def _largest_amounts(self) -> dict[str, int]:
        """Largest capacity of a node, by type."""
        largest = self._largest
        if largest is None:
            largest = self._largest = {}
            for node in self.by_id.values():
                _raise_to(largest, node.capacity)
        return largest

    @property
    def made_of(self) -> tuple[int, int]:
        """Version of the set of nodes: the number of nodes ever added, and the current number."""
        return (self._births, len(self.by_id))

    def reorder(self, policy: NodeSortPolicy, packs: Packing | None) -> None:
        """Rebuild the order with another policy; the caller scores all nodes and adds them."""
        self.order = node_order(policy, packs)
