"""Attacks with nodes, applications and configurations that come and go."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    ApplicationRequest,
    NodeInfo,
    RegisterResourceManagerRequest,
    RemoveApplicationRequest,
)
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne.v1.admin_pb2 import UpdateConfigurationRequest, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, Rm, put, taken
from licorne_tools.bench.isolation.attack import BATCH, RM, Act, Site, called, numbers
from licorne_tools.bench.scenarios import Scenario

ROUNDS = 1000
NAMESPACES = 10_000
NAMESPACES_CONFIG = """
partitions:
  - name: default
    placementrules: [{name: tag, value: namespace, create: true}]
    queues: [{name: root, submitacl: "*"}]
"""


@asynccontextmanager
async def nodes(site: Site) -> AsyncIterator[Act]:
    """A thousand nodes are created and decommissioned, over and over."""
    shape = Scenario("", "", nodes=site.part(BATCH))
    async with Rm(site.target, RM, BATCH) as rm:
        await rm.register(workload.configuration(shape))
        created = list(workload.nodes(shape))
        gone = list(workload.nodes(shape, action=NodeInfo.DECOMISSION))

        async def act() -> None:
            for _ in range(site.part(ROUNDS)):
                await rm.add_nodes(created)
                await rm.update_nodes(gone)
                site.acts += len(created)

        yield act


@asynccontextmanager
async def namespaces(site: Site) -> AsyncIterator[Act]:
    """10,000 applications, each in a queue that is made for its namespace, come and go."""
    names = [f"ns-{number:05}" for number in range(site.part(NAMESPACES))]
    async with (
        Rm(site.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
    ):
        await rm.register(NAMESPACES_CONFIG)
        call = SchedulerStub(channel).UpdateApplication()
        parts = [names[start : start + BATCH] for start in range(0, len(names), BATCH)]
        added = [ApplicationRequest(rmID=RM, new=map(of_namespace, part)) for part in parts]
        removed = [ApplicationRequest(rmID=RM, remove=map(removal, part)) for part in parts]

        async def act() -> None:
            for _ in range(site.part(ROUNDS)):
                await put(call, added)
                await taken(call, len(names))
                await put(call, removed)
                site.acts += len(names)

        yield act
        call.cancel()


def of_namespace(name: str) -> AddApplicationRequest:
    """An application of that name, in the namespace of that name."""
    application = workload.application("", name)
    application.tags["namespace"] = name
    return application


def removal(name: str) -> RemoveApplicationRequest:
    """What removes an application."""
    return RemoveApplicationRequest(applicationID=name)


@asynccontextmanager
async def applications(site: Site) -> AsyncIterator[Act]:
    """A thousand applications are added and removed, over and over."""
    shape = Scenario("", "", apps=site.part(BATCH))
    async with (
        Rm(site.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel,
    ):
        await rm.register(workload.configuration(shape))
        call = SchedulerStub(channel).UpdateApplication()
        added = ApplicationRequest(rmID=RM, new=list(workload.applications(shape)))
        removed = ApplicationRequest(
            rmID=RM,
            remove=[removal(name) for _, name in workload.app_names(shape)],
        )

        async def act() -> None:
            for _ in range(site.part(ROUNDS)):
                await put(call, [added])
                await taken(call, shape.apps)
                await put(call, [removed])
                site.acts += shape.apps

        yield act
        call.cancel()


CALLS = 20_000
QUEUES = 1000
RMS = 50


@asynccontextmanager
async def register(site: Site) -> AsyncIterator[Act]:
    """50 RMs register again and again, with 1,000 queues each, by eight calls at a time."""
    first, second = both(site)

    def calls(stub: Any) -> Iterator[Callable[[], Any]]:
        for number in numbers(site, CALLS):
            # Another configuration than last time.
            config = (first, second)[number // RMS % 2]
            request = RegisterResourceManagerRequest(
                rmID=f"{RM}-{number % RMS}", version="bench", config=config
            )
            yield lambda request=request: stub.RegisterResourceManager(request)  # type: ignore[misc]

    async with grpc.aio.insecure_channel(site.target, options=OPTIONS) as channel:
        yield lambda: called(site, calls(SchedulerStub(channel)))


@asynccontextmanager
async def reload(site: Site) -> AsyncIterator[Act]:
    """An RM changes its configuration of 1,000 queues, by eight calls at a time."""
    first, second = both(site)

    def calls(stub: Any) -> Iterator[Callable[[], Any]]:
        for number in numbers(site, CALLS):
            config = (second, first)[number % 2]
            request = UpdateConfigurationRequest(rm_id=RM, config=config)
            yield lambda request=request: stub.UpdateConfiguration(request)  # type: ignore[misc]

    async with (
        Rm(site.target, RM, BATCH) as rm,
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
