"""The RM's side of a benchmark over si.v1, with little overhead: its messages are created in advance.

Responses are read as bytes and parsed only to count them.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from time import perf_counter
from types import TracebackType
from typing import Any, Protocol, Self, TypeVar

import grpc

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    Allocation,
    AllocationRelease,
    AllocationRequest,
    AllocationResponse,
    ApplicationRequest,
    ApplicationResponse,
    NodeInfo,
    NodeRequest,
    NodeResponse,
    RegisterResourceManagerRequest,
    TerminationType,
)
from licorne.si.v1.si_pb2_grpc import SchedulerStub
from licorne_tools.bench.workload import batched, releases


class Progress:
    """The progress of a piece of work: its current step."""

    def __init__(self) -> None:
        """Start without work."""
        self.begin("licorne bench")

    def begin(self, work: str) -> None:
        """Begin another piece of work, and measure its time."""
        self._work = work
        self._start = perf_counter()
        self.step("")

    def step(self, name: str, of: int = 0) -> None:
        """Begin the next step, which has `of` parts; 0 if unknown."""
        self._name, self._of = name, of
        self._done = 0

    def advance(self, by: int = 1) -> None:
        """Count parts of the step as done."""
        self._done += by

    def __str__(self) -> str:
        """``core, run 1 of 3: placing, 2,000 of 10,000, 7 s``."""
        found = f"{self._done:,}"
        if self._of:
            found = f"{min(self._done, self._of):,} of {self._of:,}"
        parts = [self._name, found if self._of or self._done else ""]
        seconds = f"{perf_counter() - self._start:.0f} s"
        return f"{self._work}: {', '.join(filter(None, [*parts, seconds]))}"


UNSEEN = Progress()
"""Progress that is not shown."""


OPTIONS = (("grpc.max_receive_message_length", -1),)
# gRPC shares the connections of equal channels, unless an option prevents it.
OWN_CONNECTION = (*OPTIONS, ("grpc.use_local_subchannel_pool", 1))
UPDATE_ALLOCATION = "/si.v1.Scheduler/UpdateAllocation"

T = TypeVar("T")
RawStream = grpc.aio.StreamStreamCall[bytes, bytes]


class BenchError(Exception):
    """The server failed in the benchmark, so there are no figures."""


@asynccontextmanager
async def limited(seconds: float, spare: float = 0.0, failure: str = "not done after") -> AsyncIterator[None]:
    """A block that may take `seconds`, and `spare` seconds of planned waits.

    Raises:
        BenchError: the time has passed, or the server has refused a call.
    """
    try:
        async with asyncio.timeout(seconds + spare):
            yield
    except TimeoutError:
        raise BenchError(f"{failure} {seconds:.0f} s") from None
    except grpc.aio.AioRpcError as error:
        raise BenchError(f"{error.code().name}: {error.details()}") from None


class Allocating(Protocol):
    """An RM that sends asks and releases, and reads allocations, over either wire."""

    @property
    def rm_id(self) -> str:
        """The id of the RM."""
        ...

    async def write(self, message: bytes) -> None:
        """Send one AllocationRequest."""
        ...

    async def read(self) -> tuple[bytes, AllocationResponse]:
        """The next AllocationResponse, raw and parsed; BenchError for a rejection."""
        ...


class BenchRm:
    """One registered RM with its streams. Use as a context manager."""

    def __init__(self, target: str, rm_id: str, batch: int, progress: Progress = UNSEEN) -> None:
        """Send `batch` items in each request. The first call connects.

        The connection is not shared. Accepted items and allocations advance `progress`.
        """
        self.rm_id = rm_id
        self.progress = progress
        self._batch = batch
        self._channel = grpc.aio.insecure_channel(target, options=OWN_CONNECTION)
        self._stub = SchedulerStub(self._channel)
        self._applications = self._stub.UpdateApplication()
        self._nodes = self._stub.UpdateNode()
        self._allocations: RawStream = self._channel.stream_stream(UPDATE_ALLOCATION)()
        # One writer at a time, because a second one would make the stream fail.
        self._writing = asyncio.Lock()
        self._drain: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Return the RM itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the reader first, then the calls, then the channel: another order leaks."""
        if self._drain is not None:
            self._drain.cancel()
            with suppress(asyncio.CancelledError):
                await self._drain
        for call in (self._applications, self._nodes, self._allocations):
            call.cancel()
        await self._channel.close()

    async def connected(self) -> None:
        """Wait for the connection."""
        await self._channel.channel_ready()

    async def register(self, config: str, extra: Mapping[str, str] | None = None) -> None:
        """Register the RM, and open its stream for allocations."""
        self.progress.step("registering")
        await self._stub.RegisterResourceManager(
            RegisterResourceManagerRequest(rmID=self.rm_id, version="bench", config=config, extraConfig=extra)
        )
        await self.write(AllocationRequest(rmID=self.rm_id).SerializeToString())

    async def add_nodes(self, nodes: Iterable[NodeInfo]) -> None:
        """Send nodes and wait until all are accepted."""
        batches = list(batched(nodes, self._batch))
        requests = (NodeRequest(rmID=self.rm_id, nodes=batch) for batch in batches)
        await self._taken("adding nodes", self._nodes, requests, sum(map(len, batches)))

    async def update_nodes(self, nodes: Iterable[NodeInfo]) -> None:
        """Send changes of nodes, which have no answers."""
        batches = batched(nodes, self._batch)
        await put(self._nodes, (NodeRequest(rmID=self.rm_id, nodes=batch) for batch in batches))

    async def add_applications(self, applications: Iterable[AddApplicationRequest]) -> None:
        """Send applications, wait until all are accepted, then read their states in the background.

        Otherwise unread changes would fill the server's outbox.
        """
        call, batches = self._applications, list(batched(applications, self._batch))
        requests = (ApplicationRequest(rmID=self.rm_id, new=batch) for batch in batches)
        await self._taken("adding applications", call, requests, sum(map(len, batches)))
        self._drain = asyncio.create_task(self._read_applications())

    async def _taken(
        self,
        step: str,
        call: grpc.aio.StreamStreamCall[T, NodeResponse] | grpc.aio.StreamStreamCall[T, ApplicationResponse],
        requests: Iterable[T],
        items: int,
    ) -> None:
        """Send requests with `items` items in total, and wait until all are accepted."""
        self.progress.step(step, of=items)
        await together(put(call, requests), taken(call, items, self.progress))

    async def _read_applications(self) -> None:
        while await self._applications.read() is not grpc.aio.EOF:
            pass

    async def write(self, message: bytes) -> None:
        """Send one AllocationRequest."""
        async with self._writing:
            await self._allocations.write(message)

    async def read(self) -> tuple[bytes, AllocationResponse]:
        """The next AllocationResponse, raw and parsed; BenchError for a rejection."""
        data = await self._allocations.read()
        if not isinstance(data, bytes):
            raise BenchError("the stream for allocations ended")
        response = AllocationResponse.FromString(data)
        refuse(response.rejectedAllocations)
        self.progress.advance(len(response.new))
        return data, response

    async def send(self, messages: Iterable[bytes]) -> None:
        """Send AllocationRequests as fast as the stream accepts them."""
        for message in messages:
            await self.write(message)

    async def place(self, messages: Iterable[bytes], expected: int) -> list[bytes]:
        """Send and read until `expected` asks are placed; returns the raw responses."""
        return await together(self.send(messages), self.placed(expected))

    async def placed(self, expected: int) -> list[bytes]:
        """Read until `expected` asks are placed; returns the raw responses."""
        responses = []
        while expected > 0:
            data, response = await self.read()
            responses.append(data)
            expected -= len(response.new)
        return responses

    async def one_by_one(
        self, asks: Iterable[Allocation], rate: float, enough: Callable[[], bool]
    ) -> list[float]:
        """Send asks one by one until `enough` is true, at most `rate` per second.

        Each ask waits until the previous one is placed and released. Returns the seconds from each send to
        its allocation.
        """
        latencies = []
        for ask in asks:
            if enough():
                break
            message = AllocationRequest(rmID=self.rm_id, allocations=[ask]).SerializeToString()
            sent = perf_counter()
            await self.write(message)
            await self.placed(1)
            received = perf_counter()
            latencies.append(received - sent)
            await self.write(releases(self.rm_id, [ask]))
            await asyncio.sleep(max(0.0, sent + 1 / rate - received))
        return latencies

    async def steady(self, asks: Iterable[Allocation], rate: float) -> tuple[list[float], list[bytes]]:
        """Send all asks at `rate` per second without waiting for allocations; each is released immediately.

        Returns the seconds from each send to the allocation, and the raw responses.
        """
        sent: dict[str, float] = {}
        finished = asyncio.Event()
        reading = asyncio.create_task(self._answers(sent, finished))
        start = perf_counter()
        for number, ask in enumerate(asks):
            message = AllocationRequest(rmID=self.rm_id, allocations=[ask]).SerializeToString()
            await asyncio.sleep(max(0.0, start + number / rate - perf_counter()))
            sent[ask.allocationKey] = perf_counter()
            await self.write(message)
        finished.set()
        return await reading

    async def _answers(
        self, sent: dict[str, float], finished: asyncio.Event
    ) -> tuple[list[float], list[bytes]]:
        """Read until all sent asks are placed.

        After `finished` is set, another response always arrives, to the last ask or its release. So the end
        is always noticed.
        """
        latencies: list[float] = []
        responses: list[bytes] = []
        while sent or not finished.is_set():
            data, response = await self.read()
            now = perf_counter()
            for allocation in response.new:
                latencies.append(now - sent.pop(allocation.allocationKey))
                await self.write(releases(self.rm_id, [allocation]))
            if response.new:
                responses.append(data)
        return latencies, responses


async def together(sending: Coroutine[Any, Any, None], reading: Coroutine[Any, Any, T]) -> T:
    """Send and read at the same time; returns the result of reading. The first failure ends both."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(sending)
            result = group.create_task(reading)
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return result.result()


async def put(call: grpc.aio.StreamStreamCall[T, Any], requests: Iterable[T]) -> None:
    """Write requests to a stream to which nothing else writes."""
    for request in requests:
        await call.write(request)


async def taken(
    call: grpc.aio.StreamStreamCall[Any, NodeResponse] | grpc.aio.StreamStreamCall[Any, ApplicationResponse],
    waiting: int,
    progress: Progress = UNSEEN,
) -> None:
    """Read until `waiting` nodes or applications are accepted."""
    while waiting > 0:
        response = await call.read()
        if not isinstance(response, NodeResponse | ApplicationResponse):
            raise BenchError("a stream ended")
        refuse(response.rejected)
        waiting -= len(response.accepted)
        progress.advance(len(response.accepted))


def refuse(rejected: Iterable[object]) -> None:
    """Raise BenchError for the first rejection."""
    for item in rejected:
        raise BenchError(f"rejected: {item}")


class Replies:
    """Sends asks and confirmations, at most `batch` in a message, and counts the messages."""

    def __init__(self, rm: Allocating, batch: int) -> None:
        """Start without any message sent."""
        self._rm = rm
        self._batch = batch
        self.requests = 0
        self.confirmations = 0

    async def ask(self, asks: Iterable[Allocation]) -> None:
        """Send asks, in messages of at most `batch`."""
        for some in batched(asks, self._batch):
            request = AllocationRequest(rmID=self._rm.rm_id, allocations=some)
            await self._send(request.SerializeToString())

    async def confirm(self, released: Iterable[AllocationRelease], why: TerminationType.ValueType) -> int:
        """Confirm the requested releases for the reason `why`; returns their number."""
        confirmed = 0
        for some in batched((item for item in released if item.terminationType == why), self._batch):
            await self._send(releases(self._rm.rm_id, some, why))
            confirmed += len(some)
        self.confirmations += confirmed
        return confirmed

    async def _send(self, request: bytes) -> None:
        self.requests += 1
        await self._rm.write(request)
