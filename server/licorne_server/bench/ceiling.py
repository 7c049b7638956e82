"""What the transport alone would do: the same response bytes over a bare grpc.aio stream.

`ceiling` is the client's side. The server's side is this module as a program: it reads the
messages from stdin, each behind its length, and streams them to whoever asks.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from time import perf_counter

import grpc

from licorne.si.v1.si_pb2 import AllocationResponse
from licorne_server.bench.driver import RawStream
from licorne_server.bench.frames import frame, read_frames

METHOD = "Stream"
SERVICE = "licorne.bench.Ceiling"
# Enough of either for a rate that means something.
ENOUGH_ALLOCATIONS = 300_000
ENOUGH_MESSAGES = 5_000
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0))


async def ceiling(responses: list[bytes]) -> float:
    """Allocations per second from a server that does nothing but send these responses."""
    allocations = sum(len(AllocationResponse.FromString(data).new) for data in responses)
    rounds = max(1, min(ENOUGH_ALLOCATIONS // allocations, ENOUGH_MESSAGES // len(responses)))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_server.bench.ceiling", str(rounds)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for data in responses:
            process.stdin.write(frame(data))
            await process.stdin.drain()
        process.stdin.write_eof()
        target = (await process.stdout.readline()).decode().strip()
        seconds = await receive(target, allocations * rounds)
    finally:
        process.kill()
        await process.wait()
    return allocations * rounds / seconds


async def receive(target: str, expected: int) -> float:
    """Read the whole stream and count, as the benchmark's driver does; the seconds it took."""
    async with grpc.aio.insecure_channel(target, options=OPTIONS) as channel:
        # Connected before the clock starts.
        await channel.channel_ready()
        start = perf_counter()
        call: RawStream = channel.stream_stream(f"/{SERVICE}/{METHOD}")()
        await call.write(b"")
        while expected > 0:
            data = await call.read()
            assert isinstance(data, bytes), "the ceiling's server ended early"
            expected -= len(AllocationResponse.FromString(data).new)
        seconds = perf_counter() - start
        call.cancel()
        return seconds


async def serve(responses: list[bytes], rounds: int) -> None:
    """Print the address, then stream the responses to every caller, `rounds` times over."""

    async def stream(
        requests: AsyncIterator[bytes], context: grpc.aio.ServicerContext[bytes, bytes]
    ) -> None:
        for _ in range(rounds):
            for data in responses:
                await context.write(data)
        # The caller hangs up once it has everything.
        async for _ in requests:
            pass

    server = grpc.aio.server(options=OPTIONS)
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(stream)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(read_frames(sys.stdin.buffer), int(sys.argv[1])))
