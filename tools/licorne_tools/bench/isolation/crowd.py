"""The RMs of `manyrms`: in a Go program with its own process if Go is installed, otherwise in this process.

RMs in Go use a fraction of the CPU, so that mostly the server is measured.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from licorne.si.v1.si_pb2 import Allocation
from licorne_tools.bench import workload
from licorne_tools.bench.driver import BenchRm, Progress
from licorne_tools.bench.load import joined
from licorne_tools.bench.older_core import MODULE, built, go
from licorne_tools.bench.programs import Program, begun
from licorne_tools.bench.scenarios import Scenario

JOINING = 20
"""Number of RMs that join at the same time."""
# More asks than all RMs send in any run.
MOST_ASKS = 10_000_000
CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: "*", queues: [{name: q0000}]}]
"""
PACKAGE = "./manyrms"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdWaits:
    """The waits of asks, and the CPU time of the process that has sent them, all in seconds."""

    waits: Sequence[float]
    cpu: float


class Crowd(Protocol):
    """RMs that have joined, each with its own connection, nodes and application."""

    async def ask(self, rms: int, number: int, rate: float) -> CrowdWaits:
        """Let the first `rms` RMs send `number` asks each, at `rate` per second; wait for the last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdShape:
    """Number of RMs, number of nodes of each, and number of asks that fit on these nodes."""

    rms: int
    nodes: int
    room: int


@contextmanager
def program() -> Iterator[Path | None]:
    """The Go program of RMs, for the duration of the block; None if Go is not installed.

    Raises:
        BenchError: the program cannot be built.
    """
    command = go()
    if command is None:
        yield None
        return
    with built(command, "build", module=MODULE.parent, package=PACKAGE) as path:
        yield path


@asynccontextmanager
async def joined_crowd(
    path: Path | None, target: str, shape: CrowdShape, progress: Progress
) -> AsyncIterator[Crowd]:
    """All RMs, run by the Go program at `path`, or by this process if it is None."""
    progress.step("RMs join", of=shape.rms)
    if path is not None:
        options = (f"-target={target}", f"-rms={shape.rms}", f"-nodes={shape.nodes}", f"-config={CONFIG}")
        async with begun("the RMs in Go", str(path), *options) as rms:
            yield InGo(rms)
        return
    async with AsyncExitStack() as stack:
        yield InPython(await members_of(stack, target, shape, progress))


@dataclass(frozen=True, slots=True)
class InGo:
    """RMs in the Go program, which reads a line for each phase, and answers with a line."""

    program: Program

    async def ask(self, rms: int, number: int, rate: float) -> CrowdWaits:
        """Let the RMs of the Go program ask (see `Crowd`)."""
        answer = await self.program.answer(json.dumps({"rms": rms, "asks": number, "rate": rate}).encode())
        found = json.loads(answer)
        return CrowdWaits(waits=[wait / 1e6 for wait in found["waits_us"]], cpu=found["cpu"])


@dataclass(frozen=True, slots=True)
class CrowdRm:
    """An RM, and the asks that it has not sent yet."""

    rm: BenchRm
    asks: Iterator[Allocation]

    async def trickle(self, number: int, rate: float, after: float = 0.0) -> list[float]:
        """Send asks at `rate` per second, and return their waits in seconds."""
        await asyncio.sleep(after)
        seconds, _ = await self.rm.steady(islice(self.asks, number), rate)
        return seconds


@dataclass(frozen=True, slots=True)
class InPython:
    """A crowd of RMs in this process."""

    members: Sequence[CrowdRm]

    async def ask(self, rms: int, number: int, rate: float) -> CrowdWaits:
        """Let the RMs ask (see `Crowd`), with evenly staggered starts."""
        apart, before = 1 / rate / rms, time.process_time()
        trickles = (member.trickle(number, rate, apart * i) for i, member in enumerate(self.members[:rms]))
        waits = list(chain.from_iterable(await asyncio.gather(*trickles)))
        return CrowdWaits(waits=waits, cpu=time.process_time() - before)


async def members_of(
    stack: AsyncExitStack, target: str, shape: CrowdShape, progress: Progress
) -> list[CrowdRm]:
    """All RMs of this process, which have joined."""
    joining = asyncio.Semaphore(JOINING)
    room = Scenario("", "", asks=shape.room, nodes=shape.nodes)
    scenario = replace(room, asks=MOST_ASKS)

    async def join(number: int) -> CrowdRm:
        async with joining:
            rm = await stack.enter_async_context(
                joined(target, scenario, f"rm-{number:03}", config=CONFIG, nodes=workload.nodes(room))
            )
            # It is set only now, so that progress does not show the steps of each RM.
            rm.progress = progress
            rm.progress.advance()
            return CrowdRm(rm, workload.asks(scenario))

    return await asyncio.gather(*map(join, range(shape.rms)))
