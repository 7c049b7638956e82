"""An RM that is asked about its nodes: one session, and every tenth node refused.

As lean as the driver of the other scenarios: what is sent was made beforehand, and a response is
parsed once.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

import grpc

from licorne.si.v1.si_pb2 import (
    AddApplicationRequest,
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
    PredicateAnswer,
    PredicateCheck,
    Predicates,
    ReplayBegin,
    ReplayEnd,
    UpdateRequest,
    UpdateResponse,
)
from licorne.v1.session_pb2_grpc import SessionStub
from licorne_server.bench.driver import OPTIONS, BenchError, refuse
from licorne_server.bench.workload import batched

REASON = "refused by the benchmark"
ACK_EVERY = 64


def refused(node_id: str) -> bool:
    """Whether the RM does not want anything on a node: one in ten."""
    return node_id.endswith("0")


class AskedRm:
    """One RM with its session. Use as a context manager."""

    def __init__(self, target: str, rm_id: str) -> None:
        """Nothing is sent before `open`."""
        self.rm_id = rm_id
        self.checks = 0
        self.nodes_asked = 0
        self._channel = grpc.aio.insecure_channel(target, options=OPTIONS)
        self._call = SessionStub(self._channel).Update()
        # One writer at a time: a second one makes the stream fail.
        self._writing = asyncio.Lock()
        self._number = 0
        self._received = 0
        self._acknowledged = 0

    async def __aenter__(self) -> Self:
        """As it was made."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The call first, then the channel."""
        self._call.cancel()
        with suppress(asyncio.CancelledError):
            await self._call.code()
        await self._channel.close()

    async def open(
        self,
        config: str,
        nodes: Iterable[NodeInfo],
        applications: Iterable[AddApplicationRequest],
    ) -> None:
        """Register, and replay nodes and applications."""
        hello = Hello(
            rm_id=self.rm_id,
            instance=1,
            protocol=1,
            registration=RegisterResourceManagerRequest(version="bench", config=config),
            callbacks=Callbacks(predicates=Predicates()),
        )
        await self._call.write(UpdateRequest(hello=hello))
        await self._send(UpdateRequest(replay_begin=ReplayBegin()))
        told = ReplayEnd()
        for node_batch in batched(nodes):
            told.nodes += len(node_batch)
            await self._send(UpdateRequest(nodes=NodeRequest(nodes=node_batch)))
        for batch in batched(applications):
            told.applications += len(batch)
            await self._send(UpdateRequest(applications=ApplicationRequest(new=batch)))
        await self._send(UpdateRequest(replay_end=told))
        while not (response := await self._read()).HasField("replay_result"):
            refuse(response.nodes.rejected)
            refuse(response.applications.rejected)
        if not response.replay_result.complete:
            raise BenchError(f"the replay is not complete: {response.replay_result.reason}")

    async def place(self, requests: Iterable[UpdateRequest], expected: int) -> list[bytes]:
        """Send everything while answering, until `expected` asks are placed.

        Returns the AllocationResponses in bytes.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._send_all(requests))
            reading = group.create_task(self._placed(expected))
        return reading.result()

    async def _send_all(self, requests: Iterable[UpdateRequest]) -> None:
        for request in requests:
            await self._send(request)

    async def _placed(self, expected: int) -> list[bytes]:
        responses = []
        while expected > 0:
            response = await self._read()
            match response.WhichOneof("message"):
                case "predicate_check":
                    await self._send(self._answer(response.predicate_check))
                case "allocations":
                    refuse(response.allocations.rejectedAllocations)
                    refuse(item for item in response.allocations.new if refused(item.nodeID))
                    expected -= len(response.allocations.new)
                    responses.append(response.allocations.SerializeToString())
            if self._received - self._acknowledged >= ACK_EVERY:
                await self._write(UpdateRequest(ack=Ack()))
        return responses

    def _answer(self, check: PredicateCheck) -> UpdateRequest:
        self.checks += 1
        self.nodes_asked += len(check.node_ids)
        refusals = [
            NodeRefusal(node_id=node_id, reason=REASON)
            for node_id in check.node_ids
            if refused(node_id)
        ]
        return UpdateRequest(predicate_answer=PredicateAnswer(id=check.id, refused=refusals))

    async def _read(self) -> UpdateResponse:
        response = await self._call.read()
        if not isinstance(response, UpdateResponse):
            raise BenchError("the session ended")
        self._received = max(self._received, response.number)
        return response

    async def _send(self, request: UpdateRequest) -> None:
        """Send a numbered request."""
        async with self._writing:
            self._number += 1
            request.number = self._number
            await self._put(request)

    async def _write(self, request: UpdateRequest) -> None:
        """Send one that has no number."""
        async with self._writing:
            await self._put(request)

    async def _put(self, request: UpdateRequest) -> None:
        self._acknowledged = request.acknowledged = self._received
        await self._call.write(request)
