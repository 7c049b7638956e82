"""Ceilings: the rates of the benchmark's client and messages with a bare gRPC server.

`bare_server` starts that server in its own process. It has the limits and the event loop of the real server,
but only sends prepared messages. The program reads these from stdin, each after its length. Its arguments are
their number, and the behaviour of all methods: `stream` sends all messages for a number of rounds, and `echo`
sends one message for each message read. The program ends with its parent.
"""

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from time import perf_counter
from typing import Any, BinaryIO

import grpc

from licorne.si.v1.si_pb2 import Allocation, AllocationRelease, AllocationResponse, TerminationType
from licorne.v1.session_pb2 import UpdateResponse
from licorne_server.assembly.grpc_server import bind, server_of
from licorne_server.commands.child import end_with_parent
from licorne_server.commands.server_process import ServerProcess
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import ServerLoop
from licorne_server.process.settings import Address, Settings
from licorne_server.security.connections import Connections
from licorne_server.services.calls import stream_handler
from licorne_tools.bench.driver import OPTIONS, UNSEEN, BenchRm, Progress, RawStream
from licorne_tools.bench.load import RM, Meter
from licorne_tools.bench.programs import process_of, python
from licorne_tools.bench.scenarios import Scenario, ScenarioKind, Wire
from licorne_tools.bench.session_rm import SessionRm
from licorne_tools.bench.workload import asks, batched, node_name

LENGTH = struct.Struct("!I")


def frame(message: bytes) -> bytes:
    """A message preceded by its length."""
    return LENGTH.pack(len(message)) + message


def read_frames(stream: BinaryIO) -> Iterator[bytes]:
    """The messages of a stream, read lazily."""
    while header := stream.read(LENGTH.size):
        (length,) = LENGTH.unpack(header)
        yield stream.read(length)


STREAM = "stream"
ECHO = "echo"

Context = grpc.aio.ServicerContext[Any, bytes]
Behaviour = Callable[[Context], Awaitable[None]]


@asynccontextmanager
async def bare_server(
    mode: str, messages: Sequence[bytes], *, rounds: int = 1
) -> AsyncIterator[ServerProcess]:
    """A bare server that sends these messages, for the duration of the block."""
    arguments = (mode, str(len(messages)), str(rounds))
    async with process_of(*python("ceilings"), *arguments) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in messages:
            process.stdin.write(frame(message))
            await process.stdin.drain()
        target = (await process.stdout.readline()).decode().strip()
        yield ServerProcess(target=target, http="", process=process)


def streaming(messages: Sequence[bytes], rounds: int) -> Behaviour:
    """Send all messages to each caller, `rounds` times."""

    async def stream(context: Context) -> None:
        for _ in range(rounds):
            for message in messages:
                await context.write(message)
        # The caller ends the stream once it has read everything.
        while await context.read() is not grpc.aio.EOF:
            pass

    return stream


def echoing(messages: Sequence[bytes]) -> Behaviour:
    """Answer each request of a caller with the next message."""

    async def echo(context: Context) -> None:
        answers = iter(messages)
        while await context.read() is not grpc.aio.EOF:
            answer = next(answers, None)
            if answer is not None:
                await context.write(answer)

    return echo


class EveryMethod(grpc.GenericRpcHandler):
    """Serves every method with the same behaviour."""

    def __init__(self, behaviour: Behaviour) -> None:
        """Handle each call with `behaviour`."""
        self._handler: grpc.RpcMethodHandler[bytes, bytes] = stream_handler(behaviour)

    def service(self, _: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        """The same handler for any method name."""
        return self._handler


async def serve(behaviour: Behaviour) -> None:
    """Print the address, then serve until the process is stopped."""
    settings = Settings(listen=Address(host="127.0.0.1", port=0))
    options = Connections(settings.peers).options()
    server = server_of(settings, (), options, TimeSlices(lambda: False))
    server.add_generic_rpc_handlers((EveryMethod(behaviour),))
    address = bind(server, settings)
    await server.start()
    print(address, flush=True)
    await asyncio.Event().wait()


def behaviour_of(mode: str, count: int, rounds: int) -> Behaviour:
    """The behaviour of the command line, with `count` messages from stdin."""
    messages = list(islice(read_frames(sys.stdin.buffer), count))
    return echoing(messages) if mode == ECHO else streaming(messages, rounds)


if __name__ == "__main__":
    wanted = behaviour_of(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
    end_with_parent()
    with asyncio.Runner(loop_factory=ServerLoop) as runner:
        runner.run(serve(wanted))


# Enough requests for a meaningful rate.
ENOUGH_REQUESTS = 20_000


async def echo(wire: Wire, requests: list[bytes], responses: Iterable[bytes], batch: int) -> dict[str, float]:
    """Send requests with `batch` asks each to an echoing server; returns the measures by name.

    The requests are in the wire's format. The responses are AllocationResponses with the answers to all asks.
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
        "echo_client_cpu_us_per_allocation": cost.client / len(items) * 1e6,
        "echo_server_core_percent": cost.server_core_percent,
        "echo_client_core_percent": cost.client_core_percent,
    }


def client(wire: Wire, target: str, batch: int, progress: Progress = UNSEEN) -> BenchRm | SessionRm:
    """The RM of a scenario over this wire, which here only sends and counts."""
    if wire is Wire.SESSION:
        return SessionRm(target, RM, progress=progress)
    return BenchRm(target, RM, batch, progress)


def answered(wire: Wire, batches: Iterable[list[Allocation]]) -> Iterator[bytes]:
    """Allocations as messages in the format of the wire."""
    for number, batch in enumerate(batches, start=1):
        response = AllocationResponse(new=batch)
        if wire is Wire.SESSION:
            yield UpdateResponse(
                number=number, epoch=1, session=1, acknowledged=number, allocations=response
            ).SerializeToString()
        else:
            yield response.SerializeToString()


PARTITION = f"[{RM}]default"
WHY = "allocation remove as per RM request"
"""The server's reason for a release; here only its length matters."""


def answers_of(scenario: Scenario) -> list[bytes]:
    """The answer to each message of the RM."""
    if scenario.kind is ScenarioKind.WIRE_LATENCY:
        return list(lone_answers(scenario))
    return list(answered(scenario.wire, batched(allocations_of(scenario), scenario.batch)))


def allocations_of(scenario: Scenario) -> Iterator[Allocation]:
    """The allocation of each ask; the nodes are used in turn."""
    for number, ask in enumerate(asks(scenario)):
        node = node_name(number % scenario.nodes)
        ask.MergeFrom(Allocation(nodeID=node, partitionName=PARTITION))
        yield ask


def lone_answers(scenario: Scenario) -> Iterator[bytes]:
    """The allocation of each ask, and the answer to its release."""
    for item in allocations_of(scenario):
        yield AllocationResponse(new=[item]).SerializeToString()
        released = AllocationRelease(
            partitionName=PARTITION,
            applicationID=item.applicationID,
            allocationKey=item.allocationKey,
            terminationType=TerminationType.STOPPED_BY_RM,
            message=WHY,
        )
        yield AllocationResponse(released=[released]).SerializeToString()


METHOD = "/licorne.bench.Ceiling/Stream"
# Enough allocations and messages for a meaningful rate.
ENOUGH_ALLOCATIONS = 300_000
ENOUGH_MESSAGES = 5_000


async def ceiling(responses: list[bytes]) -> float:
    """Allocations per second from a server that only sends these AllocationResponses."""
    allocations = sum(len(AllocationResponse.FromString(data).new) for data in responses)
    rounds = max(1, min(ENOUGH_ALLOCATIONS // allocations, ENOUGH_MESSAGES // len(responses)))
    async with bare_server(STREAM, responses, rounds=rounds) as server:
        seconds = await receive(server.target, allocations * rounds)
    return allocations * rounds / seconds


async def receive(target: str, expected: int) -> float:
    """Read the whole stream and count, like the driver of the benchmark; returns the duration in seconds."""
    async with grpc.aio.insecure_channel(target, options=OPTIONS) as channel:
        # Connect before the clock starts.
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
