"""The service of the backend `local`: the store of a supervisor, served over a Unix socket."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import grpc
from google.protobuf.message import Message

from licorne_core.values.ids import RmId
from licorne_server.process.clock import Clock
from licorne_server.process.coordination import MOST_LEASE
from licorne_server.process.loop import RunToCompletion, stop_task
from licorne_server.store.coordination.local_messages import (
    REREAD,
    SERVICE,
    UNBOUNDED,
    member_of,
    owned_message,
    owned_of,
    serialized,
    snapshot_message,
)
from licorne_server.store.coordination.local_records import Records
from licorne_server.store.coordination.pb import local_pb2 as pb
from licorne_server.store.coordination.store import Conflict, Document, LeaseLost, MemberId, StoreError

Request = TypeVar("Request", bound=Message)

CODES = {Conflict: grpc.StatusCode.ABORTED, LeaseLost: grpc.StatusCode.FAILED_PRECONDITION}
"""Status of an error; of any other `StoreError` it is UNAVAILABLE."""


class Storage(ABC):
    """What outlives the supervisor. Each method raises StoreError if the disk refuses."""

    @abstractmethod
    def keeps(self, key: str) -> bool:
        """True for a document that is stored."""

    @abstractmethod
    async def write(self, key: str, before: Document, value: bytes | None) -> None:
        """Store the new value of a document, None for none; it is durable when this returns."""

    @abstractmethod
    async def prepare(self, key: str, value: bytes) -> None:
        """Make room for a `write` of the same value."""

    @abstractmethod
    async def discard(self, key: str) -> None:
        """Give up that room."""


class LocalService:
    """Serves the records to members, and wakes those who watch."""

    records: Records

    def __init__(self, records: Records, clock: Clock, storage: Storage | None = None) -> None:
        """Nothing listens before `start`. Documents that the storage keeps are changed there first."""
        self.records = records
        self._clock = clock
        self._storage = storage
        # Held while a stored document changes, from the check to the answer.
        self._storing = asyncio.Lock()
        self._changes = RunToCompletion("change of a stored document")
        self._told = records.changes
        self._changed = asyncio.Event()
        self._wake = asyncio.Event()
        self._server: grpc.aio.Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, path: Path) -> None:
        """Listen on a socket of that path, whose folder keeps others out.

        Raises:
            OSError: it cannot.
        """
        options = [*UNBOUNDED, ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(options=options)
        self._server.add_generic_rpc_handlers([self._handler()])
        try:
            self._server.add_insecure_port(f"unix:{path}")
        except RuntimeError as error:
            raise OSError(f"cannot listen on {path}: {error}") from None
        await self._server.start()
        self._task = asyncio.create_task(self._end_leases(), name="leases")

    async def stop(self) -> None:
        """Stop listening; calls under way are cut off."""
        await stop_task(self._task)
        if self._server is not None:
            await self._server.stop(None)
        await self._changes.stop()

    def changed(self) -> None:
        """Wake those who watch, if the records have changed."""
        if self._told != self.records.changes:
            self._told = self.records.changes
            self._changed.set()
            self._changed = asyncio.Event()
            self._wake.set()

    async def _end_leases(self) -> None:
        """End each lease in its time, so that those who watch are told."""
        while True:
            self.records.expire(self._clock.now())
            self.changed()
            self._wake.clear()
            # A lease that is renewed meanwhile ends later; a join is a change, which wakes this.
            await self._clock.wait(self.records.next_end(), self._wake)

    def _handler(self) -> grpc.GenericRpcHandler:
        records, now = self.records, self._clock.now

        async def join(request: pb.Join) -> Message:
            if not 0 < request.lease <= MOST_LEASE:
                raise ValueError(f"lease: seconds up to {MOST_LEASE:g} were expected: {request.lease}")
            records.join(member_of(request.member), request.lease, now())
            return pb.Nothing()

        async def renew(request: pb.Member) -> Message:
            records.renew(member_of(request), now())
            return pb.Nothing()

        async def end(request: pb.End) -> Message:
            records.end(MemberId(request.member))
            return pb.Nothing()

        async def claim(request: pb.Claim) -> Message:
            seen = owned_of(request.seen) if request.HasField("seen") else None
            by, owner = MemberId(request.by), MemberId(request.owner)
            return owned_message(records.claim(by, RmId(request.rm_id), owner, seen, request.at_least, now()))

        async def release(request: pb.Release) -> Message:
            return owned_message(records.release(MemberId(request.by), owned_of(request.owned)))

        async def read(request: pb.Key) -> Message:
            found = records.read(request.key)
            return pb.Document(value=found.value, revision=found.revision)

        served: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Join": self._method(pb.Join, join),
            "Renew": self._method(pb.Member, renew),
            "End": self._method(pb.End, end),
            "Claim": self._method(pb.Claim, claim),
            "Release": self._method(pb.Release, release),
            "Look": self._method(pb.Look, self._look),
            "Read": self._method(pb.Key, read),
            "Replace": self._method(pb.Replacement, self._replace),
            "Prepare": self._method(pb.Replacement, self._prepare),
            "Discard": self._method(pb.Key, self._discard),
        }
        return grpc.method_handlers_generic_handler(SERVICE, served)

    async def _replace(self, request: pb.Replacement) -> Message:
        value = request.value if request.HasField("value") else None
        # A caller that has gone leaves no document that is on the disk and not in the records.
        change = self._change(request.key, value, request.revision)
        return pb.Document(revision=await self._changes.run(change))

    async def _change(self, key: str, value: bytes | None, revision: int) -> int:
        if self._storage is None or not self._storage.keeps(key):
            return self.records.compare_and_set(key, value, revision)
        async with self._storing:
            self.records.check(key, value, revision)
            await self._storage.write(key, self.records.read(key), value)
            return self.records.compare_and_set(key, value, revision)

    async def _prepare(self, request: pb.Replacement) -> Message:
        self.records.check(request.key, request.value, request.revision)
        if self._storage is not None and self._storage.keeps(request.key):
            await self._storage.prepare(request.key, request.value)
        return pb.Nothing()

    async def _discard(self, request: pb.Key) -> Message:
        if self._storage is not None and self._storage.keeps(request.key):
            await self._storage.discard(request.key)
        return pb.Nothing()

    async def _look(self, request: pb.Look) -> Message:
        if request.changes == self.records.changes:
            with suppress(TimeoutError):
                async with asyncio.timeout(REREAD):
                    await self._changed.wait()
        snapshot = self.records.snapshot(self._clock.now())
        return snapshot_message(snapshot, self.records.changes, request.documents)

    def _method(
        self, request: type[Request], serve: Callable[[Request], Awaitable[Message]]
    ) -> "grpc.RpcMethodHandler[Request, Message]":
        """A unary call; an error of the store becomes the status of the call."""

        async def handle(asked: Request, context: Any) -> Message:
            try:
                return await serve(asked)
            except StoreError as error:
                await context.abort(CODES.get(type(error), grpc.StatusCode.UNAVAILABLE), str(error))
            except ValueError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
            finally:
                self.changed()
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(
            handle,
            request_deserializer=request.FromString,
            response_serializer=serialized,
        )
