"""Attacks with configurations."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import grpc

from licorne.si.v1.si_pb2 import RegisterResourceManagerRequest
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne.v1.admin_pb2 import UpdateConfigurationRequest, ValidateConfigurationRequest
from licorne.v1.admin_pb2_grpc import AdminStub
from licorne_tools.bench import workload
from licorne_tools.bench.driver import OPTIONS, Rm
from licorne_tools.bench.isolation.attack import BATCH, RM, Act, Site, called, numbers
from licorne_tools.bench.scenarios import Scenario

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
