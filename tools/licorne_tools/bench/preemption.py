"""Preemption: asks that others have to make way for, and one that nobody can make way for."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, islice
from time import perf_counter

from licorne.si.v1.si_pb2 import Allocation, TerminationType
from licorne_server.commands.server_process import ServerProcess
from licorne_tools.bench import rivalry, workload
from licorne_tools.bench.driver import BenchError, Rm
from licorne_tools.bench.load import RM, Load, Options, registered, timed
from licorne_tools.bench.progress import Progress
from licorne_tools.bench.replies import Replies
from licorne_tools.bench.scenarios import Scenario

QUIET_RM = "quiet"


async def preempt(server: ServerProcess, scenario: Scenario, options: Options) -> Load:
    """Asks of queues that are below their guarantee, on a cluster that the lender fills."""
    config, nodes = rivalry.full_configuration(scenario), rivalry.full_nodes(scenario)
    async with registered(server, RM, scenario.batch, config, nodes, options.progress) as rm:
        own = workload.applications(scenario)
        await rm.add_applications(chain(rivalry.lender_applications(), own))
        count = rivalry.held(scenario) * scenario.nodes
        await fill(rm, scenario, count, workload.LARGEST)
        claims = Claims(rm, scenario)
        load = await timed(server, claims.press(), scenario.pods, rm.progress)
        return replace(load, extra=claims.figures(len(load.responses)))


async def storm(server: ServerProcess, scenario: Scenario, options: Options) -> Load:
    """The same asks of two RMs; one of them has an ask ahead that preemption cannot help."""
    async with storming(server, scenario, QUIET_RM, options.progress) as rm:
        quiet = await burst(server, rm, scenario, ())
    async with storming(server, scenario, RM, options.progress) as rm:
        load = await burst(server, rm, scenario, rivalry.greedy_ask(scenario))
    before, now = (each.allocations / each.seconds for each in (quiet, load))
    return replace(load, extra={"quiet_per_second": before, "quiet_percent": now / before * 100})


@asynccontextmanager
async def storming(
    server: ServerProcess, scenario: Scenario, rm_id: str, progress: Progress
) -> AsyncIterator[Rm]:
    """An RM whose lender has what it may not lose, and some more."""
    config, nodes = rivalry.storm_configuration(scenario), rivalry.storm_nodes(scenario)
    async with registered(server, rm_id, scenario.batch, config, nodes, progress) as rm:
        greedy = workload.application(rivalry.GREEDY, rivalry.GREEDY)
        own = workload.applications(scenario)
        await rm.add_applications([*rivalry.lender_applications(), greedy, *own])
        await fill(rm, scenario, rivalry.LENT * scenario.nodes, rivalry.room(scenario))
        yield rm


async def fill(rm: Rm, scenario: Scenario, count: int, unit: rivalry.Size) -> None:
    """Have so many allocations of the lender placed."""
    asks = rivalry.lent(count, unit)
    rm.progress.step("filling", of=count)
    await rm.place(workload.requests(rm.rm_id, asks, scenario.batch), count)


async def burst(server: ServerProcess, rm: Rm, scenario: Scenario, ahead: Iterable[Allocation]) -> Load:
    """All asks at once, with some ahead of them that get nothing."""
    messages = workload.requests(rm.rm_id, ahead, scenario.batch)
    messages += workload.requests(rm.rm_id, workload.asks(scenario), scenario.batch)
    return await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)


class Claims:
    """The RM's side of a full cluster: it claims what is guaranteed, and confirms victims at once.

    At most every other node is claimed at a time, so that a search always finds one.
    """

    def __init__(self, rm: Rm, scenario: Scenario) -> None:
        """Nothing is sent yet."""
        self._rm = rm
        self._replies = Replies(rm, scenario.batch)
        self._asks = rivalry.claims(scenario)
        self._at_a_time = max(1, scenario.nodes // 2)
        self._waiting = scenario.pods
        self._seconds = 0.0

    async def press(self) -> list[bytes]:
        """Until every claim is placed; the raw responses."""
        start = perf_counter()
        responses = []
        await self._replies.ask(islice(self._asks, self._at_a_time))
        while self._waiting:
            data, response = await self._rm.read()
            responses.append(data)
            released, why = response.released, TerminationType.PREEMPTED_BY_SCHEDULER
            if released:
                self._seconds = perf_counter() - start
            if await self._replies.confirm(released, why) < len(released):
                raise BenchError("an allocation was stopped that nobody preempts")
            self._waiting -= len(response.new)
            await self._replies.ask(islice(self._asks, len(response.new)))
        return responses

    def figures(self, responses: int) -> dict[str, float]:
        """How many victims were chosen, how fast up to the last one, and the messages."""
        victims = self._replies.confirmations
        return {
            "victims": victims,
            "victims_per_second": victims / self._seconds,
            "requests": self._replies.requests,
            "responses": responses,
        }
