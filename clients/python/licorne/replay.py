"""The requests of one replay, from all items in the cache."""

from collections.abc import Iterator

from licorne import wire
from licorne.cache import Cache, creation
from licorne.packer import Packer
from licorne.v1.session_pb2 import ReplayBegin, ReplayEnd, UpdateRequest


class Replay:
    """A snapshot of the cache, turned into requests one by one.

    The snapshot is taken when the replay is made. Later changes are sent after the replay.
    """

    def __init__(self, cache: Cache) -> None:
        """Take the snapshot."""
        self._nodes = [known.node for known in cache.nodes.values()]
        asks = list(cache.asks.values())
        self._allocations = [known for known in asks if known.node_id]
        self._pending = [known for known in asks if not known.node_id]
        busy = {(known.ask.partition, known.ask.application_id) for known in self._allocations}
        self._applications = [
            (known.application, key in busy) for key, known in cache.applications.items()
        ]

    def requests(self, max_items: int) -> Iterator[UpdateRequest]:
        """The begin; nodes, applications, allocations and asks; the end with their counts.

        No request has more than `max_items` items. Applications that have allocations are forced,
        because the server must not reject what runs.
        """
        yield UpdateRequest(replay_begin=ReplayBegin())
        packer = Packer(max_items)
        for node in self._nodes:
            packer.nodes([wire.node(node, creation(node))])
            yield from _full(packer)
        for application, force in self._applications:
            packer.new_applications([wire.application(application, force=force)])
            yield from _full(packer)
        for known in (*self._allocations, *self._pending):
            packer.allocations([wire.allocation(known.ask, known.node_id, known.asked_at)])
            yield from _full(packer)
        while (request := packer.take()) is not None:
            yield request
        yield UpdateRequest(
            replay_end=ReplayEnd(
                nodes=len(self._nodes),
                applications=len(self._applications),
                allocations=len(self._allocations) + len(self._pending),
            )
        )


def _full(packer: Packer) -> Iterator[UpdateRequest]:
    """All requests but the last, which takes more items."""
    while len(packer) > 1:
        request = packer.take()
        assert request is not None
        yield request
