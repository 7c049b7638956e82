"""How much a cluster is short of: asks that quota would admit and no node takes (spec § 8.12)."""

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from licorne_core.asks import Shape
from licorne_core.ids import QueuePath
from licorne_core.outstanding import Outstanding
from licorne_core.reports import OutstandingShape

_RUN = 1_000
"""Sizes that are sorted in one go."""

_Size = tuple[int, Shape, dict[QueuePath, int]]
"""A size: minus how many asks are of it, its amounts, and how many are in each queue."""


def outstanding_shapes(found: Iterable[Outstanding]) -> Iterator[OutstandingShape | None]:
    """What was found, by size: the most frequent size first.

    There is a None wherever the reader may pause.
    """
    sizes: dict[Shape, dict[QueuePath, int]] = {}
    for leaf, _, group, count in found:
        if count:
            queues = sizes.setdefault(group.ask_class.shape, {})
            queues[leaf.path] = queues.get(leaf.path, 0) + count
        yield None
    runs: list[list[_Size]] = []
    items = iter(sizes.items())
    while run := [(-sum(queues.values()), size, queues) for size, queues in islice(items, _RUN)]:
        runs.append(sorted(run, key=_rank))
        yield None
    for negative, size, queues in merge(*runs, key=_rank):
        yield OutstandingShape(resources=size.resources, count=-negative, queues=queues)


def _rank(size: _Size) -> tuple[int, Shape]:
    return size[:2]
