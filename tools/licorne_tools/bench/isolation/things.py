"""Attacks with nodes and applications that come and go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from licorne.si.v1.si_pb2 import AddApplicationRequest, ApplicationRequest, NodeInfo, RemoveApplicationRequest
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, Rm, put, taken
from licorne_tools.bench.isolation.attack import BATCH, RM, Act, Site
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
