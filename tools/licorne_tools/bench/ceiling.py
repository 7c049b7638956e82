"""What the transport alone would do: the same response bytes over a bare grpc.aio stream."""

from time import perf_counter

import grpc

from licorne.si.v1.si_pb2 import AllocationResponse
from licorne_tools.bench.bare_server import OPTIONS, STREAM, bare_server
from licorne_tools.bench.driver import RawStream

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
