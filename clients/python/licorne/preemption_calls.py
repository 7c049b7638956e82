"""A resource manager's messages about preemption: answers to notices, and checkpoints."""

import dataclasses
import math

from licorne import wire
from licorne.client_context import ClientContext
from licorne.fields import identifier
from licorne.outgoing import Packer
from licorne.tags import CHECKPOINT_TAG, MOMENT
from licorne.v1 import session_pb2 as pb
from licorne.values import seconds, whole

MAX_AFTER = 1_000_000.0
"""Longest delay that a caller may request, in seconds."""


class PreemptionCalls:
    """Methods for notices of preemption and for checkpoints: the class of `Client.preemption`.

    Every method raises the error that has ended the client, if any, and ValueError for a time out of range.
    """

    def __init__(self, context: ClientContext) -> None:
        """Send messages for the client of this context."""
        self._context = context

    async def ready(self, key: str, *, after: float = 0.0) -> None:
        """Answer a `PreemptionNotice`: the allocation may be stopped now, or in `after` seconds.

        The server accepts one delay for each notice, up to its deadline. Without an answer the allocation is
        stopped at the deadline. Keys without a notice are ignored.
        """
        if problem := seconds("after", after, 0.0, MAX_AFTER):
            raise ValueError(problem)
        known = self._context.cache.asks.get(identifier("key", key))
        if known is None:
            self._context.check()
            return
        answer = pb.NoticeAnswer(
            partition_name=known.ask.partition,
            application_id=known.ask.application_id,
            allocation_key=key,
            later_milliseconds=math.ceil(after * 1000),
        )
        await self._context.send(Packer.notice_answers, [answer])

    async def checkpoint(self, key: str, time: int) -> None:
        """Report the time up to which the work of a running allocation is saved, in unix seconds.

        Preemption compares the work that would be lost (`preemption.victim.order: cost`), and limits it
        (`preemption.loss.limit`). Keys without an allocation are ignored.
        """
        if problem := whole(MOMENT, "time", time):
            raise ValueError(problem)
        asks = self._context.cache.asks
        known = asks.get(identifier("key", key))
        if known is None or not known.node_id:
            self._context.check()
            return
        ask = dataclasses.replace(known.ask, tags={**known.ask.tags, CHECKPOINT_TAG: str(time)})
        asks[key] = known._replace(ask=ask)
        await self._context.send(Packer.allocations, [wire.allocation(ask, known.node_id)])
