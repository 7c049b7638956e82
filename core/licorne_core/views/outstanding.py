"""How much a cluster is short of: asks that quota would admit and no node takes (spec § 8.12)."""

from collections.abc import Iterable

from licorne_core.asks import Shape
from licorne_core.ids import QueuePath
from licorne_core.outstanding import Outstanding
from licorne_core.reports import OutstandingShape


def outstanding_shapes(found: Iterable[Outstanding]) -> tuple[OutstandingShape, ...]:
    """What was found, by size: the most frequent size first."""
    sizes: dict[Shape, dict[QueuePath, int]] = {}
    for leaf, _, group, count in found:
        queues = sizes.setdefault(group.ask_class.shape, {})
        queues[leaf.path] = queues.get(leaf.path, 0) + count
    ranked = sorted(sizes.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return tuple(
        OutstandingShape(resources=size.resources, count=sum(queues.values()), queues=queues)
        for size, queues in ranked
    )
