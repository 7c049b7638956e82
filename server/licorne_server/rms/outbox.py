"""The outbox of one RM: bounded, in order, and joined into larger messages.

A message on an idle stream is sent immediately. During a write further messages queue, and consecutive
messages of one kind are joined into one. So messages grow with the load.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from time import monotonic
from typing import Final, NamedTuple

from licorne_core.values.counters import Histogram
from licorne_server.process.bounds import OutboxBounds
from licorne_server.telemetry.measures import WAITS
from licorne_server.wire.responses import MAX_RESPONSE_BYTES, MAX_RESPONSE_ITEMS, Kind, Payload

ENTRY_COST = 256
"""Number of bytes added to the size of each message, so that the number of messages is bounded too."""


class Batch(NamedTuple):
    """Messages of one kind that are sent as one message."""

    kind: Kind
    data: bytes
    items: int
    last: int
    """Position in the outbox of the last of the messages."""
    last_check: int = 0
    """Number of the last check in the messages; 0 if there is none."""


class Sent(NamedTuple):
    """A numbered message that was sent, and is not acknowledged yet."""

    number: int
    kind: Kind
    data: bytes
    last_check: int = 0
    """Number of the last check in the message; 0 if there is none."""


_Lane = deque[tuple[int, Payload, float]]
"""The queued messages of one kind, each with its position and the time at which it was added."""

_LANES = {kind: Kind.CHECKS if kind is Kind.VICTIMS else kind for kind in Kind}
"""The lane of each kind. All checks share one lane: they are numbered together and sent in order."""

_CHECKS: Final = Kind.CHECKS


class Outbox:
    """The queued messages, and the sent ones without an acknowledgement.

    Messages of all kinds but checks have one common order. Only a session acknowledges;
    on the streams of `si.v1` a message is removed once it is written.
    """

    forgotten: int
    """Number of the last sent message that was dropped; the RM cannot resume before this message."""
    overflowed: bool
    """True if all messages were dropped: the RM has to register again."""
    room: asyncio.Event
    """Cleared while the backlog is too large to read more requests of the RM."""

    def __init__(
        self,
        on_hold: Callable[[bool], None],
        bounds: OutboxBounds,
        now: Callable[[], float] = monotonic,
        waited: Histogram | None = None,
    ) -> None:
        """`on_hold` is called with True when scheduling for the RM should stop, then with False.

        `waited` records the waiting times of messages, in seconds of `now`.
        """
        self._now = now
        self._waited = waited or Histogram(WAITS)
        self._on_hold = on_hold
        self._bounds = bounds
        # Size in bytes below which an added message exceeds no bound.
        self._much = min(bounds.high, bounds.cap)
        # Position of the last message that was added.
        self._order = 0
        # The queued messages, each with its position.
        self._lanes: dict[Kind, _Lane] = {kind: deque() for kind in _LANES.values()}
        self._sent: deque[Sent] = deque()
        # Bytes of messages that wait; bytes of messages that are not acknowledged.
        self._waiting = 0
        self._unacknowledged = 0
        # The argument of the last call of `on_hold`.
        self._held = False
        # Set when a message of these kinds is added, or by `wake`. Each stream waits for its own kinds, so
        # that writers of other streams are not woken.
        self._filled: dict[Sequence[Kind], asyncio.Event] = {}
        self.forgotten = 0
        self.overflowed = False
        self.room = asyncio.Event()
        self.room.set()

    @property
    def size(self) -> int:
        """Total bytes of messages that wait or are not acknowledged."""
        return self._waiting + self._unacknowledged

    @property
    def messages(self) -> int:
        """Number of messages that wait or are not acknowledged."""
        return sum(map(len, self._lanes.values())) + len(self._sent)

    @property
    def age(self) -> float:
        """Waiting time of the oldest message in seconds; 0 if there is none."""
        oldest = min((lane[0][2] for lane in self._lanes.values() if lane), default=None)
        return 0.0 if oldest is None else max(0.0, self._now() - oldest)

    def put(self, payload: Payload) -> None:
        """Add a message. Above the cap all messages are dropped, and the RM has to register again."""
        if self.overflowed:
            return
        self._order += 1
        self._lanes[_LANES[payload.kind]].append((self._order, payload, self._now()))
        self._waiting += len(payload.data) + ENTRY_COST
        for kinds, filled in self._filled.items():
            if payload.kind in kinds:
                filled.set()
        if self._waiting + self._unacknowledged > self._much:
            self._check_bounds()

    def _check_bounds(self) -> None:
        """Enforce the bounds: read no more requests, drop sent messages, or drop all messages."""
        if self._waiting > self._bounds.high:
            self.room.clear()
        if self.size > self._bounds.cap and self._unacknowledged:
            self._forget_sent()
        if self.size > self._bounds.cap:
            self.clear()
            self.overflowed = True
        self._check_hold()

    def offer(self, payload: Payload) -> bool:
        """Add a message of low importance if there is room; return True if it was added.

        There is room while the outbox is below the low bound, or is empty.
        """
        fits = self.size + len(payload.data) + ENTRY_COST < self._bounds.low
        if fits or not self.size:
            self.put(payload)
            return True
        return False

    async def wait(self, kinds: Sequence[Kind]) -> None:
        """Wait for the next message of any of these kinds, or for `wake`.

        To be called immediately after `peek` has found nothing.
        """
        filled = self._filled.get(kinds)
        if filled is None:
            filled = self._filled[kinds] = asyncio.Event()
        filled.clear()
        await filled.wait()

    def wake(self) -> None:
        """Wake the waiting writers."""
        for filled in self._filled.values():
            filled.set()

    def peek(self, kinds: Sequence[Kind]) -> Batch | None:
        """The next message of any of these kinds, joined with later ones; all remain in the outbox."""
        lane = self._first(kinds) if self._waiting else None
        if lane is None:
            return None
        order, first, _ = lane[0]
        if len(lane) == 1 or first.kind is Kind.SESSION:
            return Batch(first.kind, first.data, first.items, order, first.last_check)
        others = [other for other in self._lanes_of(kinds) if other is not lane]
        stop = min((other[0][0] for other in others), default=self._order + 1)
        parts, size, items = [first.data], len(first.data), first.items
        last_check = first.last_check
        for position, payload, _ in islice(lane, 1, MAX_RESPONSE_ITEMS):
            size += len(payload.data)
            full = items + payload.items > MAX_RESPONSE_ITEMS or size > MAX_RESPONSE_BYTES
            if payload.sort != first.sort or position > stop or full:
                break
            parts.append(payload.data)
            items += payload.items
            order, last_check = position, payload.last_check
        return Batch(first.kind, b"".join(parts), items, order, last_check)

    def sent(self, batch: Batch) -> None:
        """Remove the batch: it was written."""
        lane = self._lanes[_LANES[batch.kind]]
        if lane:
            self._waited.observe(max(0.0, self._now() - lane[0][2]))
        while lane and lane[0][0] <= batch.last:
            self._waiting -= len(lane.popleft()[1].data) + ENTRY_COST
        if self._waiting < self._bounds.low:
            self.room.set()
        if self._held:
            self._check_hold()

    def sending(self, batch: Batch, number: int) -> None:
        """Keep the batch, whose write has begun, under a number until the number is acknowledged."""
        self._sent.append(Sent(number, batch.kind, batch.data, batch.last_check))
        self._unacknowledged += len(batch.data) + ENTRY_COST
        self.sent(batch)

    def acknowledge(self, number: int) -> None:
        """Drop sent messages up to the number: the RM has processed them."""
        self.forgotten = max(self.forgotten, number)
        while self._sent and self._sent[0].number <= number:
            self._unacknowledged -= len(self._sent.popleft().data) + ENTRY_COST
        if self._held:
            self._check_hold()

    def after(self, number: int) -> list[Sent] | None:
        """Messages sent after the number; None if some of them were dropped."""
        if number < self.forgotten or self.overflowed:
            return None
        return [sent for sent in self._sent if sent.number > number]

    def clear(self) -> None:
        """Drop all messages, for example after a new registration."""
        for lane in self._lanes.values():
            lane.clear()
        self._sent.clear()
        self._waiting = self._unacknowledged = 0
        self.forgotten = 0
        self.overflowed = False
        self.room.set()
        self.wake()
        self._check_hold()

    def _first(self, kinds: Sequence[Kind]) -> _Lane | None:
        """The lane of the next message; None if these kinds have no message.

        Checks are last, because the RM answers them better the more other messages it has received.
        """
        first: _Lane | None = None
        for kind in kinds:
            lane = self._lanes.get(kind)
            if lane and kind is not _CHECKS and (first is None or lane[0][0] < first[0][0]):
                first = lane
        if first is None and _CHECKS in kinds:
            first = self._lanes[_CHECKS] or None
        return first

    def _lanes_of(self, kinds: Sequence[Kind]) -> list[_Lane]:
        """The non-empty lanes of these kinds, except the lane of checks."""
        in_order = (kind for kind in kinds if _LANES[kind] is not Kind.CHECKS)
        return [lane for kind in in_order if (lane := self._lanes[kind])]

    def _forget_sent(self) -> None:
        """Drop unacknowledged messages: the RM is still served, but cannot resume after losing its stream."""
        self.forgotten = self._sent[-1].number
        self._sent.clear()
        self._unacknowledged = 0

    def _check_hold(self) -> None:
        if not self._held and self.size > self._bounds.high:
            self._held = True
            self._on_hold(True)
        elif self._held and self.size < self._bounds.low:
            self._held = False
            self._on_hold(False)
