"""Latency of one RM's single asks: alone, and beside an attack of somebody else."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import grpc

from licorne.si.v1.si_pb2 import Allocation
from licorne_server.commands.server_process import running_server
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, BenchError, Progress, Rm
from licorne_tools.bench.installation import HERE
from licorne_tools.bench.isolation.attack import attacking
from licorne_tools.bench.isolation.report import waits
from licorne_tools.bench.load import registered
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import Scenario

RM = "neighbour"
RATE = 20.0
NODES = 100
WARM_UP = 20
# More than all that are ever sent: an hour of them.
MOST_ASKS = 100_000
LIMIT_SECONDS = 300.0
"""How long the asks of one phase may take beyond the time in which they are sent."""
LOOPBACK = "127.0.0.1:0"
MOST_RATIO, ENOUGH_P99_MS, MOST_WAIT_MS = 3.0, 25.0, 50.0
"""The target: the 99th percentile beside the attack as a multiple of that alone, and the worst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How to measure beside one attack.

    `seconds` is the time in which asks are sent, alone and then beside; `rate` is asks a second;
    `percent` is the size of the attack, in hundredths of its full counts.
    """

    attack: str
    seconds: float
    nodes: int = NODES
    rate: float = RATE
    percent: int = 100
    profile: Path | None = None
    progress: Progress = UNSEEN

    @property
    def asks(self) -> int:
        """The asks of each of the two phases."""
        return max(2, round(self.seconds * self.rate))


async def beside(options: Beside) -> Run:
    """Measure once, with a fresh server; every number by its name, unit included.

    Raises BenchError when something does not do its part in time, ServerFailed when the server
    ends.
    """
    try:
        options.progress.step("starting the server")
        async with running_server(program=HERE.server(options.profile), http=LOOPBACK) as server:
            shape = Scenario("", "", asks=MOST_ASKS, nodes=options.nodes)
            single = workload.nodes(Scenario("", "", nodes=options.nodes))
            config = workload.configuration(shape)
            async with registered(server, RM, shape.batch, config, single, options.progress) as rm:
                await rm.add_applications(workload.applications(shape))
                asks = workload.asks(shape)
                await phase(rm, asks, options, WARM_UP, "warming up")
                alone = await phase(rm, asks, options, options.asks, "asking alone")
                async with attacking(options.attack, server, options.percent) as attacker:
                    await attacker.begin()
                    disturbed = await phase(rm, asks, options, options.asks, "asking beside it")
                    done = await attacker.end()
    except grpc.aio.AioRpcError as error:
        raise BenchError(f"{error.code().name}: {error.details()}") from None
    found = {**waits("alone", alone), **waits("beside", disturbed)}
    ratio = found["beside_p99_ms"] / found["alone_p99_ms"]
    return {**found, "p99_ratio": ratio, "attack_acts": done.acts, "attack_refused": done.refused}


async def phase(rm: Rm, asks: Iterator[Allocation], options: Beside, number: int, step: str) -> list[float]:
    """The waits of so many asks."""
    rm.progress.step(step, of=number)
    try:
        async with asyncio.timeout(number / options.rate + LIMIT_SECONDS):
            seconds, _ = await rm.steady(islice(asks, number), options.rate)
    except TimeoutError:
        raise BenchError(f"beside {options.attack}: asks wait for more than {LIMIT_SECONDS:.0f} s") from None
    return seconds


def holds(run: Run) -> bool:
    """Whether the target holds: the 99th percentile is within three times that alone or 25 ms."""
    most = max(MOST_RATIO * run["alone_p99_ms"], ENOUGH_P99_MS)
    return run["beside_p99_ms"] <= most and run["beside_worst_ms"] <= MOST_WAIT_MS
