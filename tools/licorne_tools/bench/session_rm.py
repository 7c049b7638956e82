"""The RM's side of a benchmark over a session, with as little overhead as over si.v1.

Messages are created in advance except for their numbers, and each response is parsed once. All predicate
checks of one message are answered in one message.
"""

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
    AllocationRequest,
    AllocationResponse,
    ApplicationRequest,
    NodeInfo,
    NodeRequest,
    RegisterResourceManagerRequest,
)
from licorne.v1.session_pb2 import (
    Ack,
    Callbacks,
    Hello,
    NodeRefusal,
    NoticeAnswer,
    NoticeAnswers,
    PredicateAnswer,
    PredicateAnswers,
    PredicateChecks,
    Predicates,
    PreemptionNotices,
    ReplayBegin,
    ReplayEnd,
    UpdateRequest,
    UpdateResponse,
)
from licorne_tools.bench.driver import OPTIONS, UNSEEN, BenchError, Progress, RawStream, refuse, together
from licorne_tools.bench.workload import batched

UPDATE = "/licorne.v1.Session/Update"
REASON = "refused by the benchmark"
ACK_EVERY = 64
ACK = UpdateRequest(ack=Ack()).SerializeToString()


@dataclass(slots=True)
class Traffic:
    """Counts of messages, checks and notices since the replay."""

    requests: int = 0
    responses: int = 0
    checks: int = 0
    nodes_asked: int = 0
    notices: int = 0


class SessionRm:
    """One RM with its session. Use as a context manager."""

    def __init__(
        self,
        target: str,
        rm_id: str,
        *,
        refused: frozenset[str] = frozenset(),
        delay: float = 0.0,
        progress: Progress = UNSEEN,
    ) -> None:
        """The RM refuses the nodes `refused`, and answers checks `delay` seconds after their receipt.

        Nothing is sent before `open`. Allocations advance `progress`.
        """
        self.progress = progress
        self.rm_id = rm_id
        self.traffic = Traffic()
        self._refused = refused
        self._delay = delay
        self._channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        self._call: RawStream = self._channel.stream_stream(UPDATE)()
        # One writer at a time: a second one makes the stream fail.
        self._writing = asyncio.Lock()
        self._number = 0
        self._received = 0
        self._acknowledged = 0
        # Delayed answers, each with the time at which it is due.
        self._late: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        """Return the RM itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the call, then the channel."""
        self._call.cancel()
        with suppress(asyncio.CancelledError):
            await self._call.code()
        await self._channel.close()

    async def connected(self) -> None:
        """Wait for the connection."""
        await self._channel.channel_ready()

    async def open(
        self,
        config: str,
        nodes: Iterable[NodeInfo],
        applications: Iterable[AddApplicationRequest],
        *,
        batch: int,
        asked: bool,
    ) -> None:
        """Register, and replay nodes and applications, `batch` of them in each request.

        With `asked` the RM requests predicate checks. It always receives notices of preemption.
        """
        hello = Hello(
            rm_id=self.rm_id,
            instance=1,
            protocol=1,
            registration=RegisterResourceManagerRequest(version="bench", config=config),
            callbacks=Callbacks(predicates=Predicates() if asked else None, preemption_notices=True),
        )
        await self._call.write(UpdateRequest(hello=hello).SerializeToString())
        self.progress.step("replaying nodes and applications")
        replay = list(replayed(nodes, applications, batch))
        await together(self._send_all(replay), self._replayed())
        self.traffic = Traffic()

    async def _replayed(self) -> None:
        """Read until the server has answered the replay."""
        while True:
            _, response = await self._read()
            refuse(response.nodes.rejected)
            refuse(response.applications.rejected)
            if response.HasField("replay_result"):
                break
        if not response.replay_result.complete:
            raise BenchError(f"the replay is not complete: {response.replay_result.reason}")

    async def place(self, requests: Iterable[bytes], expected: int) -> list[bytes]:
        """Send requests and answer checks, until `expected` asks are placed.

        Requests and responses are messages of the session in bytes. Returns the responses with
        allocations.
        """
        late = asyncio.create_task(self._answer_late())
        try:
            return await together(self._send_all(requests), self._placed(expected))
        finally:
            late.cancel()

    async def write(self, message: bytes) -> None:
        """Send one AllocationRequest, in bytes."""
        await self._send(UpdateRequest(allocations=AllocationRequest.FromString(message)).SerializeToString())

    async def read(self) -> tuple[bytes, AllocationResponse]:
        """The next AllocationResponse, raw and parsed; notices before it are answered as ready at once."""
        while True:
            _, response = await self._read()
            if self._received - self._acknowledged >= ACK_EVERY:
                await self._put(ACK)
            match response.WhichOneof("message"):
                case "preemption_notices":
                    await self._be_ready(response.preemption_notices)
                case "allocations":
                    self._check(response.allocations)
                    self.progress.advance(len(response.allocations.new))
                    return response.allocations.SerializeToString(), response.allocations

    async def _be_ready(self, told: PreemptionNotices) -> None:
        self.traffic.notices += len(told.notices)
        answers = [
            NoticeAnswer(
                partition_name=told.partition_name,
                application_id=notice.application_id,
                allocation_key=notice.allocation_key,
            )
            for notice in told.notices
        ]
        await self._send(UpdateRequest(notice_answers=NoticeAnswers(answers=answers)).SerializeToString())

    async def _send_all(self, requests: Iterable[bytes]) -> None:
        for request in requests:
            await self._send(request)

    async def _placed(self, expected: int) -> list[bytes]:
        responses = []
        while expected > 0:
            data, response = await self._read()
            match response.WhichOneof("message"):
                case "predicate_checks":
                    await self._answer(response.predicate_checks)
                case "allocations":
                    self._check(response.allocations)
                    self.progress.advance(len(response.allocations.new))
                    expected -= len(response.allocations.new)
                    responses.append(data)
            if self._received - self._acknowledged >= ACK_EVERY:
                await self._put(ACK)
        return responses

    def _check(self, allocations: AllocationResponse) -> None:
        """Raise BenchError for a rejection, or for an allocation on a refused node."""
        refuse(allocations.rejectedAllocations)
        if self._refused:
            refuse(item for item in allocations.new if item.nodeID in self._refused)

    async def _answer(self, checks: PredicateChecks) -> None:
        answers = UpdateRequest(
            predicate_answers=PredicateAnswers(
                answers=[
                    PredicateAnswer(id=check.id, refused=self._refusals(check.node_ids))
                    for check in checks.checks
                ]
            )
        ).SerializeToString()
        self.traffic.checks += len(checks.checks)
        self.traffic.nodes_asked += sum(len(check.node_ids) for check in checks.checks)
        if self._delay:
            due = asyncio.get_running_loop().time() + self._delay
            self._late.put_nowait((due, answers))
        else:
            await self._send(answers)

    def _refusals(self, node_ids: Iterable[str]) -> list[NodeRefusal]:
        return [
            NodeRefusal(node_id=node_id, reason=REASON) for node_id in node_ids if node_id in self._refused
        ]

    async def _answer_late(self) -> None:
        """Send delayed answers when they are due, in order: all have the same delay."""
        loop = asyncio.get_running_loop()
        while True:
            due, answers = await self._late.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            await self._send(answers)

    async def _read(self) -> tuple[bytes, UpdateResponse]:
        """The next response, raw and parsed."""
        data = await self._call.read()
        if not isinstance(data, bytes):
            raise BenchError("the session ended")
        response = UpdateResponse.FromString(data)
        self._received = max(self._received, response.number)
        self.traffic.responses += 1
        return data, response

    async def _send(self, request: bytes) -> None:
        """Send a request with the next number."""
        async with self._writing:
            self._number += 1
            await self._write(request, self._number)

    async def _put(self, request: bytes) -> None:
        """Send a request without a number."""
        async with self._writing:
            await self._write(request, 0)

    async def _write(self, request: bytes, number: int) -> None:
        self._acknowledged = self._received
        self.traffic.requests += 1
        envelope = UpdateRequest(number=number, acknowledged=self._received)
        # A parser merges the envelope with the request, because it merges concatenated messages.
        await self._call.write(envelope.SerializeToString() + request)


def replayed(
    nodes: Iterable[NodeInfo], applications: Iterable[AddApplicationRequest], batch: int
) -> Iterator[bytes]:
    """A replay of nodes and applications, as messages without their numbers."""
    told = ReplayEnd()
    yield UpdateRequest(replay_begin=ReplayBegin()).SerializeToString()
    for some_nodes in batched(nodes, batch):
        told.nodes += len(some_nodes)
        yield UpdateRequest(nodes=NodeRequest(nodes=some_nodes)).SerializeToString()
    for some in batched(applications, batch):
        told.applications += len(some)
        yield UpdateRequest(applications=ApplicationRequest(new=some)).SerializeToString()
    yield UpdateRequest(replay_end=told).SerializeToString()
