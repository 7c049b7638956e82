"""Attacks with asks, nodes, applications and configurations."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    Allocation,
    AllocationRequest,
    ApplicationRequest,
    NodeInfo,
    RegisterResourceManagerRequest,
    RemoveApplicationRequest,
)
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne.v1.admin_pb2 import UpdateConfigurationRequest, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_core.values.tags import RUNTIME
from licorne_server.wire.requests import NODE_PARTITION
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, BenchRm, put, taken
from licorne_tools.bench.isolation.attack import (
    BATCH,
    RM,
    Act,
    Site,
    asking,
    attacker,
    called,
    churn,
    numbers,
    wanted,
)
from licorne_tools.bench.load import joined
from licorne_tools.bench.scenarios import Scenario

FLOOD_APPS, FLOOD_ASKS = 100, 2000
ROUNDS = 2000
PARTITIONS, PARTITION_ASKS, PARTITION_ROUNDS = 800, 20, 100
PLANNED_NODES, RUNNING_OF_A_NODE, PLANNED = 5000, 2, 2000
PLANNED_ROUNDS, CHURNED, CHURN_SECONDS = 10_000, 10, 0.01
SIZES = 20_000
TAGGED, TAGGED_BATCH, TAGS = 200_000, 200, 20


@asynccontextmanager
async def flood(site: Site) -> AsyncIterator[Act]:
    """200,000 asks as fast as possible; all are placed and retained."""
    shape = Scenario("", "", apps=site.part(FLOOD_APPS), asks=site.part(FLOOD_ASKS), nodes=1000)
    async with attacker(site, shape) as rm:
        messages = workload.requests(RM, workload.asks(shape), BATCH)

        async def act() -> None:
            await asyncio.gather(rm.send(messages), received(site, rm, shape.pods))

        yield act


async def received(site: Site, rm: BenchRm, expected: int) -> None:
    """Count allocations until all asks are placed."""
    while site.acts < expected:
        _, response = await rm.read()
        site.acts += len(response.new)


@asynccontextmanager
async def releases(site: Site) -> AsyncIterator[Act]:
    """A thousand asks, released as soon as they are placed, repeatedly."""
    shape = Scenario("", "", apps=1, asks=BATCH, nodes=1000)
    async with attacker(site, shape) as rm:
        messages = workload.requests(RM, workload.asks(shape), BATCH)
        yield lambda: churn(site, rm, site.part(ROUNDS), lambda _: messages)


@asynccontextmanager
async def partitions(site: Site) -> AsyncIterator[Act]:
    """20 asks in each of 800 partitions, released when all are placed, repeatedly."""
    names = [f"p{number:03}" for number in range(site.part(PARTITIONS))]
    async with BenchRm(site.target, RM, BATCH) as rm:
        await rm.register(workload.config([{"name": "q"}], partitions=names))
        await rm.add_nodes(
            NodeInfo(
                nodeID=f"node-{name}",
                action=NodeInfo.CREATE,
                attributes={NODE_PARTITION: name},
                schedulableResource=workload.resource(workload.NODE_VCORE, workload.NODE_MEMORY),
            )
            for name in names
        )
        applications = [workload.application("q", name) for name in names]
        for application in applications:
            application.partitionName = application.applicationID
        await rm.add_applications(applications)
        messages = asking(
            wanted(name, f"{name}-{number}", partition=name)
            for number in range(PARTITION_ASKS)
            for name in names
        )
        yield lambda: churn(site, rm, site.part(PARTITION_ROUNDS), lambda _: messages)


@asynccontextmanager
async def sizes(site: Site) -> AsyncIterator[Act]:
    """20,000 asks of distinct sizes that fit nowhere; then single asks that fit, repeatedly."""
    shape = Scenario("", "", apps=1, asks=site.part(SIZES), nodes=1000)
    [(_, app)] = workload.app_names(shape)
    async with attacker(site, shape) as rm:
        messages = misfits(app, site.part(SIZES))

        async def act() -> None:
            await rm.send(messages)
            site.acts += site.part(SIZES)
            single = asking([wanted(app, "fits")])
            await churn(site, rm, site.part(ROUNDS), lambda _: single)

        yield act


@asynccontextmanager
async def tagged(site: Site) -> AsyncIterator[Act]:
    """200,000 asks that fit nowhere, each with 20 tags of 60 characters; they remain pending."""
    shape = Scenario("", "", apps=1, asks=TAGGED_BATCH, nodes=1000)
    [(_, app)] = workload.app_names(shape)
    async with attacker(site, shape) as rm:

        async def act() -> None:
            for number in numbers(site, TAGGED // TAGGED_BATCH):
                await rm.write(tagged_asks(app, number))
                site.acts += TAGGED_BATCH

        yield act


@asynccontextmanager
async def planned(site: Site) -> AsyncIterator[Act]:
    """Full nodes, and asks with shadow starts, all with runtimes, while allocations end and start."""
    nodes, waiting = site.part(PLANNED_NODES), site.part(PLANNED)
    shape = Scenario("", "", apps=1, asks=RUNNING_OF_A_NODE * nodes, nodes=nodes)
    [(queue, app)] = workload.app_names(shape)
    whole = workload.LARGEST[0] * RUNNING_OF_A_NODE
    ahead = workload.application(queue, "planned")
    async with joined(
        site.target,
        shape,
        RM,
        config=workload.config([{"name": queue}], properties={"backfill": "conservative"}),
        nodes=workload.nodes(shape, full_at=RUNNING_OF_A_NODE),
        applications=[*workload.applications(shape), ahead],
    ) as rm:
        held = [ask_for(app, f"runs-{each:05}", workload.LARGEST[0], each) for each in range(shape.pods)]
        await rm.place(asking(held), shape.pods)
        await rm.send(asking(ask_for("planned", f"waits-{each:04}", whole, each) for each in range(waiting)))

        async def churn() -> None:
            for number in numbers(site, PLANNED_ROUNDS):
                some = held[number * CHURNED % len(held) :][:CHURNED]
                await rm.write(workload.releases(RM, some))
                await rm.send(asking(some))
                site.acts += len(some)
                # The new asks may have to wait, depending on the shadow starts.
                await asyncio.sleep(CHURN_SECONDS)

        async def act() -> None:
            reading = asyncio.create_task(rm.placed(PLANNED_ROUNDS * CHURNED))
            try:
                await churn()
            finally:
                reading.cancel()

        yield act


def ask_for(app: str, key: str, vcore: int, number: int) -> Allocation:
    """An ask with a declared runtime, which varies with `number`."""
    ask = wanted(app, key, vcore)
    ask.allocationTags[RUNTIME] = str(3600 + number % 1000 * 7)
    return ask


def tagged_asks(app: str, number: int) -> bytes:
    """A message with asks that are larger than any node, each with distinct tags."""
    asks = [
        wanted(app, f"tagged-{number:04}-{each:03}", 2 * workload.NODE_VCORE) for each in range(TAGGED_BATCH)
    ]
    for ask in asks:
        for tag in range(TAGS):
            ask.allocationTags[f"tag-{tag:02}"] = f"{ask.allocationKey}-{tag:02}".ljust(60, "x")
    return AllocationRequest(rmID=RM, allocations=asks).SerializeToString()


def misfits(app: str, number: int) -> list[bytes]:
    """The messages of asks that are larger than any node, each of a different size."""
    beyond = 2 * workload.NODE_VCORE
    return asking(wanted(app, f"misfit-{each:06}", beyond + each) for each in range(number))


TURNOVERS = 1000
NAMESPACES = 10_000
NAMESPACES_CONFIG = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: "*"}]
"""


@asynccontextmanager
async def nodes(site: Site) -> AsyncIterator[Act]:
    """A thousand nodes are created and decommissioned, repeatedly."""
    shape = Scenario("", "", nodes=site.part(BATCH))
    async with BenchRm(site.target, RM, BATCH) as rm:
        await rm.register(workload.configuration(shape))
        created = list(workload.nodes(shape))
        gone = list(workload.nodes(shape, action=NodeInfo.DECOMISSION))

        async def act() -> None:
            for _ in range(site.part(TURNOVERS)):
                await rm.add_nodes(created)
                await rm.update_nodes(gone)
                site.acts += len(created)

        yield act


@asynccontextmanager
async def namespaces(site: Site) -> AsyncIterator[Act]:
    """10,000 applications, each in a queue created for its namespace, are added and removed."""
    names = [f"ns-{number:05}" for number in range(site.part(NAMESPACES))]
    async with coming_and_going(site, NAMESPACES_CONFIG, list(map(of_namespace, names))) as act:
        yield act


def of_namespace(name: str) -> AddApplicationRequest:
    """An application in the namespace with the same name."""
    application = workload.application("", name)
    application.tags["namespace"] = name
    return application


@asynccontextmanager
async def applications(site: Site) -> AsyncIterator[Act]:
    """A thousand applications are added and removed, repeatedly."""
    shape = Scenario("", "", apps=site.part(BATCH))
    new = list(workload.applications(shape))
    async with coming_and_going(site, workload.configuration(shape), new) as act:
        yield act


@asynccontextmanager
async def coming_and_going(
    site: Site, config: str, new: Sequence[AddApplicationRequest]
) -> AsyncIterator[Act]:
    """Applications are added and removed, repeatedly."""
    async with (
        BenchRm(site.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
    ):
        await rm.register(config)
        call = SchedulerStub(channel).UpdateApplication()
        parts = list(workload.batched(new, BATCH))
        added = [ApplicationRequest(rmID=RM, new=part) for part in parts]
        removed = [ApplicationRequest(rmID=RM, remove=map(removal, part)) for part in parts]

        async def act() -> None:
            for _ in range(site.part(TURNOVERS)):
                await put(call, added)
                await taken(call, len(new))
                await put(call, removed)
                site.acts += len(new)

        yield act
        call.cancel()


def removal(application: AddApplicationRequest) -> RemoveApplicationRequest:
    """The removal of an application."""
    return RemoveApplicationRequest(applicationID=application.applicationID)


CALLS = 20_000
QUEUES = 1000
RMS = 50


@asynccontextmanager
async def register(site: Site) -> AsyncIterator[Act]:
    """50 RMs register repeatedly, with 1,000 queues each, by eight concurrent calls."""
    first, second = both(site)

    def calls(stub: Any) -> Iterator[Callable[[], Any]]:
        for number in numbers(site, CALLS):
            # Alternate between two configurations.
            config = (first, second)[number // RMS % 2]
            request = RegisterResourceManagerRequest(
                rmID=f"{RM}-{number % RMS}", version="bench", config=config
            )
            yield lambda request=request: stub.RegisterResourceManager(request)  # type: ignore[misc]

    async with grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel:
        yield lambda: called(site, calls(SchedulerStub(channel)))


@asynccontextmanager
async def reload(site: Site) -> AsyncIterator[Act]:
    """An RM changes its configuration of 1,000 queues, by eight concurrent calls."""
    first, second = both(site)

    def calls(stub: Any) -> Iterator[Callable[[], Any]]:
        for number in numbers(site, CALLS):
            config = (second, first)[number % 2]
            request = UpdateConfigurationRequest(rm_id=RM, config=config)
            yield lambda request=request: stub.UpdateConfiguration(request)  # type: ignore[misc]

    async with (
        BenchRm(site.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
    ):
        await rm.register(first)
        yield lambda: called(site, calls(AdminStub(channel)))


@asynccontextmanager
async def validate(site: Site) -> AsyncIterator[Act]:
    """Configurations of 1,000 queues are validated, over gRPC and REST in turn."""
    first, second = both(site)
    async with (
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
        aiohttp.ClientSession(f"http://{site.http}") as session,
    ):
        stub = AdminStub(channel)

        async def over_grpc() -> None:
            await stub.ValidateConfiguration(ValidateConfigurationRequest(config=first))

        async def over_rest() -> None:
            async with session.post("/ws/v1/validate-conf", data=second) as answer:
                await answer.read()
                site.refused += answer.status != 200

        def calls() -> Iterator[Callable[[], Any]]:
            return ((over_grpc, over_rest)[number % 2] for number in numbers(site, CALLS))

        yield lambda: called(site, calls())


def both(site: Site) -> tuple[str, str]:
    """Two configurations that differ in one queue."""
    queues = site.part(QUEUES)
    first, second = (
        workload.configuration(Scenario("", "", queues=number)) for number in (queues, queues + 1)
    )
    return first, second
