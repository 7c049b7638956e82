"""Latency of single asks: of one RM, of many with as many asks together, and beside a flood."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

import grpc

from licorne.si.v1.si_pb2 import Allocation
from licorne_server.commands.server_process import ServerProcess, running_server
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, BenchError, Progress, Rm
from licorne_tools.bench.flood import flooding
from licorne_tools.bench.installation import HERE
from licorne_tools.bench.isolation.report import waits
from licorne_tools.bench.load import registered
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import SCENARIOS, Scenario

COUNTS = (1, 10, 100, 500)
RATE = 5.0
"""Asks a second of each RM."""
NODES = 4
"""Of each RM."""
WARM_UP = 2
JOINING = 20
"""RMs that are prepared at a time."""
FLOOD_PODS = 100_000
LIMIT_SECONDS = 300.0
# More than one RM ever sends.
MOST_ASKS = 10_000_000
CONFIG = """
partitions:
  - name: default
    queues: [{name: root, submitacl: "*", queues: [{name: q0000}]}]
"""
FEW_RMS, MOST_P99_MS = 100, 10.0
"""Up to so many RMs, the 99th percentile beside a flood."""
MOST_P99_MS_OF_MANY = 250.0
"""With more of them, without a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Many:
    """How to measure so many RMs; `seconds` and `rate` as in `Beside`, the rate of each RM."""

    rms: int
    seconds: float
    rate: float = RATE
    nodes: int = NODES
    percent: int = 100
    profile: Path | None = None
    progress: Progress = UNSEEN

    @property
    def asks(self) -> int:
        """The asks of each RM in each phase."""
        return max(2, round(self.seconds * self.rate))


@dataclass(frozen=True, slots=True)
class Member:
    """One of the RMs, and the asks that it has not sent yet."""

    rm: Rm
    asks: Iterator[Allocation]

    async def trickle(self, number: int, rate: float, after: float = 0.0) -> list[float]:
        """Send so many asks, `rate` a second, and return their waits."""
        await asyncio.sleep(after)
        seconds, _ = await self.rm.steady(islice(self.asks, number), rate)
        return seconds


async def many(options: Many) -> Run:
    """Measure once, with a fresh server; every number by its name, unit included.

    Raises as `neighbour.beside` does.
    """
    total = options.rate * options.rms
    step = options.progress.step
    step("starting the server")
    try:
        async with (
            asyncio.timeout(LIMIT_SECONDS + 3 * options.seconds),
            running_server(program=HERE.server(options.profile)) as server,
            flooding(server.target, "flood", flood_shape(options.percent)) as flood,
            AsyncExitStack() as stack,
        ):
            members = await joined(stack, server, options)
            step("warming up")
            await together(members, WARM_UP, options.rate)
            step("one RM alone asks", of=options.asks * options.rms)
            alone = await members[0].trickle(options.asks * options.rms, total)
            step("all ask", of=options.asks * options.rms)
            apart = await together(members, options.asks, options.rate)
            step("all ask beside a flood", of=options.asks * options.rms)
            flooded = asyncio.create_task(flood.run())
            beside = await together(members, options.asks, options.rate)
            flooded.cancel()
    except TimeoutError:
        raise BenchError(f"{options.rms} RMs: not done after {LIMIT_SECONDS:.0f} s") from None
    except grpc.aio.AioRpcError as error:
        raise BenchError(f"{error.code().name}: {error.details()}") from None
    found = {**waits("one", alone), **waits("many", apart), **waits("flooded", beside)}
    one = found["one_p99_ms"]
    return {
        **found,
        "many_p99_ratio": found["many_p99_ms"] / one,
        "flooded_p99_ratio": found["flooded_p99_ms"] / one,
    }


def flood_shape(percent: int) -> Scenario:
    """What the RM that floods asks for."""
    return SCENARIOS["tworms"].scaled(pods=max(1, FLOOD_PODS * percent // 100))


async def joined(stack: AsyncExitStack, server: ServerProcess, options: Many) -> list[Member]:
    """All RMs, each with a connection, nodes and an application of its own."""
    options.progress.step("RMs join", of=options.rms)
    joining = asyncio.Semaphore(JOINING)
    # Room for the case that one RM sends what all of them send.
    room = Scenario("", "", asks=options.asks * options.rms, nodes=options.nodes)
    shape = replace(room, asks=MOST_ASKS)

    async def join(number: int) -> Member:
        async with joining:
            rm = await stack.enter_async_context(
                registered(server, f"rm-{number:03}", room.batch, CONFIG, workload.nodes(room))
            )
            await rm.add_applications(workload.applications(shape))
            # Until now it would have said what each of them does.
            rm.progress = options.progress
            rm.progress.advance()
            return Member(rm, workload.asks(shape))

    return await asyncio.gather(*map(join, range(options.rms)))


async def together(members: list[Member], number: int, rate: float) -> list[float]:
    """The waits of so many asks of each of them; they begin one after the other."""
    apart = 1 / rate / len(members)
    trickles = (member.trickle(number, rate, apart * i) for i, member in enumerate(members))
    return list(chain.from_iterable(await asyncio.gather(*trickles)))


def holds(rms: int, run: Run) -> bool:
    """Whether the target for so many RMs holds."""
    if rms <= FEW_RMS:
        return run["flooded_p99_ms"] <= MOST_P99_MS
    return run["many_p99_ms"] <= MOST_P99_MS_OF_MANY
