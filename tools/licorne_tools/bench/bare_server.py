"""A gRPC server that decides nothing, in a process of its own: bytes in, bytes out.

`bare_server` starts it. The program reads the messages that it will send from stdin, each behind
its length; the command line says how many. It serves every method in one way, which the command
line names: `stream` sends all messages as often as it is told, and `echo` sends one message for
each that it reads. It ends with the process that started it.

Also here:

* Messages between the processes of a benchmark: each behind its length.
"""

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, BinaryIO

import grpc

from licorne_server.commands.child import end_with_parent

LENGTH = struct.Struct("!I")


def frame(message: bytes) -> bytes:
    """One message, ready to be written."""
    return LENGTH.pack(len(message)) + message


def read_frames(stream: BinaryIO) -> Iterator[bytes]:
    """The messages up to the end of the stream, each read when it is wanted."""
    while header := stream.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        yield stream.read(length)


STREAM = "stream"
ECHO = "echo"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0))

Context = grpc.aio.ServicerContext[Any, bytes]
Behaviour = Callable[[AsyncIterator[bytes], Context], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class BareServer:
    """A running one: where it listens, and which process it is."""

    target: str
    pid: int


@asynccontextmanager
async def bare_server(mode: str, messages: Sequence[bytes], *, rounds: int = 1) -> AsyncIterator[BareServer]:
    """Start one that sends these messages; end it in the end."""
    arguments = (mode, str(len(messages)), str(rounds))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "licorne_tools.bench.bare_server", *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for message in messages:
            process.stdin.write(frame(message))
            await process.stdin.drain()
        target = (await process.stdout.readline()).decode().strip()
        yield BareServer(target=target, pid=process.pid)
    finally:
        process.kill()
        await process.wait()


def streaming(messages: Sequence[bytes], rounds: int) -> Behaviour:
    """Send everything to each caller, `rounds` times over."""

    async def stream(requests: AsyncIterator[bytes], context: Context) -> None:
        for _ in range(rounds):
            for message in messages:
                await context.write(message)
        # The caller hangs up once it has everything.
        async for _ in requests:
            pass

    return stream


def echoing(messages: Sequence[bytes]) -> Behaviour:
    """Answer the first request with the first message, the second with the second, and so on."""

    async def echo(_: AsyncIterator[bytes], context: Context) -> None:
        answers = iter(messages)
        while await context.read() is not grpc.aio.EOF:
            answer = next(answers, None)
            if answer is not None:
                await context.write(answer)

    return echo


class EveryMethod(grpc.GenericRpcHandler):
    """Serves whatever is called."""

    def __init__(self, behaviour: Behaviour) -> None:
        """In this way."""
        self._handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(behaviour)

    def service(self, _: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """The same for all names."""
        return self._handler


async def serve(behaviour: Behaviour) -> None:
    """Print the address, then serve until the process is ended."""
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers((EveryMethod(behaviour),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    await server.wait_for_termination()


def behaviour_of(mode: str, count: int, rounds: int) -> Behaviour:
    """What the command line says, with so many messages from stdin."""
    messages = list(islice(read_frames(sys.stdin.buffer), count))
    return echoing(messages) if mode == ECHO else streaming(messages, rounds)


if __name__ == "__main__":
    wanted = behaviour_of(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    end_with_parent()
    asyncio.run(serve(wanted))
