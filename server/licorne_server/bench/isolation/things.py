"""Attacks with nodes and applications that come and go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc

from licorne.si.v1.si_pb2 import (
    ApplicationRequest,
    NodeInfo,
    RemoveApplicationRequest,
)
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne_server.bench import workload
from licorne_server.bench.driver import OPTIONS, Rm, put, taken
from licorne_server.bench.isolation.attack import BATCH, RM, Act, Ground
from licorne_server.bench.scenarios import Scenario

ROUNDS = 1000


@asynccontextmanager
async def nodes(ground: Ground) -> AsyncIterator[Act]:
    """A thousand nodes are created and decommissioned, over and over."""
    shape = Scenario("", "", nodes=ground.part(BATCH))
    async with Rm(ground.target, RM, BATCH) as rm:
        await rm.register(workload.configuration(shape))
        created = list(workload.nodes(shape))
        gone = list(workload.nodes(shape, action=NodeInfo.DECOMISSION))

        async def act() -> None:
            for _ in range(ground.part(ROUNDS)):
                await rm.add_nodes(created)
                await rm.update_nodes(gone)
                ground.acts += len(created)

        yield act


@asynccontextmanager
async def applications(ground: Ground) -> AsyncIterator[Act]:
    """A thousand applications are added and removed, over and over."""
    shape = Scenario("", "", apps=ground.part(BATCH))
    async with (
        Rm(ground.target, RM, BATCH) as rm,
        grpc.aio.insecure_channel(ground.target, options=OPTIONS) as channel,
    ):
        await rm.register(workload.configuration(shape))
        call = SchedulerStub(channel).UpdateApplication()
        added = ApplicationRequest(rmID=RM, new=list(workload.applications(shape)))
        removed = ApplicationRequest(
            rmID=RM,
            remove=[
                RemoveApplicationRequest(applicationID=name)
                for _, name in workload.app_names(shape)
            ],
        )

        async def act() -> None:
            for _ in range(ground.part(ROUNDS)):
                await put(call, [added])
                await taken(call, shape.apps)
                await put(call, [removed])
                ground.acts += shape.apps

        yield act
        call.cancel()
