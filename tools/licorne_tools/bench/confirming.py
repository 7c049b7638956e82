"""Loads in which the RM confirms releases: gangs, and preemption.

Gangs start with placeholders, which real allocations replace. The RM asks for all placeholders at once. When
a gang has all its placeholders, the RM submits the real asks, and confirms each requested stop of a
placeholder at once.

The loads of preemption have asks with victims, or an ask that preemption cannot help. In these loads the
*lender* is a queue above its guarantee. Its allocations may be preempted, and have one size, the *unit*.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import chain, cycle, islice
from time import perf_counter
from typing import Any

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    Allocation,
    NodeInfo,
    PreemptionPolicy,
    TerminationType,
)
from licorne_server.commands.server_process import ServerProcess
from licorne_tools.bench import workload
from licorne_tools.bench.driver import Allocating, BenchError, BenchRm, Progress, Replies, together
from licorne_tools.bench.load import RM, LoadResult, Options, joined, timed
from licorne_tools.bench.scenarios import Scenario
from licorne_tools.bench.session_rm import SessionRm

Size = tuple[int, int]
"""Milli-cores and bytes of memory of an ask."""

LENDER, GREEDY = "lender", "greedy"
LENDER_APPS = 10
# Age from which an ask may preempt others: practically zero.
AT_ONCE = "1ms"
# Number of victims of each claim on a full cluster, and minimum number of allocations on a node.
VICTIMS, FEWEST_HELD = 2, 10
# Longer than any run: each victim is ready earlier.
LONG_NOTICE = "1h"
# Sizes of a storm in units of the lender: use of a node, shortage of the greedy ask, surplus of the lender.
LENT, LACKING, SPARE = 8, 4, 3


def full_configuration(scenario: Scenario, notice: str = "") -> str:
    """A lender without a guarantee, and leaves that are guaranteed all their claims.

    `notice` is the notice period of the lender's victims; empty for none.
    """
    due = times(claim(), scenario.apps * scenario.asks)
    lender = leaf(LENDER)
    if notice:
        lender["properties"]["preemption.notice"] = notice
    return workload.config([lender, *(leaf(name, due) for name in workload.queue_names(scenario))])


def full_nodes(scenario: Scenario) -> Iterator[NodeInfo]:
    """Nodes that the lender fills."""
    return workload.nodes(scenario, full_at=held(scenario))


def held(scenario: Scenario) -> int:
    """Number of the lender's allocations on a full node: twice the victims."""
    return max(FEWEST_HELD, 2 * VICTIMS * scenario.pods_per_node)


def claims(scenario: Scenario) -> Iterator[Allocation]:
    """The asks for which others are preempted."""
    return claiming(workload.asks(scenario, sizes=(claim(),)))


def claim() -> Size:
    """The size of an ask that needs `VICTIMS` victims."""
    return times(workload.LARGEST, VICTIMS)


def storm_configuration(scenario: Scenario) -> str:
    """A lender whose surplus is less than the greedy ask lacks on any node, and the other leaves."""
    kept = times(room(scenario), LENT * scenario.nodes - SPARE)
    leaves = [leaf(LENDER, kept), leaf(GREEDY, greed(scenario))]
    return workload.config([*leaves, *map(leaf, workload.queue_names(scenario))])


def storm_nodes(scenario: Scenario) -> Iterator[NodeInfo]:
    """Nodes that fit the lender's allocations, and twice their share of the asks."""
    capacity = workload.resource(*times(room(scenario), LENT + 1))
    for number in range(scenario.nodes):
        name = workload.node_name(number)
        yield NodeInfo(nodeID=name, action=NodeInfo.CREATE, schedulableResource=capacity)


def room(scenario: Scenario) -> Size:
    """The free resources of each node in a storm, equal to one allocation of the lender."""
    return times(workload.LARGEST, 2 * scenario.pods_per_node)


def greed(scenario: Scenario) -> Size:
    """The size of the greedy ask."""
    return times(room(scenario), LACKING + 1)


def greedy_ask(scenario: Scenario) -> Iterator[Allocation]:
    """The ask that preemption cannot help."""
    ask = Allocation(
        allocationKey=GREEDY,
        applicationID=GREEDY,
        resourcePerAlloc=workload.resource(*greed(scenario)),
    )
    return claiming([ask])


def lender_applications() -> Iterator[AddApplicationRequest]:
    """The applications of the lender."""
    return (workload.application(LENDER, name) for name in lender_names())


def lender_names() -> list[str]:
    """The ids of the lender's applications."""
    return [f"{LENDER}-{number}" for number in range(LENDER_APPS)]


def lent(count: int, unit: Size) -> Iterator[Allocation]:
    """The asks of the lender, whose allocations become victims."""
    size, policy = workload.resource(*unit), PreemptionPolicy(allowPreemptSelf=True)
    for number, app in enumerate(islice(cycle(lender_names()), count)):
        yield Allocation(
            allocationKey=f"{app}-{number:06}",
            applicationID=app,
            resourcePerAlloc=size,
            preemptionPolicy=policy,
        )


def claiming(asks: Iterable[Allocation]) -> Iterator[Allocation]:
    """The asks, with permission to preempt others."""
    for ask in asks:
        ask.preemptionPolicy.allowPreemptOther = True
        yield ask


def leaf(name: str, guaranteed: Size | None = None) -> dict[str, Any]:
    """The configuration of a leaf."""
    made: dict[str, Any] = {"name": name, "properties": {"preemption.delay": AT_ONCE}}
    if guaranteed is not None:
        vcore, memory = guaranteed
        made["resources"] = {"guaranteed": {"vcore": f"{vcore}m", "memory": f"{memory}"}}
    return made


def times(size: Size, number: int) -> Size:
    """The size multiplied by a number."""
    vcore, memory = size
    return vcore * number, memory * number


QUIET_RM = "quiet"


async def preempt(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Asks of queues below their guarantees, on a cluster filled by the lender."""
    async with joined(
        server.target,
        scenario,
        progress=options.progress,
        config=full_configuration(scenario),
        nodes=full_nodes(scenario),
        applications=chain(lender_applications(), workload.applications(scenario)),
    ) as rm:
        count = held(scenario) * scenario.nodes
        await fill(rm, scenario, count, workload.LARGEST)
        claims = Claims(rm, scenario)
        load = await timed(server, claims.press(), scenario.pods, rm.progress)
        return replace(load, extra=claims.figures(len(load.responses)))


async def notice(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Like `preempt`, but over a session: first for an RM without notices, then for an RM with notices."""
    quiet = await claimed(server, scenario, QUIET_RM, "", options.progress)
    load = await claimed(server, scenario, RM, LONG_NOTICE, options.progress)
    rates = [each.allocations / each.seconds for each in (quiet, load)]
    costs = [each.cost.server / each.allocations * 1e6 for each in (quiet, load)]
    more = {
        "quiet_per_second": rates[0],
        "quiet_percent": rates[1] / rates[0] * 100,
        "quiet_cpu_us_per_allocation": costs[0],
        "cpu_percent_of_quiet": costs[1] / costs[0] * 100,
    }
    return replace(load, extra={**load.extra, **more})


async def claimed(
    server: ServerProcess, scenario: Scenario, rm_id: str, notice: str, progress: Progress
) -> LoadResult:
    """Asks of queues below their guarantees, over a session."""
    async with SessionRm(server.target, rm_id, progress=progress) as rm:
        await rm.open(
            full_configuration(scenario, notice),
            full_nodes(scenario),
            chain(lender_applications(), workload.applications(scenario)),
            batch=scenario.batch,
            asked=False,
        )
        count = held(scenario) * scenario.nodes
        progress.step("filling", of=count)
        await rm.place(workload.session_requests(lent(count, workload.LARGEST), scenario.batch), count)
        claims = Claims(rm, scenario)
        load = await timed(server, claims.press(), scenario.pods, progress)
        figures = claims.figures(len(load.responses))
        return replace(load, extra={**figures, "notices": rm.traffic.notices})


async def storm(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Equal asks of two RMs; one RM also has an earlier ask that preemption cannot help."""
    async with storming(server, scenario, QUIET_RM, options.progress) as rm:
        quiet = await burst(server, rm, scenario, ())
    async with storming(server, scenario, RM, options.progress) as rm:
        load = await burst(server, rm, scenario, greedy_ask(scenario))
    before, now = (each.allocations / each.seconds for each in (quiet, load))
    return replace(load, extra={"quiet_per_second": before, "quiet_percent": now / before * 100})


@asynccontextmanager
async def storming(
    server: ServerProcess, scenario: Scenario, rm_id: str, progress: Progress
) -> AsyncIterator[BenchRm]:
    """An RM whose lender uses its guarantee and the surplus."""
    greedy = workload.application(GREEDY, GREEDY)
    async with joined(
        server.target,
        scenario,
        rm_id,
        progress,
        config=storm_configuration(scenario),
        nodes=storm_nodes(scenario),
        applications=[*lender_applications(), greedy, *workload.applications(scenario)],
    ) as rm:
        await fill(rm, scenario, LENT * scenario.nodes, room(scenario))
        yield rm


async def fill(rm: BenchRm, scenario: Scenario, count: int, unit: Size) -> None:
    """Place allocations of the lender."""
    asks = lent(count, unit)
    rm.progress.step("filling", of=count)
    await rm.place(workload.requests(rm.rm_id, asks, scenario.batch), count)


async def burst(
    server: ServerProcess, rm: BenchRm, scenario: Scenario, ahead: Iterable[Allocation]
) -> LoadResult:
    """Measure all asks together, behind the asks `ahead`, which are never placed."""
    messages = workload.requests(rm.rm_id, ahead, scenario.batch)
    messages += workload.requests(rm.rm_id, workload.asks(scenario), scenario.batch)
    return await timed(server, rm.place(messages, scenario.pods), scenario.pods, rm.progress)


class Claims:
    """The RM of a full cluster: it claims its guarantees, and confirms victims immediately.

    At most half of the nodes are claimed at a time, so that a search always finds a node.
    """

    def __init__(self, rm: Allocating, scenario: Scenario) -> None:
        """Start without any message sent."""
        self._rm = rm
        self._replies = Replies(rm, scenario.batch)
        self._asks = claims(scenario)
        self._at_a_time = max(1, scenario.nodes // 2)
        self._waiting = scenario.pods
        self._seconds = 0.0

    async def press(self) -> list[bytes]:
        """Run until every claim is placed; returns the raw responses."""
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
        """Number and rate of victims, time until the last victim was chosen, and numbers of messages."""
        victims = self._replies.confirmations
        return {
            "victims": victims,
            "victims_seconds": self._seconds,
            "victims_per_second": victims / self._seconds,
            "requests": self._replies.requests,
            "responses": responses,
        }


async def gang(server: ServerProcess, scenario: Scenario, options: Options) -> LoadResult:
    """Measure from the first placeholder sent to the last real allocation received.

    Both kinds count as allocations: two for each member. The messages of a member are the ask for a
    placeholder and its allocation, the real ask, the release of the placeholder and its confirmation, and the
    real allocation.
    """
    own = applications(scenario)
    async with joined(server.target, scenario, progress=options.progress, applications=own) as rm:
        gangs = Gangs(rm, scenario)
        load = await timed(server, gangs.come_together(), 2 * scenario.pods, options.progress)
        figures = gangs.figures(len(load.responses))
        return replace(load, extra={**figures, "members_per_second": scenario.pods / load.seconds})


def applications(scenario: Scenario) -> Iterator[AddApplicationRequest]:
    """The applications of the scenario, each with the total size of its placeholders."""
    vcore, memory = map(sum, zip(*(size(number) for number in range(scenario.asks)), strict=True))
    for application in workload.applications(scenario):
        application.placeholderAsk.CopyFrom(workload.resource(vcore, memory))
        yield application


def size(number: int) -> tuple[int, int]:
    """The size of the member with this number; members of a task group have the same size."""
    return workload.SIZES[number % len(workload.SIZES)]


def members(scenario: Scenario, app: str, *, placeholder: bool) -> Iterator[Allocation]:
    """The placeholders of a gang, or the real asks that replace them."""
    kind = "placeholder" if placeholder else "real"
    for number in range(scenario.asks):
        yield Allocation(
            allocationKey=f"{app}-{kind}-{number:06}",
            applicationID=app,
            resourcePerAlloc=workload.resource(*size(number)),
            taskGroupName=f"group-{number % len(workload.SIZES)}",
            placeholder=placeholder,
        )


class Gangs:
    """The RM of all gangs."""

    def __init__(self, rm: BenchRm, scenario: Scenario) -> None:
        """Create all asks in advance, so that sending them is cheap."""
        apps = [name for _, name in workload.app_names(scenario)]
        placeholders = [m for app in apps for m in members(scenario, app, placeholder=True)]
        self._rm = rm
        self._replies = Replies(rm, scenario.batch)
        self._messages = workload.requests(rm.rm_id, placeholders, scenario.batch)
        self._real = {app: [*members(scenario, app, placeholder=False)] for app in apps}
        self._missing = dict.fromkeys(apps, scenario.asks)
        self._waiting = scenario.pods

    async def come_together(self) -> list[bytes]:
        """Run until all real asks are placed; returns the raw responses."""
        return await together(self._rm.send(self._messages), self._play())

    async def _play(self) -> list[bytes]:
        responses = []
        while self._waiting:
            data, response = await self._rm.read()
            responses.append(data)
            await self._replies.ask(self._hear(response.new))
            released = response.released
            confirmed = await self._replies.confirm(released, TerminationType.PLACEHOLDER_REPLACED)
            if confirmed < len(released):
                raise BenchError("a placeholder was stopped that nobody replaces")
        return responses

    def _hear(self, placed: Iterable[Allocation]) -> list[Allocation]:
        """The real asks of all gangs whose placeholders are now complete."""
        due: list[Allocation] = []
        for allocation in placed:
            if not allocation.placeholder:
                self._waiting -= 1
                continue
            app = allocation.applicationID
            self._missing[app] -= 1
            if not self._missing[app]:
                due += self._real[app]
        return due

    def figures(self, responses: int) -> dict[str, float]:
        """Numbers of gangs, confirmations and messages."""
        return {
            "gangs": len(self._real),
            "confirmations": self._replies.confirmations,
            "requests": len(self._messages) + self._replies.requests,
            "responses": responses,
        }
