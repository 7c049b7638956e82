"""Attacks with asks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import yaml

from licorne.si.v1.si_pb2 import AllocationRequest, NodeInfo
from licorne_server.wire.requests import NODE_PARTITION
from licorne_tools.bench import workload
from licorne_tools.bench.driver import Rm
from licorne_tools.bench.isolation.attack import (
    BATCH,
    RM,
    Act,
    Site,
    asking,
    attacker,
    churn,
    numbers,
    wanted,
)
from licorne_tools.bench.scenarios import Scenario

FLOOD_APPS, FLOOD_ASKS = 100, 2000
ROUNDS = 2000
PARTITIONS, PARTITION_ASKS, PARTITION_ROUNDS = 800, 20, 100
SIZES = 20_000
TAGGED, TAGGED_BATCH, TAGS = 200_000, 200, 20


@asynccontextmanager
async def flood(site: Site) -> AsyncIterator[Act]:
    """200,000 asks as fast as they can be sent; all are placed, and kept."""
    shape = Scenario("", "", apps=site.part(FLOOD_APPS), asks=site.part(FLOOD_ASKS), nodes=1000)
    async with attacker(site, shape) as rm:
        messages = workload.requests(RM, workload.asks(shape), BATCH)

        async def act() -> None:
            await asyncio.gather(rm.send(messages), received(site, rm, shape.pods))

        yield act


async def received(site: Site, rm: Rm, expected: int) -> None:
    """Count what is placed, until it is all."""
    while site.acts < expected:
        _, response = await rm.read()
        site.acts += len(response.new)


@asynccontextmanager
async def releases(site: Site) -> AsyncIterator[Act]:
    """A thousand asks, given back as soon as they are placed, over and over."""
    shape = Scenario("", "", apps=1, asks=BATCH, nodes=1000)
    async with attacker(site, shape) as rm:
        messages = workload.requests(RM, workload.asks(shape), BATCH)
        yield lambda: churn(site, rm, site.part(ROUNDS), lambda _: messages)


@asynccontextmanager
async def partitions(site: Site) -> AsyncIterator[Act]:
    """20 asks in each of 800 partitions, given back when all are placed, over and over."""
    names = [f"p{number:03}" for number in range(site.part(PARTITIONS))]
    async with Rm(site.target, RM, BATCH) as rm:
        await rm.register(split_configuration(names))
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


def split_configuration(names: list[str]) -> str:
    """A configuration with these partitions, each with one leaf."""
    parts = [
        {
            "name": name,
            "queues": [{"name": "root", "submitacl": "*", "queues": [{"name": "q"}]}],
        }
        for name in names
    ]
    text: str = yaml.safe_dump({"partitions": parts})
    return text


@asynccontextmanager
async def sizes(site: Site) -> AsyncIterator[Act]:
    """20,000 asks of as many sizes that no node takes; then one ask that fits, over and over."""
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
    """200,000 asks that no node takes, each with 20 tags of 60 characters; they stay."""
    shape = Scenario("", "", apps=1, asks=TAGGED_BATCH, nodes=1000)
    [(_, app)] = workload.app_names(shape)
    async with attacker(site, shape) as rm:

        async def act() -> None:
            for number in numbers(site, TAGGED // TAGGED_BATCH):
                await rm.write(tagged_asks(app, number))
                site.acts += TAGGED_BATCH

        yield act


def tagged_asks(app: str, number: int) -> bytes:
    """A message with many asks that are larger than any node, and have tags of their own."""
    asks = [
        wanted(app, f"tagged-{number:04}-{each:03}", 2 * workload.NODE_VCORE) for each in range(TAGGED_BATCH)
    ]
    for ask in asks:
        for tag in range(TAGS):
            ask.allocationTags[f"tag-{tag:02}"] = f"{ask.allocationKey}-{tag:02}".ljust(60, "x")
    return AllocationRequest(rmID=RM, allocations=asks).SerializeToString()


def misfits(app: str, number: int) -> list[bytes]:
    """The messages with so many asks that are larger than any node, each of another size."""
    beyond = 2 * workload.NODE_VCORE
    return asking(wanted(app, f"misfit-{each:06}", beyond + each) for each in range(number))
