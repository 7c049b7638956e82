"""The bounded queue of unsent requests, and the time window in which items are joined into requests."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from math import inf
from typing import TypeVar

from licorne import wire
from licorne.cache import Cache, creation
from licorne.si.v1 import si_pb2 as si
from licorne.v1.session_pb2 import (
    NoticeAnswer,
    PredicateAnswer,
    PredicateAnswers,
    PreemptionAnswer,
    PreemptionAnswers,
    ReplayBegin,
    ReplayEnd,
    StateDump,
    UpdateRequest,
)

MAX_BYTES = 512 * 1024
"""Maximum bytes of items joined into one request. Servers accept a few MiB; smaller requests block less."""


class Packer:
    """A queue of requests. Items join the last request as long as their order is preserved.

    An item joins the last request if that is not full and has items of the same kind. But an addition does
    not join a request with removals, because the server handles the additions of a request first. All other
    items begin a new request. No item joins an earlier request, so none overtakes another.
    `clients/conformance/joining.json` has cases for all languages.
    """

    def __init__(self, max_items: int = 1000) -> None:
        """Start empty; a request has at most `max_items` items."""
        self.max_items = max_items
        """Maximum number of items in one request; a change affects only later additions."""
        self.items = 0
        """Number of items in all requests."""
        self._requests: deque[UpdateRequest] = deque()
        """The requests, the oldest first."""
        self._counts: deque[int] = deque()
        """Number of items in each request."""
        self._kind = ""
        """Name of the field for the items of the last request."""
        self._removing = False
        """True if the last request has removals."""
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
        """Add removals of applications."""
        for item in items:
            tail = self._tail("applications", item.ByteSize(), removal=True)
            tail.applications.remove.append(item)

    def allocations(self, items: Iterable[si.Allocation]) -> None:
        """Add asks and existing allocations."""
        for item in items:
            self._tail("allocations", item.ByteSize()).allocations.allocations.append(item)

    def releases(self, items: Iterable[si.AllocationRelease]) -> None:
        """Add releases of allocations and cancellations of asks."""
        for item in items:
            tail = self._tail("allocations", item.ByteSize(), removal=True)
            tail.allocations.releases.allocationsToRelease.append(item)

    def notice_answers(self, items: Iterable[NoticeAnswer]) -> None:
        """Add answers to preemption notices, behind checkpoints that were reported earlier."""
        for item in items:
            self._tail("notice_answers", item.ByteSize()).notice_answers.answers.append(item)

    def _tail(self, kind: str, size: int, *, removal: bool = False) -> UpdateRequest:
        """The last request, or a new one, for an item of this kind with `size` bytes."""
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

    @property
    def takes_more(self) -> bool:
        """True if there is only one request, and it is not full."""
        return len(self._requests) == 1 and self._counts[0] < self.max_items and self._bytes < MAX_BYTES

    def take(self) -> UpdateRequest | None:
        """Remove the oldest request and return it; None if there is none."""
        if not self._requests:
            return None
        self.items -= self._counts.popleft()
        return self._requests.popleft()

    def clear(self) -> None:
        """Drop all requests."""
        self._requests.clear()
        self._counts.clear()
        self.items = 0


MAX_JOIN_WINDOW = 0.002
"""Maximum window in seconds: short compared with the deadline of a predicate check."""

BUSY = 8
"""Number of items in one request, or of unprocessed requests, from which a window begins. An RM that waits
for each answer before its next ask never reaches it.
"""


class JoinWindow:
    """Delays requests by a window while the server has a backlog.

    Without load there is no window, so single asks are sent immediately. All times are seconds of one
    monotonic clock.
    """

    def __init__(self, seconds: float) -> None:
        """Begin without load. With 0 seconds no request waits."""
        self._seconds = seconds
        self._until = -inf

    def sent(self, items: int, unprocessed: int, now: float) -> None:
        """Record that a request of `items` items is sent now, after `unprocessed` earlier ones."""
        is_busy = items >= BUSY or unprocessed >= BUSY
        self._until = now + self._seconds if is_busy else -inf

    def left(self, now: float) -> float:
        """Seconds for which the next request should wait for more items; 0 to send it now."""
        return max(0.0, self._until - now)


A = TypeVar("A")

MAX_ANSWERS = 1000
"""Maximum number of answers in one request."""


class Outgoing:
    """The unsent requests of the session.

    The queue is closed while there is no session, because the next session begins with a replay of the whole
    state. It is open, even without a stream, while the session can be resumed.
    """

    def __init__(self, limit: int, join_window: float) -> None:
        """Queue about `limit` items, and join those added within `join_window` seconds."""
        self._window = JoinWindow(join_window)
        self._holds = False
        """True while the writer waits for the end of the window with one queued request."""
        self.packer = Packer()
        """The requests with the caller's items."""
        self._answers: deque[PredicateAnswer] = deque()
        """The answers to predicate checks, which are sent before everything else."""
        self._victims: deque[PreemptionAnswer] = deque()
        """The answers to preemption checks, which are sent after answers to predicate checks."""
        self._dump: StateDump | None = None
        """The answer to a request for a state dump; a newer answer replaces it."""
        self._limit = limit
        self.is_open = False
        """True if there is a session for which requests are queued."""
        self.streaming = False
        """True if the session has an open stream."""
        self._room = asyncio.Event()
        """Cleared while a caller waits until the queue is below its limit."""
        self._room.set()

    def open(self, max_items: int) -> None:
        """Open the queue for a stream that accepts `max_items` items in a request."""
        self.packer.max_items = max_items
        self.is_open = self.streaming = True

    def pause(self, *, resumable: bool) -> None:
        """Record the loss of the stream; close the queue unless the session can be resumed."""
        self.streaming = False
        self._room.set()
        if not resumable:
            self.close()

    def close(self) -> None:
        """Close the queue and drop its content, because the session has ended."""
        self.clear()
        self.is_open = self.streaming = False
        self._room.set()

    def clear(self) -> None:
        """Drop all queued requests, answers and the dump."""
        self.packer.clear()
        self._answers.clear()
        self._victims.clear()
        self._dump = None

    @property
    def is_empty(self) -> bool:
        """True if nothing is queued."""
        return not (self.packer or self._answers or self._victims or self._dump)

    def answer(self, answer: PredicateAnswer | PreemptionAnswer) -> None:
        """Queue an answer behind others of its kind, but before all items: the server waits for it."""
        if isinstance(answer, PredicateAnswer):
            self._answers.append(answer)
        else:
            self._victims.append(answer)

    def dump(self, dump: StateDump) -> None:
        """Queue a requested state dump, which is sent after all answers and before all items."""
        self._dump = dump

    def hold(self, now: float) -> float:
        """Seconds for which the writer holds the only queued request for more items; 0 to send it now."""
        left = self._window.left(now)
        self._holds = left > 0 and self._may_wait
        return left if self._holds else 0.0

    @property
    def is_held(self) -> bool:
        """True if queued items need not wake the writer, which waits for the end of its window."""
        return self._holds and self._may_wait

    @property
    def _may_wait(self) -> bool:
        """True unless a request has to be sent now.

        A request is sent now if it is full, if another request is behind it, or if a caller waits for the
        queue to shrink. Answers and dumps never wait.
        """
        return (
            self.packer.takes_more
            and self.packer.items < self._limit
            and not (self._answers or self._victims or self._dump)
        )

    def next(self, now: float, unprocessed: int) -> UpdateRequest | None:
        """Remove and return the request to send after `unprocessed` earlier ones; None if there is none."""
        if self._answers:
            answers = PredicateAnswers(answers=_first(self._answers))
            return UpdateRequest(predicate_answers=answers)
        if self._victims:
            victims = PreemptionAnswers(answers=_first(self._victims))
            return UpdateRequest(preemption_answers=victims)
        if self._dump is not None:
            dump, self._dump = self._dump, None
            return UpdateRequest(state_dump=dump)
        queued = self.packer.items
        request = self.packer.take()
        if request is not None:
            self._window.sent(queued - self.packer.items, unprocessed, now)
        if self.packer.items < self._limit:
            self._room.set()
        return request

    async def room(self) -> bool:
        """Wait until the queue is below its limit. Returns False if there is no stream to send requests."""
        if self.packer.items < self._limit:
            return True
        if not self.streaming:
            return False
        self._room.clear()
        await self._room.wait()
        return True


def _first(waiting: deque[A]) -> list[A]:
    """Remove and return as many answers as fit into one request."""
    return [waiting.popleft() for _ in range(min(len(waiting), MAX_ANSWERS))]


class Replay:
    """A snapshot of the cache, converted to requests one by one.

    The snapshot is taken when the replay is created. Later changes are sent after the replay.
    """

    def __init__(self, cache: Cache) -> None:
        """Take the snapshot of the cache."""
        self._nodes = [known.node for known in cache.nodes.values()]
        asks = list(cache.asks.values())
        self._allocations = [known for known in asks if known.node_id]
        self._pending = [known for known in asks if not known.node_id]
        busy = {(known.ask.partition, known.ask.application_id) for known in self._allocations}
        self._applications = [(known.application, key in busy) for key, known in cache.applications.items()]

    def requests(self, max_items: int) -> Iterator[UpdateRequest]:
        """The requests: a begin; nodes, applications, allocations and asks; an end with their counts.

        No request has more than `max_items` items. Applications with allocations are forced, because the
        server must not reject running work.
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
    """Take all requests except the last one, which may accept more items."""
    while len(packer) > 1:
        request = packer.take()
        assert request is not None
        yield request
