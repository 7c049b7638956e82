"""Attacks: their description, their common parts, and their processes."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import grpc

from licorne.si.v1.si_pb2 import Allocation, AllocationRequest, AllocationResponse
from licorne_server.commands.server_process import ServerProcess
from licorne_tools.bench import workload
from licorne_tools.bench.driver import BenchRm
from licorne_tools.bench.load import joined
from licorne_tools.bench.programs import Program, prepared
from licorne_tools.bench.scenarios import Scenario

RM = "attacker"
PARTITION = f"[{RM}]default"
"""The full name of the attacker's partition."""
BATCH = 1000
WORKERS = 8
"""Number of concurrent calls."""


@dataclass(slots=True, kw_only=True)
class Site:
    """The attacked server, the size of the attack, and its counts so far."""

    target: str
    http: str
    percent: int = 100
    """The size of the attack in percent of the full counts."""
    acts: int = 0
    refused: int = 0

    def part(self, full: int) -> int:
        """The count for this attack; at least 1."""
        return max(1, full * self.percent // 100)


Act = Callable[[], Awaitable[None]]
"""The attack itself, after its preparation. It ends after a limited number of acts."""


@dataclass(frozen=True, slots=True)
class Attack:
    """An attack: its description, and a context manager that prepares the attack."""

    about: str
    prepared: Callable[[Site], AbstractAsyncContextManager[Act]]


def attacker(
    site: Site, scenario: Scenario, extra: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[BenchRm]:
    """The attacker as an RM with nodes and applications."""
    return joined(site.target, scenario, RM, extra=extra)


def wanted(app: str, key: str, vcore: int = 100, partition: str = "") -> Allocation:
    """An ask for `vcore` milli-cores."""
    return Allocation(
        allocationKey=key,
        applicationID=app,
        partitionName=partition,
        resourcePerAlloc=workload.resource(vcore, workload.MI),
    )


def asking(asks: Iterable[Allocation]) -> list[bytes]:
    """The messages that send these asks."""
    return workload.requests(RM, asks, BATCH)


async def churn(site: Site, rm: BenchRm, rounds: int, asks: Callable[[int], list[bytes]]) -> None:
    """Send asks, and release all allocations, `rounds` times; `asks` returns the messages of a round."""
    for number in range(rounds):
        messages = asks(number)
        expected = sum(len(AllocationRequest.FromString(data).allocations) for data in messages)
        for data in await rm.place(messages, expected):
            await rm.write(workload.releases(RM, AllocationResponse.FromString(data).new))
        site.acts += expected


async def called(site: Site, calls: Iterator[Callable[[], Coroutine[Any, Any, Any]]]) -> None:
    """Make `WORKERS` concurrent calls at a time; counts acts and refusals."""

    async def work() -> None:
        for call in calls:
            try:
                await call()
            except grpc.aio.AioRpcError:
                site.refused += 1
            site.acts += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(WORKERS):
            group.create_task(work())


def numbers(site: Site, full: int) -> Iterator[int]:
    """The numbers from 0, as many as `part` of `full`."""
    return islice(count(), site.part(full))


STOP_SECONDS = 600.0
"""Maximum seconds until an attack ends: it has a low priority, and so little time on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of an attack: numbers of acts, and of refused or disconnected acts."""

    acts: int
    refused: int


def attacking(name: str, server: ServerProcess, percent: int) -> AbstractAsyncContextManager[Program]:
    """A prepared attack in its own process, for the duration of the block."""
    site = (server.target, server.http, str(percent))
    return prepared(f"the attack {name}", "isolation.catalogue", name, *site)


async def ended(attack: Program) -> Done:
    """Stop the attack, and return its result; BenchError for a failure."""
    return Done(**json.loads(await attack.end(STOP_SECONDS)))
