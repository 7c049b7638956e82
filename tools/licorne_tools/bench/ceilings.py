"""Ceilings: what the same client gets from a bare grpc.aio server with the same messages."""

from collections.abc import Iterable, Iterator
from itertools import islice
from time import perf_counter

import grpc

from licorne.si.v1.si_pb2 import Allocation, AllocationResponse
from licorne.v1.session_pb2 import UpdateResponse
from licorne_tools.bench.bare_server import ECHO, OPTIONS, STREAM, bare_server
from licorne_tools.bench.driver import RawStream, Rm
from licorne_tools.bench.load import Meter
from licorne_tools.bench.scenarios import Wire
from licorne_tools.bench.session_rm import SessionRm
from licorne_tools.bench.workload import batched

RM = "echo"
# Enough for a rate that means something.
ENOUGH_REQUESTS = 20_000


async def echo(wire: Wire, requests: list[bytes], responses: Iterable[bytes], batch: int) -> dict[str, float]:
    """Send requests with `batch` asks each to such a server; every number by its name.

    The requests are messages of the wire. The responses are AllocationResponses, with the answers
    to all asks.
    """
    made = (item for data in responses for item in AllocationResponse.FromString(data).new)
    items = list(islice(made, ENOUGH_REQUESTS * batch))
    answers = list(answered(wire, batched(items, batch)))
    sent = requests[: len(answers)]
    async with (
        bare_server(ECHO, answers) as server,
        client(wire, server.target, batch) as rm,
    ):
        await rm.connected()
        meter = Meter(server.pid)
        await rm.place(sent, len(items))
        cost = meter.read()
    return {
        "echo_per_second": len(items) / cost.seconds,
        "echo_cpu_us_per_allocation": cost.server / len(items) * 1e6,
        "echo_server_core_percent": cost.server_core_percent,
        "echo_client_core_percent": cost.client_core_percent,
    }


def client(wire: Wire, target: str, batch: int) -> Rm | SessionRm:
    """The client of the run, which only sends and counts here."""
    return SessionRm(target, RM) if wire is Wire.SESSION else Rm(target, RM, batch)


def answered(wire: Wire, batches: Iterable[list[Allocation]]) -> Iterator[bytes]:
    """Allocations as the messages of a wire."""
    for number, batch in enumerate(batches, start=1):
        response = AllocationResponse(new=batch)
        if wire is Wire.SESSION:
            yield UpdateResponse(
                number=number, epoch=1, session=1, acknowledged=number, allocations=response
            ).SerializeToString()
        else:
            yield response.SerializeToString()


METHOD = "/licorne.bench.Ceiling/Stream"
# Enough of either for a rate that means something.
ENOUGH_ALLOCATIONS = 300_000
ENOUGH_MESSAGES = 5_000


async def ceiling(responses: list[bytes]) -> float:
    """Allocations per second from a server that does nothing but send these AllocationResponses."""
    allocations = sum(len(AllocationResponse.FromString(data).new) for data in responses)
    rounds = max(1, min(ENOUGH_ALLOCATIONS // allocations, ENOUGH_MESSAGES // len(responses)))
    async with bare_server(STREAM, responses, rounds=rounds) as server:
        seconds = await receive(server.target, allocations * rounds)
    return allocations * rounds / seconds


async def receive(target: str, expected: int) -> float:
    """Read the whole stream and count, as the benchmark's driver does; the seconds it took."""
    async with grpc.aio.insecure_channel(target, options=OPTIONS) as channel:
        # Connected before the clock starts.
        await channel.channel_ready()
        start = perf_counter()
        call: RawStream = channel.stream_stream(METHOD)()
        await call.write(b"")
        while expected > 0:
            data = await call.read()
            assert isinstance(data, bytes), "the ceiling's server ended early"
            expected -= len(AllocationResponse.FromString(data).new)
        seconds = perf_counter() - start
        call.cancel()
        return seconds
