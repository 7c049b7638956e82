"""All supplies of a partition, by wanted amounts, and their pools of nodes."""

from collections.abc import Iterator

from licorne_core.model.nodes.node import Node
from licorne_core.scheduling.waiting.blockers import Blocker
from licorne_core.scheduling.waiting.supply import NodePool, ReservableSupply, Supply
from licorne_core.values.asks import AskClass, Shape
from licorne_core.values.ids import NodeId

_KINDS = (Supply, ReservableSupply)


class Supplies:
    """The supplies in use.

    Supplies of one kind share a pool of nodes; for asks that require a node, those of that node do.
    """

    __slots__ = ("_by_kind", "_free", "_pools", "changed")

    def __init__(self) -> None:
        """Start empty."""
        self._free: dict[AskClass | Shape, Supply] = {}
        self._by_kind: dict[type[Supply], dict[AskClass | Shape, Supply]]
        self._by_kind = {Supply: self._free, ReservableSupply: {}}
        self._pools: dict[tuple[type[Supply], NodeId | None], NodePool] = {}
        self.changed: dict[NodePool, None] = {}
        """Pools with changed nodes; they hear of a node that has taken an ask."""

    def __iter__(self) -> Iterator[Supply]:
        """All of them."""
        for supplies in self._by_kind.values():
            yield from supplies.values()

    def find(self, wanted: AskClass | Shape) -> Supply | None:
        """The supply of nodes that an ask may go to, if there is one."""
        return self._free.get(wanted)

    def get(self, wanted: AskClass | Shape) -> Supply:
        """The same; a new one if there is none."""
        return self._free.get(wanted) or self._add(Supply, wanted)

    def reservable(self, wanted: AskClass | Shape) -> Supply:
        """The supply of nodes that may be reserved; a new one if there is none."""
        supply = self._by_kind[ReservableSupply].get(wanted)
        return supply or self._add(ReservableSupply, wanted)

    def drop(self, wanted: AskClass | Shape) -> list[Supply]:
        """Forget an unused supply; return the dropped supplies."""
        dropped = []
        for supplies in self._by_kind.values():
            supply = supplies.pop(wanted, None) if supplies else None
            if supply is not None:
                dropped.append(supply)
                self._leave_pool(supply)
        return dropped

    def clear(self) -> None:
        """Forget all supplies."""
        for supplies in self._by_kind.values():
            supplies.clear()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self.changed.clear()

    # Changes of nodes

    def improved(self, node: Node) -> list[Blocker]:
        """Note a node that is new or may take more; return the blockers that may open."""
        found: list[Blocker] = []
        for kind in _KINDS:
            for required in (None, node.node_id):
                pool = self._pools.get((kind, required))
                if pool is not None:
                    found += pool.improved(node)
                    if pool.rooms:
                        self.changed[pool] = None
        return found

    def left(self, node: Node) -> None:
        """The node is gone."""
        for pool in self.changed:
            pool.left(node)

    def end_pass(self) -> None:
        """End the pass: no waiting item can use the nodes that have changed so far."""
        for pool in self.changed:
            pool.end_pass()
        self.changed.clear()

    # Pools

    def _add(self, kind: type[Supply], wanted: AskClass | Shape) -> Supply:
        required = wanted.required_node
        pool = self._pools.get((kind, required))
        if pool is None:
            pool = NodePool(kind.amounts, required=required is not None)
            self._pools[kind, required] = pool
        pool.supplies += 1
        supply = self._by_kind[kind][wanted] = kind(wanted, pool)
        return supply

    def _leave_pool(self, supply: Supply) -> None:
        pool = supply.nodes
        pool.supplies -= 1
        if not pool.supplies:
            del self._pools[type(supply), supply.wanted.required_node]
            self.changed.pop(pool, None)
            pool.close()
