"""How much Python does between two pauses of the loop, counted in lines and not in time.

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
        self._piece: Counter[CodeType] = Counter()
        self._ours: dict[CodeType, bool] = {}

    def begin(self) -> None:
        """Others have had their turn."""
        self._piece.clear()

    def end(self) -> None:
        """Others have their turn again."""
        lines = self._piece.total()
        if lines > self.largest:
            self.largest = lines
            self.functions = Counter(
                {
                    f"{Path(code.co_filename).name}:{code.co_name}": n
                    for code, n in self._piece.items()
                }
            )

    def trace(self, frame: FrameType, event: str, _: Any) -> Any:
        """Follow the frames of our own code; see `sys.settrace`."""
        code = frame.f_code
        ours = self._ours.get(code)
        if ours is None:
            ours = self._ours[code] = code.co_filename.startswith(OURS)
        if not ours:
            return None
        return self._count

    def _count(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self._piece[frame.f_code] += 1
            self.lines += 1
        return self._count

    def __str__(self) -> str:
        """``812 lines: nodes.py:node_report 800, lookup.py:node 12``."""
        most = ", ".join(f"{name} {n}" for name, n in self.functions.most_common(5))
        return f"{self.largest} lines: {most}"


def _name(code: CodeType) -> str:
    """``nodes.py:node_report``."""
    return f"{Path(code.co_filename).name}:{code.co_name}"


LINE_SECONDS = 2e-6
"""What a line takes by the clock of slices: it goes by work."""


@contextmanager
def counted_pieces() -> Iterator[Pieces]:
    """Count the pieces of the loop inside the block; our code has to run from its source.

    A slice of the share that readers have ends after so much work, and not after some time.
    """
    pieces = Pieces()
    handles: Any = asyncio.Handle
    run = handles._run

    def counted(handle: asyncio.Handle) -> None:
        pieces.begin()
        run(handle)
        pieces.end()

    before = sys.gettrace()
    handles._run = counted
    patched: Any = fair
    clock = patched.perf_counter
    patched.perf_counter = lambda: pieces.lines * LINE_SECONDS
    sys.settrace(pieces.trace)
    try:
        yield pieces
    finally:
        sys.settrace(before)
        handles._run = run
        patched.perf_counter = clock
