"""Latency of single asks: of one RM during an attack, and of many RMs, without and during a flood."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from typing import Any

from licorne_server.commands.server_process import ServerProcess, cpu_seconds, running_server
from licorne_tools.bench import workload
from licorne_tools.bench.driver import UNSEEN, Progress, limited
from licorne_tools.bench.flood import flooded, flooding
from licorne_tools.bench.installation import HERE
from licorne_tools.bench.isolation.attack import attacking, ended
from licorne_tools.bench.isolation.catalogue import ATTACKS
from licorne_tools.bench.isolation.crowd import CrowdShape, CrowdWaits, joined_crowd
from licorne_tools.bench.load import joined, percentiles
from licorne_tools.bench.report import Run
from licorne_tools.bench.scenarios import SCENARIOS, Scenario

NEIGHBOUR = "neighbour"
LOOPBACK = "127.0.0.1:0"
LIMIT_SECONDS = 300.0
"""Maximum seconds of a phase in addition to the time of sending."""
MOST_ASKS = 100_000
"""More asks than one RM sends in an hour."""
WARM_UP, WARM_UP_OF_MANY = 20, 2
COUNTS = (1, 10, 100, 250, 500)
FLOOD_PODS = 100_000
MOST_RATIO, ENOUGH_P99_MS, MOST_WAIT_MS = 3.0, 25.0, 50.0
"""The target beside an attack: 99th percentile in ms or as a ratio to that without attack; and maximum."""
FEW_RMS, MOST_P99_MS = 100, 10.0
"""The target up to this number of RMs: maximum 99th percentile beside a flood."""
MOST_P99_MS_OF_MANY = 250.0
"""The target for more RMs: maximum 99th percentile without a flood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Settings of a measurement.

    `seconds` is the time of sending in each phase. Each RM has `nodes` nodes, and sends `rate` asks per
    second. `percent` is the size of the attack or flood. `program` runs the RMs of `manyrms`; if it is None,
    they are in this process.
    """

    seconds: float
    rate: float
    nodes: int
    percent: int = 100
    profile: Path | None = None
    program: Path | None = None
    progress: Progress = UNSEEN

    @property
    def asks(self) -> int:
        """Number of asks of each RM in each phase."""
        return max(2, round(self.seconds * self.rate))


@dataclass(frozen=True, slots=True)
class TargetLine:
    """A row of the table: its measurement, and the target for the figures of a run."""

    name: str
    about: str
    setting: Setting
    measure: Callable[[], Coroutine[Any, Any, Run]]
    holds: Callable[[Run], bool]


def attacks(names: Iterable[str], setting: Setting) -> Iterator[TargetLine]:
    """A row for each of the named attacks."""
    for name in names:
        yield TargetLine(name, ATTACKS[name].about, setting, partial(beside, setting, name), holds_beside)


def crowds(counts: Iterable[int], setting: Setting) -> Iterator[TargetLine]:
    """A row for each number of RMs."""
    for rms in counts:
        about = f"{rms} RMs, one RM with as many asks, and a flood beside them"
        yield TargetLine(str(rms), about, setting, partial(many, setting, rms), partial(holds_of_many, rms))


async def beside(setting: Setting, attack: str) -> Run:
    """Measure one RM without and during an attack, with a fresh server; returns the measures by name.

    Raises BenchError for a failure or a timeout, and ServerFailed if the server ends.
    """
    progress = setting.progress

    async def phase(step: str, number: int) -> list[float]:
        progress.step(step, of=number)
        failure = f"beside {attack}: asks wait for more than"
        async with limited(LIMIT_SECONDS, number / setting.rate, failure):
            seconds, _ = await rm.steady(islice(asks, number), setting.rate)
            return seconds

    progress.step("starting the server")
    # There is no limit here, because each phase has its own.
    async with (
        limited(inf),
        running_server(program=HERE.server(setting.profile), http=LOOPBACK) as server,
    ):
        shape = Scenario("", "", asks=MOST_ASKS, nodes=setting.nodes)
        nodes = workload.nodes(replace(shape, asks=1))
        async with joined(server.target, shape, NEIGHBOUR, progress, nodes=nodes) as rm:
            asks = workload.asks(shape)
            await phase("warming up", WARM_UP)
            alone = await phase("asking alone", setting.asks)
            async with attacking(attack, server, setting.percent) as attacker:
                await attacker.begin()
                disturbed = await phase("asking beside it", setting.asks)
                done = await ended(attacker)
    found = {**waits("alone", alone), **waits("beside", disturbed)}
    ratio = found["beside_p99_ms"] / found["alone_p99_ms"]
    return {**found, "p99_ratio": ratio, "attack_acts": done.acts, "attack_refused": done.refused}


async def many(setting: Setting, rms: int) -> Run:
    """Measure one RM, then many RMs with as many asks in total, then the same RMs beside a flood.

    Raises BenchError and ServerFailed like `beside`.
    """
    asks = setting.asks * rms
    step = setting.progress.step
    step("starting the server")
    async with (
        limited(LIMIT_SECONDS, 4 * setting.seconds, f"{rms} RMs: not done after"),
        running_server(program=HERE.server(setting.profile)) as server,
        flooding(server.target, "flood", flood_shape(setting.percent)) as flood,
        # The asks of all RMs must fit on the nodes of one RM, which sends all of them in one phase.
        joined_crowd(
            setting.program,
            server.target,
            CrowdShape(rms=rms, nodes=setting.nodes, room=asks),
            setting.progress,
        ) as crowd,
    ):
        step("warming up")
        await crowd.ask(rms, WARM_UP_OF_MANY, setting.rate)
        step("nobody asks")
        idle = cpu_seconds(server.pid)
        await asyncio.sleep(setting.seconds)
        idle = cpu_seconds(server.pid) - idle
        step("one RM alone asks", of=asks)
        one = await measured("one", server, crowd.ask(1, asks, setting.rate * rms))
        step("all ask", of=asks)
        apart = await measured("many", server, crowd.ask(rms, setting.asks, setting.rate))
        step("all ask beside a flood", of=asks)
        flooding_task = asyncio.create_task(flooded(flood))
        disturbed = await crowd.ask(rms, setting.asks, setting.rate)
        flooding_task.cancel()
    found = {
        **one,
        **apart,
        **waits("flooded", disturbed.waits),
        "idle_percent": idle / setting.seconds * 100,
    }
    ratios = {
        f"{name}_p99_ratio": found[f"{name}_p99_ms"] / found["one_p99_ms"] for name in ("many", "flooded")
    }
    return {**found, **ratios}


async def measured(name: str, server: ServerProcess, asking: Awaitable[CrowdWaits]) -> Run:
    """The waits of a phase, and the CPU of both sides: microseconds per ask, and shares of a core."""
    start, before = time.perf_counter(), cpu_seconds(server.pid)
    asked = await asking
    seconds, cpu = time.perf_counter() - start, cpu_seconds(server.pid) - before
    return {
        **waits(name, asked.waits),
        f"{name}_cpu_us": cpu / len(asked.waits) * 1e6,
        f"{name}_client_cpu_us": asked.cpu / len(asked.waits) * 1e6,
        f"{name}_percent": cpu / seconds * 100,
        f"{name}_client_percent": asked.cpu / seconds * 100,
    }


def flood_shape(percent: int) -> Scenario:
    """The load of the flood: the given percentage of `FLOOD_PODS`."""
    return SCENARIOS["tworms"].scaled(pods=max(1, FLOOD_PODS * percent // 100))


def waits(name: str, seconds: Sequence[float]) -> Run:
    """Percentiles and maximum in milliseconds, and the number of samples."""
    return {**percentiles(name, seconds), f"{name}_worst_ms": max(seconds) * 1000}


def holds_beside(run: Run) -> bool:
    """True if the 99th percentile is at most 25 ms or three times that alone, and no wait exceeds 50 ms."""
    most = max(MOST_RATIO * run["alone_p99_ms"], ENOUGH_P99_MS)
    return run["beside_p99_ms"] <= most and run["beside_worst_ms"] <= MOST_WAIT_MS


def holds_of_many(rms: int, run: Run) -> bool:
    """True if the target for this number of RMs holds."""
    if rms <= FEW_RMS:
        return run["flooded_p99_ms"] <= MOST_P99_MS
    return run["many_p99_ms"] <= MOST_P99_MS_OF_MANY
