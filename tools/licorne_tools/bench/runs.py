"""One run of a scenario: a fresh server, the load, and the cost of both."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from itertools import count
from typing import Any

from licorne.si.v1.si_pb2 import NodeInfo
from licorne.v1.session_pb2 import UpdateResponse
from licorne_core.values.rm_caps import RmCaps
from licorne_server.commands.server_process import ServerProcess, running_server
from licorne_server.commands.settings.tables import KEYS
from licorne_tools.bench import workload
from licorne_tools.bench.ceilings import ECHO, answers_of, bare_server, ceiling, client, echo
from licorne_tools.bench.confirming import gang, held, notice, preempt, storm
from licorne_tools.bench.driver import BenchError, BenchRm, Progress, limited
from licorne_tools.bench.flood import flooded, flooding
from licorne_tools.bench.load import RM, LoadResult, Meter, Options, joined, pending, percentiles, timed
from licorne_tools.bench.scenarios import BARE, Scenario, ScenarioKind, Wire
from licorne_tools.bench.session_rm import SessionRm

MI = 1024 * 1024
RATE = 200.0
# Number of asks before the first counted latency.
WARM_UP = 50
# Minimum number of latencies beside a flood, even if the flood ends earlier.
FEWEST_BESIDE = 10
SETTLE_SECONDS = 1.0
ALONE_ASKS = 600
# Enough asks for 250 s of flood at `RATE`.
MOST_SINGLE_ASKS = 50_000
LIMIT_SECONDS = 600.0


async def run_once(scenario: Scenario, options: Options) -> dict[str, float]:
    """Run a scenario with a fresh server; returns the measures by name, with units.

    Raises BenchError if the server fails, and ServerFailed if it ends early.
    """
    has_ceilings = options.bare and scenario.kind not in BARE
    async with limited(LIMIT_SECONDS, options.idle_seconds):
        options.progress.step("starting the server")
        async with server_of(scenario, options) as server:
            load = await LOADS[scenario.kind](server, scenario, options)
            peak = server.usage().peak_rss
        return {
            **figures(load),
            "peak_rss_mib": peak / MI,
            **(await ceilings(scenario, load, options.progress) if has_ceilings else {}),
            **load.extra,
        }


def server_of(scenario: Scenario, options: Options) -> AbstractAsyncContextManager[ServerProcess]:
    """The server of a run, or an echoing server in its place."""
    if scenario.kind in BARE:
        return bare_server(ECHO, answers_of(scenario))
    return running_server(
        program=options.installation.server(options.profile), variables=raised_caps(scenario)
    )


def raised_caps(scenario: Scenario) -> dict[str, str]:
    """Environment variables that raise the server's limits for an RM to the nodes and asks of a scenario."""
    usual, raised = RmCaps(), {}
    if scenario.nodes > usual.nodes:
        raised[KEYS["bounds.max_nodes"].variable] = str(scenario.nodes)
    is_full = scenario.kind in (ScenarioKind.PREEMPT, ScenarioKind.NOTICE)
    asks = scenario.pods + (held(scenario) * scenario.nodes if is_full else 0)
    if asks > usual.asks:
        raised[KEYS["bounds.max_asks"].variable] = str(asks)
    return raised


def alone(work: Coroutine[Any, Any, dict[str, float]]) -> dict[str, float]:
    """Run a coroutine until its end, without garbage collection in this process."""
    gc.collect()
    gc.disable()
    try:
        return asyncio.run(work)
    finally:
        gc.enable()


def figures(load: LoadResult) -> dict[str, float]:
    """The measures of every load."""
    return {
        "allocations": load.allocations,
        "seconds": load.seconds,
        "allocations_per_second": load.allocations / load.seconds,
        "cpu_us_per_allocation": load.cost.server / load.allocations * 1e6,
        "client_cpu_us_per_allocation": load.cost.client / load.allocations * 1e6,
        "server_core_percent": load.cost.server_core_percent,
        "client_core_percent": load.cost.client_core_percent,
    }


async def ceilings(scenario: Scenario, load: LoadResult, progress: Progress) -> dict[str, float]:
    """The rates of bare servers with the messages of a load."""
    rate = load.allocations / load.seconds
    progress.step("streaming from a bare server")
    most = await ceiling(load.responses)
    found = {"ceiling_per_second": most, "ceiling_percent": rate / most * 100}
    if load.requests:
        progress.step("echoing by a bare server")
        found |= await echo(scenario.wire, load.requests, load.responses, scenario.batch)
        found["echo_percent"] = rate / found["echo_per_second"] * 100
    return found


async def burst(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Measure all asks as fast as possible, from the first send to the last allocation."""
    if scenario.wire is Wire.SESSION:
        return await session_burst(server, scenario, options.progress)
    async with joined(server.target, scenario, progress=options.progress) as rm:
        messages = workload.requests(RM, workload.asks(scenario), scenario.batch)
        load = await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)
        traffic = {"requests": len(messages), "responses": len(load.responses)}
        return replace(load, requests=messages, extra=traffic)


async def session_burst(server: ServerProcess, scenario: Scenario, progress: Progress) -> LoadResult:
    """Send all asks as fast as possible over a session, whose RM may have predicate checks."""
    asking, asked = scenario.asking, scenario.kind is ScenarioKind.ASKED
    refused = workload.refused_nodes(scenario)
    if len(refused) == scenario.nodes:
        raise BenchError(
            f"the RM refuses {asking.refused_percent} % of the nodes: that is all {len(refused)}"
        )
    async with SessionRm(server.target, RM, refused=refused, delay=asking.delay, progress=progress) as rm:
        await rm.open(
            workload.configuration(scenario),
            workload.nodes(scenario),
            workload.applications(scenario),
            batch=scenario.batch,
            asked=asked,
        )
        tags = workload.PREDICATE_CLASS if asked and asking.tagged else None
        messages = workload.session_requests(workload.asks(scenario, tags=tags), scenario.batch)
        load = await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)
        traffic = rm.traffic
    extra: dict[str, float] = {"requests": traffic.requests, "responses": traffic.responses}
    if asked:
        extra["checks"] = traffic.checks
        extra["checks_per_allocation"] = traffic.checks / scenario.pods
        extra["nodes_per_check"] = traffic.nodes_asked / max(1, traffic.checks)
    return replace(
        load,
        responses=[allocations_in(data) for data in load.responses],
        requests=[] if asked else messages,
        extra=extra,
    )


def allocations_in(response: bytes) -> bytes:
    """The AllocationResponse in an UpdateResponse."""
    return UpdateResponse.FromString(response).allocations.SerializeToString()


async def blocked(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Measure all asks behind asks that fit on no node, in the same application and in earlier ones."""
    [(queue, app)] = workload.app_names(scenario)
    own = [workload.application(queue, name) for name in [*workload.ahead_names(), app]]
    async with joined(server.target, scenario, progress=options.progress, applications=own) as rm:
        messages = workload.requests(RM, workload.unplaceable(app), scenario.batch)
        messages += workload.requests(RM, workload.asks(scenario), scenario.batch)
        return await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)


async def latency(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Send single asks at a steady rate; each allocation is released immediately."""
    async with joined(server.target, scenario, progress=options.progress) as rm:
        return await steadily(server, rm, scenario)


async def steadily(server: ServerProcess, rm: BenchRm, scenario: Scenario) -> LoadResult:
    """Send single asks of a connected RM at a steady rate; each allocation is released immediately."""
    asks = list(workload.asks(scenario))
    warm_up = min(WARM_UP, len(asks) // 2)
    rm.progress.step("warming up", of=warm_up)
    await rm.steady(asks[:warm_up], RATE)
    rm.progress.step("asking", of=len(asks) - warm_up)
    meter = Meter(server.pid)
    latencies, responses = await rm.steady(asks[warm_up:], RATE)
    cost = meter.read()
    return LoadResult(
        responses=responses,
        allocations=len(latencies),
        seconds=cost.seconds,
        cost=cost,
        extra=percentiles("latency", latencies),
    )


async def wire(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Send a burst of asks to a server that only echoes them."""
    asks = workload.asks(scenario)
    if scenario.wire is Wire.SESSION:
        messages = workload.session_requests(asks, scenario.batch)
    else:
        messages = workload.requests(RM, asks, scenario.batch)
    async with client(scenario.wire, server.target, scenario.batch, options.progress) as rm:
        await rm.connected()
        load = await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)
        return replace(load, extra={"requests": len(messages), "responses": len(load.responses)})


async def wire_latency(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Send single asks to an echoing server at a steady rate; each is released immediately."""
    async with BenchRm(server.target, RM, scenario.batch, options.progress) as rm:
        await rm.connected()
        return await steadily(server, rm, scenario)


async def idle(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Measure the CPU of an idle server with a full cluster and pending asks."""
    per_node = scenario.pods_per_node
    placed = per_node * scenario.nodes
    nodes = workload.nodes(scenario, full_at=per_node)
    async with joined(server.target, scenario, progress=options.progress, nodes=nodes) as rm:
        both = replace(scenario, asks=placed + scenario.pods)
        asks = workload.asks(both, sizes=(workload.LARGEST,))
        messages = workload.requests(RM, asks, scenario.batch)
        load = await timed(server, rm.place(messages, placed), placed, rm.progress)
        await pending(server, scenario.pods)
        await asyncio.sleep(SETTLE_SECONDS)
        rm.progress.step(f"looking at an idle server for {options.idle_seconds:g} s")
        meter = Meter(server.pid)
        await asyncio.sleep(options.idle_seconds)
        percent = meter.read().server_core_percent
        return replace(load, extra={"waiting": scenario.pods, "idle_cpu_percent": percent})


async def two_rms(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Send single asks of one RM, first alone, then while another RM floods the same server."""
    single = replace(scenario, queues=1, apps=1, asks=MOST_SINGLE_ASKS)
    alone_count = max(FEWEST_BESIDE, min(ALONE_ASKS, scenario.pods))
    async with (
        flooding(server.target, "flood", scenario) as flood,
        joined(server.target, replace(single, asks=1), progress=options.progress) as rm,
    ):
        asks = workload.asks(single)
        rm.progress.step("warming up", of=WARM_UP)
        await rm.one_by_one(asks, RATE, reached(WARM_UP))
        rm.progress.step("asking alone", of=alone_count)
        alone = await rm.one_by_one(asks, RATE, reached(alone_count))
        meter = Meter(server.pid)
        flooding_task = asyncio.create_task(flooded(flood))
        rm.progress.step("asking beside a flood")
        fewest = reached(FEWEST_BESIDE)
        beside = await rm.one_by_one(asks, RATE, lambda: fewest() and flooding_task.done())
        result = await flooding_task
        cost = meter.read()
        cost = replace(cost, client=cost.client + result.cpu)
    quiet, disturbed = percentiles("alone", alone), percentiles("beside", beside)
    slowdown = disturbed["beside_p99_ms"] / quiet["alone_p99_ms"]
    return LoadResult(
        responses=result.responses,
        allocations=result.allocations,
        seconds=result.seconds,
        cost=cost,
        extra={**quiet, **disturbed, "p99_slowdown": slowdown},
    )


async def memory(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Measure memory and placement of asks that wait for drained nodes until the drain ends."""
    drained = workload.nodes(scenario, action=NodeInfo.CREATE_DRAIN)
    async with joined(server.target, scenario, progress=options.progress, nodes=drained) as rm:
        rm.progress.step("making asks wait")
        await rm.send(workload.requests(RM, workload.asks(scenario), scenario.batch))
        await pending(server, scenario.pods)
        waiting = server.usage().rss / MI
        opened = workload.nodes(scenario, action=NodeInfo.DRAIN_TO_SCHEDULABLE)
        await rm.update_nodes(opened)
        placed = rm.placed(scenario.pods)
        return await timed(server, placed, scenario.pods, rm.progress, waiting_rss_mib=waiting)


def reached(number: int) -> Callable[[], bool]:
    """A function that returns False `number` times, then True."""
    asked = count()
    return lambda: next(asked) >= number


LOADS: Mapping[ScenarioKind, Callable[[ServerProcess, Scenario, Options], Awaitable[LoadResult]]] = {
    ScenarioKind.BURST: burst,
    ScenarioKind.BLOCKED: blocked,
    ScenarioKind.LATENCY: latency,
    ScenarioKind.IDLE: idle,
    ScenarioKind.TWO_RMS: two_rms,
    ScenarioKind.MEMORY: memory,
    ScenarioKind.ASKED: burst,
    ScenarioKind.GANG: gang,
    ScenarioKind.PREEMPT: preempt,
    ScenarioKind.NOTICE: notice,
    ScenarioKind.STORM: storm,
    ScenarioKind.WIRE: wire,
    ScenarioKind.WIRE_LATENCY: wire_latency,
}
