"""A server that follows a script, for rare behaviour of a real server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import grpc

from licorne import Application, Client, RetryConfig, TaskGroup
from licorne.v1.session_pb2 import ReplayResult, UpdateRequest, UpdateResponse, Welcome
from licorne.v1.session_pb2_grpc import SessionServicer, add_SessionServicer_to_server

QUICK = RetryConfig(initial=0.01, maximum=0.02)

# A gang of two workers and a leader

WORKERS = TaskGroup(
    name="w",
    members=2,
    resources={"vcore": 500, "memory": 10},
    priority=3,
    tags={"zone": "a"},
    allow_preempt_self=True,
)
LEADER = TaskGroup(name="lead", members=1, resources={"vcore": 100})
GANG = Application(
    application_id="a",
    user="ann",
    task_groups=(WORKERS, LEADER),
    gang_style="Hard",
    placeholder_timeout=60,
)
KEYS = ["a-w-placeholder-1", "a-w-placeholder-2", "a-lead-placeholder-1"]
FIRST = KEYS[0]


class ScriptedStream:
    """The server's side of one stream."""

    def __init__(self, context: Any) -> None:
        """Use a servicer context."""
        self._context = context
        self.epoch = 1
        self.session = 1

    async def read(self) -> UpdateRequest | None:
        """The next request, or None at the end; heartbeats and acknowledgements are skipped."""
        while True:
            request = await self._context.read()
            if request is grpc.aio.EOF:
                return None
            if request.WhichOneof("message") not in ("heartbeat", "ack"):
                found: UpdateRequest = request
                return found

    async def write(self, **fields: Any) -> None:
        """Send a response of this epoch and session."""
        fields = {"epoch": self.epoch, "session": self.session, **fields}
        await self._context.write(UpdateResponse(**fields))

    async def abort(self, code: grpc.StatusCode, text: str) -> None:
        """End the stream with an error."""
        await self._context.abort(code, text)

    async def end(self, code: grpc.StatusCode, details: bytes) -> None:
        """End the stream with an error that has details."""
        self._context.set_trailing_metadata((("grpc-status-details-bin", details),))
        await self._context.abort(code, "")

    async def welcome(self, **fields: Any) -> UpdateRequest:
        """Read the hello and answer it; return the hello."""
        hello = await self.read()
        assert hello is not None
        fields = {"resume_token": "token", "heartbeat_seconds": 10, "max_items": 1000, **fields}
        await self.write(welcome=Welcome(**fields))
        return hello

    async def until_goodbye(self) -> None:
        """Read until the client says goodbye."""
        while (request := await self.read()) is not None:
            if request.HasField("goodbye"):
                return

    async def replay(self, *, complete: bool = True, number: int = 1) -> list[UpdateRequest]:
        """Read a complete replay and answer it; return its requests."""
        requests = await self.read_replay()
        await self.answer_replay(requests, complete=complete, number=number)
        return requests

    async def read_replay(self) -> list[UpdateRequest]:
        """Read a complete replay."""
        requests: list[UpdateRequest] = []
        while not (requests and requests[-1].HasField("replay_end")):
            request = await self.read()
            assert request is not None
            requests.append(request)
        return requests

    async def answer_replay(
        self, requests: list[UpdateRequest], *, complete: bool = True, number: int = 1
    ) -> None:
        """Send the result of a replay. A client may end the stream on receipt."""
        result = ReplayResult(complete=complete, reason="" if complete else "a node is missing")
        await self.write(number=number, acknowledged=requests[-1].number, replay_result=result)


Script = Callable[[ScriptedStream], Awaitable[None]]


@asynccontextmanager
async def scripted(*scripts: Script) -> AsyncIterator[str]:
    """A server that plays one script for each stream in turn; the block receives its address.

    An error in a script, such as a failed assertion, is raised at the end of the block.
    """
    waiting = list(scripts)
    failures: list[BaseException] = []

    class Servicer(SessionServicer):
        async def Update(self, request_iterator: Any, context: Any) -> None:  # type: ignore[override]  # noqa: N802
            if not waiting:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the script is over")
            try:
                await waiting.pop(0)(ScriptedStream(context))
            except (asyncio.CancelledError, grpc.aio.AbortError):
                raise
            except BaseException as failure:
                failures.append(failure)
                raise

    server = grpc.aio.server()
    add_SessionServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
    if failures:
        raise failures[0]


@asynccontextmanager
async def listening(target: str, **fields: Any) -> AsyncIterator[Client]:
    """A client that reconnects quickly, with a reader of its events."""

    async def listen(client: Client) -> None:
        async for _ in client.events():
            pass

    async with Client(target, rm_id="rm1", retry=QUICK, **fields) as client:
        listener = asyncio.create_task(listen(client))
        yield client
    await listener


def served(play: Script) -> Script:
    """The script, preceded by a welcome and a complete replay, and followed by a wait for the goodbye."""

    @wraps(play)
    async def script(stream: ScriptedStream) -> None:
        await stream.welcome()
        await stream.replay()
        await play(stream)
        await stream.until_goodbye()

    return script


@served
async def welcomes(stream: ScriptedStream) -> None:
    """Serve the client until its goodbye."""
