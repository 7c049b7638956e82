"""Pieces of work in the server's loop, counted in lines of Python, and a server with much data of every kind.

A piece is the work of one callback of the loop, during which no other task runs. The server has, at a small
scale, the data for which the bounds of readers are meant.
"""

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import licorne_core
import licorne_server
from licorne_core.config import submitted
from licorne_core.messages.commands import Command, RegisterRm
from licorne_core.values.asks import Ask
from licorne_core.values.ids import RmId
from licorne_server.assembly.server import Server
from licorne_server.process import fair
from support.core.builders import app, apps, ask, asks, node, nodes, register, reload, remove_apps
from support.peers.shim import eventually

OURS = tuple(str(Path(package.__file__ or "").parent) for package in (licorne_core, licorne_server))


class Pieces:
    """The largest piece so far: its number of lines, and its functions."""

    def __init__(self) -> None:
        """Start with nothing counted."""
        self.largest = 0
        self.functions: Counter[str] = Counter()
        self.lines = 0
        """The number of lines of all pieces."""
        self._begun = 0
        # The counter of each code object by its identity, because hashing code takes longer than a line.
        self._counters: dict[int, _Lines | None] = {}
        # The counters of this piece, some of them repeated.
        self._met: list[_Lines] = []

    def begin(self) -> None:
        """Start a piece."""
        self._begun = self.lines
        for counter in self._met:
            counter.number = 0
        self._met.clear()

    def end(self) -> None:
        """End a piece, and note it if it is the largest."""
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
"""The seconds of a line by the clock of slices, which counts lines."""


@contextmanager
def counted_pieces(scale: int = 1) -> Iterator[Pieces]:
    """Count the pieces of the request made inside the block; our code has to run from its source.

    Tasks that exist already work for other requests, and are not counted: the request needs a connection of
    its own. A time slice of readers is measured in lines and not by the clock, and is `scale` times shorter
    than in service.
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
    # Pauses after slices would wait for the wall clock.
    patched.TimeSlices._owed = lambda *_, **__: 0.0
    try:
        yield pieces
    finally:
        handles._run = run
        patched.perf_counter, patched.TimeSlices._owed = clock, owed


USER, GROUP = "ann", "staff"
BIG = 10**12
LEVELS = "properties: {topology.levels: rack}"
TOGETHER = {"licorne/topology": "preferred=rack"}
PARTITIONS = 50
"""The number of partitions of each RM that has several; `n // PARTITIONS` RMs have several."""


def _commands(first: int, n: int) -> Iterator[Command]:
    """An RM with `n` queues, nodes, applications, asks and allocations, and other objects.

    The `first` ones of each kind exist already.
    """
    names = ", ".join(f"u{number}" for number in range(n))
    queues = ", ".join(["{name: one}", *(f"{{name: q{number}}}" for number in range(n))])
    many = f"{{limit: many, users: [{names}], groups: [{GROUP}], maxapplications: 1000000}}"
    config = (
        "partitions:\n"
        "  - name: default\n"
        "    placementrules: [{name: provided, create: true}]\n"
        "    queues:\n"
        f"      - {{name: root, submitacl: '*', limits: [{many}], queues: [{queues}], {LEVELS}}}\n"
    )
    extra = {f"key{number}": "value" for number in range(n)}
    new = range(first, n)
    if first:
        yield reload(config, extra=extra)
    else:
        yield register(config, extra=extra)
        yield nodes(node("big", vcore=BIG))
        yield apps(app("one", "root.one", user=USER, groups=[GROUP]))
        yield apps(app("gang", "root.one", user=USER, groups=[GROUP], tags=TOGETHER, gang={"vcore": BIG}))
        yield asks(ask("one", "beside", vcore=1, gpu=1))
    yield nodes(*(node(f"n{n}", vcore=11, gpu=1, attributes={"rack": f"r{n}"}) for n in new))
    yield nodes(*(node(f"lost{number}", partition="nowhere", vcore=10) for number in new))
    yield apps(*(app(f"a{number}", f"root.q{number}", user=USER, groups=[GROUP]) for number in new))
    yield apps(*(app(f"o{number}", "root.one", user=f"v{number}") for number in new))
    yield apps(*(app(f"r{number}", "root.one.below", user=USER) for number in new))
    yield apps(*(app(f"e{number}", "root.one", user=USER) for number in new))
    yield remove_apps(*(f"e{number}" for number in new))
    yield asks(
        *(ask("one", f"on{number}", vcore=1, on_node="big") for number in new),
        *(ask("one", f"fill{number}", vcore=10, on_node=f"n{number}") for number in new),
        *(ask("gang", f"p{n}", vcore=1, on_node="big", group="g", placeholder=True) for n in new),
        *(_foreign(number) for number in new),
        *(ask("one", f"at{number}", vcore=5, required_node=f"n{number}") for number in new),
        *(ask("one", f"shared{number}", vcore=5, required_node="n0") for number in new),
        *(ask(f"a{number}", "own", vcore=5, required_node=f"n{number}") for number in new),
        *(ask("one", f"like{number}", vcore=2 * BIG) for number in new),
        *(ask("one", f"size{number}", vcore=2 * BIG + 1 + number) for number in new),
    )


def _others(first: int, n: int, rms: int) -> Iterator[Command]:
    """`rms` RMs with log levels, some of which have empty partitions."""
    partitions = "".join(
        f"  - name: p{number}\n    queues: [{{name: root, submitacl: '*'}}]\n" for number in range(PARTITIONS)
    )
    many = submitted(f"partitions:\n{partitions}")
    one = submitted("partitions:\n  - name: default\n    queues: [{name: root}]\n")
    for number in range(first // PARTITIONS, rms if not first else n // PARTITIONS):
        yield RegisterRm(
            rm_id=RmId(f"x{number}"),
            config=many if number < n // PARTITIONS else one,
            extra_config={f"log.core.{part}.level": "DEBUG" for part in ("engine", "rms")},
        )


def _foreign(number: int) -> Ask:
    """A foreign allocation on the big node."""
    return replace(ask("", f"f{number}", on_node="big", vcore=1), tags={"foreign": "static"})


async def fill(server: Server, n: int, rms: int, *, first: int = 0) -> None:
    """Raise the number of each kind of object from `first` to `n`, and add other RMs.

    The clock should stand still.
    """
    for command in (*_commands(first, n), *_others(first, n, rms)):
        await server.engine.submit(command)
    await eventually(lambda: not server.engine.busy)
