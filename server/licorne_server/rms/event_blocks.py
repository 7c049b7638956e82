"""Blocks of consecutive facts, and their encoded events, shared by readers of one form.

Most readers of a log want the same events in the same form, at about the same time. So events are
written once for all of them, block by block.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator

from licorne_core.messages.events.records import EventRecord, Fact

LOOK_FACTS = 8
"""Number of facts encoded between two checks for the end of the slice; a check takes as long as encoding one
event."""

LOOK_BYTES = 16 * 1024
"""Number of bytes encoded between two checks: a fact with thousands of resource types has many."""

Encode = Callable[[int, EventRecord], bytes]
"""Turns an event and its id into the bytes that a reader wants."""


class Block:
    """Consecutive facts; the last block of a log may still grow."""

    __slots__ = ("facts", "first_id", "forms", "size", "time")

    def __init__(self, first_id: int) -> None:
        """Start empty; the first event will have the id `first_id`."""
        self.first_id = first_id
        self.facts: list[Fact] = []
        self.time = 0.0
        """Time of the last fact, in unix seconds."""
        self.size = 0
        """Estimated memory of the facts in bytes."""
        self.forms: dict[Encode, Written] = {}
        """Encoded events in each form that is being read."""

    def events(self, start: int, stop: int) -> Iterator[tuple[int, EventRecord]]:
        """The events with ids from `start` up to, but not including, `stop`, each with its id."""
        event_id = self.first_id
        for fact in self.facts:
            if event_id >= stop:
                break
            behind = event_id + fact.count
            if behind > start:
                for record in fact.records():
                    if start <= event_id < stop:
                        yield event_id, record
                    event_id += 1
            event_id = behind


class Written:
    """The events of a block in one form, as far as they are encoded."""

    __slots__ = ("_data", "_ends", "_facts", "_first_id", "_next_fact", "encode")

    def __init__(self, block: Block, encode: Encode) -> None:
        """Start without encoded events."""
        self.encode = encode
        """Encoder of an event."""
        self._first_id = block.first_id
        # The facts of the block; a reference to the block itself would be a cycle.
        self._facts = block.facts
        self._next_fact = 0
        self._data = bytearray()
        # The end of each event in the bytes.
        self._ends: list[int] = []

    def __len__(self) -> int:
        """Number of encoded bytes."""
        return len(self._data)

    def write(self, over: Callable[[], bool]) -> None:
        """Continue until all facts are encoded, or `over` returns True at the end of the slice."""
        facts, encode = self._facts, self.encode
        event_id = self._first_id + len(self._ends)
        parts: list[bytes] = []
        ends: list[int] = []
        asked = end = len(self._data)
        begin = position = self._next_fact
        while position < len(facts):
            for record in facts[position].records():
                part = encode(event_id, record)
                parts.append(part)
                end += len(part)
                ends.append(end)
                event_id += 1
            position += 1
            if (position - begin) % LOOK_FACTS == 0 or end - asked >= LOOK_BYTES:
                asked = end
                if over():
                    break
        self._data += b"".join(parts)
        self._ends += ends
        self._next_fact = position

    def take(self, start: int, count: int, size: int) -> tuple[int, bytes]:
        """Number of encoded events from the id `start` on, and their bytes.

        There are at most `count` events, and no event follows once `size` bytes are reached.
        """
        ends = self._ends
        first = start - self._first_id
        stop = min(first + count, len(ends))
        if first >= stop:
            return 0, b""
        begin = ends[first - 1] if first else 0
        stop = bisect_left(ends, begin + size, first, stop - 1) + 1
        return stop - first, bytes(memoryview(self._data)[begin : ends[stop - 1]])
