"""Heat map of all nodes of a partition, made once for all viewers."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

from licorne_core.values.errors import NotFound
from licorne_core.values.ids import NodeId, PartitionName, rm_of
from licorne_core.values.resources import Resources
from licorne_core.views import Views
from licorne_server.fair import TimeSlices
from licorne_server.http.together import Together
from licorne_server.http.ui.pages import Maker
from licorne_server.http.ui.renderings import PEER
from licorne_server.http.ui.rows import heat_row

MAX_HEATS = 16
"""Partitions with a cached heat map, at most."""

MAX_RESOURCES = 8
"""Resources that a heat map shows at most."""

FIRST = ("vcore", "memory")
"""Resources that come before the others."""

_encode = json.JSONEncoder(separators=(",", ":")).encode


class _Heat(NamedTuple):
    """A heat map as JSON, and until when it is fresh."""

    body: bytes
    until: float


class Heats:
    """The heat maps of partitions, each cached for a time by its cost (`Maker.refresh`)."""

    def __init__(self, views: Views, time_slices: TimeSlices) -> None:
        """Make heat maps of these partitions, in time slices."""
        self._views = views
        self._time_slices = time_slices
        self._together = Together[_Heat]()
        self._made: OrderedDict[PartitionName, _Heat] = OrderedDict()

    async def of(self, partition: PartitionName) -> bytes:
        """The heat map of a partition; it is made unless there is a fresh one.

        It takes slices of its own, so that its first caller delays no other.
        """
        made = self._made.get(partition)
        if made is None or made.until <= monotonic():
            made = await self._together.make(partition, partial(self._make, partition))
            self._made[partition] = made
            self._made.move_to_end(partition)
            while len(self._made) > MAX_HEATS:
                self._made.popitem(last=False)
        return made.body

    async def _make(self, partition: PartitionName) -> _Heat:
        maker = Maker(self._time_slices, f"{PEER} of {rm_of(partition)}")
        capacity = await maker.once(lambda: self._views.partition(partition).capacity)
        names = self._views.node_ids_in_order(partition)
        resources = _shown(capacity)
        cells = _Cells(self._views, partition, names, resources)
        await maker.all(cells.go_on)
        head = _encode({"resources": resources, "refresh": maker.refresh})[:-1]
        body = f'{head},"nodes":[{",".join(cells.texts)}]}}'
        return _Heat(body.encode(errors="replace"), monotonic() + maker.refresh / 1000)


class _Cells:
    """The cells of a map as JSON, made node by node."""

    def __init__(
        self,
        views: Views,
        partition: PartitionName,
        names: Iterable[NodeId | None],
        resources: tuple[str, ...],
    ) -> None:
        """Start without a heat map."""
        self.texts: list[str] = []
        self._views = views
        self._partition = partition
        self._names = iter(names)
        self._resources = resources

    def go_on(self, over: Callable[[], bool]) -> bool:
        """Make cells until the slice is over; returns True if there are more."""
        for name in self._names:
            if name is not None:
                with suppress(NotFound):
                    node = self._views.node(self._partition, name, detail=False)
                    self.texts.append(_encode(heat_row(node, self._resources)))
            if over():
                return True
        return False


def _shown(capacity: Resources) -> tuple[str, ...]:
    """The resources that are shown of a partition."""
    first = [name for name in FIRST if name in capacity]
    return (*first, *sorted(capacity.keys() - set(first)))[:MAX_RESOURCES]
