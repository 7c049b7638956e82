"""A profile of the process: where its threads are, looked at a hundred times a second.

It is written as `pprof` reads it (the protobuf message `perftools.profiles.Profile`, compressed),
so that the tools that users of the older core have can show it.
"""

import gzip
import sys
import threading
from collections import Counter
from time import monotonic, time_ns

from licorne_server.http.stacks import DEEPEST, Place, called
from licorne_server.wire import delimited, encode_varint

PERIOD = 0.01
"""Seconds between two looks."""

_VARINT = 0
# Fields of Profile, and of the messages in it.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _TEXT = 1, 2, 4, 5, 6
_TIME, _DURATION, _PERIOD_TYPE, _PERIOD = 9, 10, 11, 12

Stack = tuple[Place, ...]


def sampled(seconds: float, stop: threading.Event) -> bytes:
    """The profile of so many seconds, or until `stop` is set; called on a thread of its own.

    A thread that waits is counted as well, as nobody can tell from outside that it does; only this
    thread is left out.
    """
    begun, wall = monotonic(), time_ns()
    me = threading.get_ident()
    seen: Counter[Stack] = Counter()
    over = False
    while not over:
        for ident, frame in sys._current_frames().items():
            if ident != me:
                seen[tuple(called(frame))[:DEEPEST]] += 1
        over = stop.wait(PERIOD) or monotonic() - begun >= seconds
    return gzip.compress(_Profile(seen).encoded(wall, monotonic() - begun))


class _Profile:
    """Gathers texts, functions and places, which samples name by number."""

    def __init__(self, seen: Counter[Stack]) -> None:
        self._seen = seen
        self._texts: dict[str, int] = {"": 0}
        self._functions: dict[tuple[str, str], int] = {}
        self._places: dict[Place, int] = {}

    def encoded(self, wall: int, seconds: float) -> bytes:
        """The message; times are in nanoseconds of the unix clock, or seconds."""
        period = int(PERIOD * 1e9)
        samples = [self._sample(stack, count, period) for stack, count in self._seen.items()]
        types = [self._kind("samples", "count"), self._kind("wall", "nanoseconds")]
        places = [self._location(place, number) for place, number in self._places.items()]
        functions = [self._function(*item) for item in self._functions.items()]
        return b"".join(
            [
                *(delimited(_SAMPLE_TYPE, kind) for kind in types),
                *(delimited(_SAMPLE, sample) for sample in samples),
                *(delimited(_LOCATION, place) for place in places),
                *(delimited(_FUNCTION, function) for function in functions),
                *(delimited(_TEXT, text.encode(errors="replace")) for text in self._texts),
                _number(_TIME, wall),
                _number(_DURATION, int(seconds * 1e9)),
                delimited(_PERIOD_TYPE, types[1]),
                _number(_PERIOD, period),
            ]
        )

    def _sample(self, stack: Stack, count: int, period: int) -> bytes:
        places = b"".join(encode_varint(self._place(place)) for place in stack)
        values = encode_varint(count) + encode_varint(count * period)
        return delimited(1, places) + delimited(2, values)

    def _place(self, place: Place) -> int:
        return self._places.setdefault(place, len(self._places) + 1)

    def _location(self, place: Place, number: int) -> bytes:
        file, line, name = place
        function = self._functions.setdefault((file, name), len(self._functions) + 1)
        return _number(1, number) + delimited(4, _number(1, function) + _number(2, line))

    def _function(self, named: tuple[str, str], number: int) -> bytes:
        file, name = named
        text = self._text(name)
        return b"".join(
            [_number(1, number), _number(2, text), _number(3, text), _number(4, self._text(file))]
        )

    def _kind(self, what: str, unit: str) -> bytes:
        return _number(1, self._text(what)) + _number(2, self._text(unit))

    def _text(self, text: str) -> int:
        return self._texts.setdefault(text, len(self._texts))


def _number(field: int, value: int) -> bytes:
    return encode_varint(field << 3 | _VARINT) + encode_varint(value)
