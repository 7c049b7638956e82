"""Packs items into as few requests as order, item counts and message sizes allow.

One message costs gRPC the same whether it carries one ask or a thousand, so calls that
come close together share requests.
"""

from collections import deque
from collections.abc import Iterable

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest

MAX_BYTES = 512 * 1024
"""Payload of one request; servers accept a few MiB, and smaller ones keep their loop fluent."""


class Packer:
    """A queue of requests, of which the last one takes more items while it can.

    Within a request all additions are handled before all removals, so one that has a
    removal takes no more additions: the order of the calls is kept.
    """

    def __init__(self, max_items: int = 1000) -> None:
        """Start empty; `max_items` is the most that one request may carry."""
        self.max_items = max_items
        self.items = 0
        self._requests: deque[UpdateRequest] = deque()
        self._counts: deque[int] = deque()
        self._kind = ""
        self._removing = False
        self._bytes = 0

    def __len__(self) -> int:
        """How many requests there are."""
        return len(self._requests)

    def nodes(self, items: Iterable[si.NodeInfo]) -> None:
        """Add nodes that come, change or go."""
        for item in items:
            self._tail("nodes", item.ByteSize()).nodes.nodes.append(item)

    def new_applications(self, items: Iterable[si.AddApplicationRequest]) -> None:
        """Add applications that come."""
        for item in items:
            tail = self._tail("applications", item.ByteSize())
            tail.applications.new.append(item)

    def removed_applications(self, items: Iterable[si.RemoveApplicationRequest]) -> None:
        """Add applications that go."""
        for item in items:
            tail = self._tail("applications", item.ByteSize(), removal=True)
            tail.applications.remove.append(item)

    def allocations(self, items: Iterable[si.Allocation]) -> None:
        """Add asks and existing allocations."""
        for item in items:
            self._tail("allocations", item.ByteSize()).allocations.allocations.append(item)

    def releases(self, items: Iterable[si.AllocationRelease]) -> None:
        """Add releases."""
        for item in items:
            tail = self._tail("allocations", item.ByteSize(), removal=True)
            tail.allocations.releases.allocationsToRelease.append(item)

    def _tail(self, kind: str, size: int, *, removal: bool = False) -> UpdateRequest:
        """The request that the next item of that kind and size (in bytes) belongs in."""
        fits = (
            self._requests
            and kind == self._kind
            and (removal or not self._removing)
            and self._counts[-1] < self.max_items
            and self._bytes + size <= MAX_BYTES
        )
        if not fits:
            self._requests.append(UpdateRequest())
            self._counts.append(0)
            self._kind = kind
            self._bytes = 0
        self._removing = removal
        self._counts[-1] += 1
        self._bytes += size
        self.items += 1
        return self._requests[-1]

    def take(self) -> UpdateRequest | None:
        """The oldest request, or None."""
        if not self._requests:
            return None
        self.items -= self._counts.popleft()
        return self._requests.popleft()

    def clear(self) -> None:
        """Forget everything."""
        self._requests.clear()
        self._counts.clear()
        self.items = 0
