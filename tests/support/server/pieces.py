"""How much Python does for a request between two pauses of the loop, in lines and not in time.

A piece is what one callback of the loop does: nobody else has a turn meanwhile.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import licorne_core
import licorne_server
from licorne_server import fair

OURS = tuple(str(Path(package.__file__ or "").parent) for package in (licorne_core, licorne_server))


class Pieces:
    """The largest piece so far: its lines, and which functions these are of."""

    def __init__(self) -> None:
        """Nothing was done yet."""
        self.largest = 0
        self.functions: Counter[str] = Counter()
        self.lines = 0
        """Of all pieces."""
        self._begun = 0
        # The counter of each code that was met, by its identity: its hash takes longer than a line.
        self._counters: dict[int, _Lines | None] = {}
        # Those of this piece, some of them several times.
        self._met: list[_Lines] = []

    def begin(self) -> None:
        """Others have had their turn."""
        self._begun = self.lines
        for counter in self._met:
            counter.number = 0
        self._met.clear()

    def end(self) -> None:
        """Others have their turn again."""
        lines = self.lines - self._begun
        if lines > self.largest:
            self.largest = lines
            self.functions = Counter({counter.name: counter.number for counter in self._met})

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow the frames of our own code; see `sys.settrace`."""
        code = frame.f_code
        try:
            counter = self._counters[id(code)]
        except KeyError:
            ours = code.co_filename.startswith(OURS)
            counter = self._counters[id(code)] = _Lines(self, code) if ours else None
        if counter is None:
            return None
        self._met.append(counter)
        return counter.count

    def __str__(self) -> str:
        """``812 lines: nodes.py:node_report 800, lookup.py:node 12``."""
        most = ", ".join(f"{name} {n}" for name, n in self.functions.most_common(5))
        return f"{self.largest} lines: {most}"


class _Lines:
    """Counts the lines of one function in a piece."""

    __slots__ = ("code", "number", "pieces")

    def __init__(self, pieces: Pieces, code: CodeType) -> None:
        self.pieces = pieces
        self.code = code
        self.number = 0

    @property
    def name(self) -> str:
        """``nodes.py:node_report``."""
        return f"{Path(self.code.co_filename).name}:{self.code.co_name}"

    def count(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.number += 1
            self.pieces.lines += 1
        return self.count


LINE_SECONDS = 2e-6
"""What a line takes by the clock of slices: it goes by work."""


@contextmanager
def counted_pieces(scale: int = 1) -> Iterator[Pieces]:
    """Count the pieces of the request made inside the block; our code has to run from its source.

    Tasks that were there before work for others, and are not counted: a request should come over a
    connection of its own. A slice of the time that readers have ends after so much work of the
    request, and not after some time; after so many times less than in service.
    """
    pieces = Pieces()
    others = asyncio.all_tasks()
    handles: Any = asyncio.Handle
    run = handles._run

    def counted(handle: Any) -> None:
        owner = getattr(handle._callback, "__self__", None)
        if isinstance(owner, asyncio.Task) and owner in others:
            run(handle)
            return
        pieces.begin()
        sys.settrace(pieces.trace)
        try:
            run(handle)
        finally:
            sys.settrace(before)
            pieces.end()

    before = sys.gettrace()
    handles._run = counted
    patched: Any = fair
    clock, owed = patched.perf_counter, patched.TimeSlices._owed
    patched.perf_counter = lambda: pieces.lines * LINE_SECONDS * scale
    # Pauses behind slices are waited for by the clock on the wall.
    patched.TimeSlices._owed = lambda *_, **__: 0.0
    try:
        yield pieces
    finally:
        handles._run = run
        patched.perf_counter, patched.TimeSlices._owed = clock, owed
