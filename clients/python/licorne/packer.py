"""Packs items into as few requests as their order, their number and their size allow.

A message costs gRPC the same with one ask or with a thousand. So items of several calls share
requests.
"""

from collections import deque
from collections.abc import Iterable

from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import UpdateRequest

MAX_BYTES = 512 * 1024
"""Bytes of items in one request. Servers accept a few MiB; smaller ones block them for less."""


class Packer:
    """A queue of requests. Items are added to the last request while it has room.

    A request takes no addition after its first removal. The server handles all additions of a
    request before its removals, so this keeps the order of the calls.
    """

    def __init__(self, max_items: int = 1000) -> None:
        """Start empty. No request gets more than `max_items` items."""
        self.max_items = max_items
        """The most items in one request from now on."""
        self.items = 0
        """Items in all requests."""
        self._requests: deque[UpdateRequest] = deque()
        """The requests, oldest first."""
        self._counts: deque[int] = deque()
        """Items in each of the requests."""
        self._kind = ""
        """The field of the last request that its items are in."""
        self._removing = False
        """True if the last request has a removal."""
        self._bytes = 0
        """Bytes of the items in the last request."""

    def __len__(self) -> int:
        """Number of requests."""
        return len(self._requests)

    def nodes(self, items: Iterable[si.NodeInfo]) -> None:
        """Add additions, changes and removals of nodes."""
        for item in items:
            self._tail("nodes", item.ByteSize()).nodes.nodes.append(item)

    def new_applications(self, items: Iterable[si.AddApplicationRequest]) -> None:
        """Add applications to submit."""
        for item in items:
            tail = self._tail("applications", item.ByteSize())
            tail.applications.new.append(item)

    def removed_applications(self, items: Iterable[si.RemoveApplicationRequest]) -> None:
        """Add applications to remove."""
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
        """The request to put the next item in, which is of that kind and has `size` bytes."""
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
        """Take off the oldest request; None if there is none."""
        if not self._requests:
            return None
        self.items -= self._counts.popleft()
        return self._requests.popleft()

    def clear(self) -> None:
        """Drop all requests."""
        self._requests.clear()
        self._counts.clear()
        self.items = 0
