"""A connection to etcd on which a test counts calls, changes answers, and drops streams."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import Message
from grpc import aio

from licorne_server.store.coordination.etcd_connection import OPTIONS

KEEP_ALIVE = "/etcdserverpb.Lease/LeaseKeepAlive"
WATCH = "/etcdserverpb.Watch/Watch"


class Tap:
    """Connects to servers of etcd, as a proxy in between."""

    def __init__(self) -> None:
        """Create it without faults: everything passes unchanged."""
        self.calls: Counter[str] = Counter()
        """Calls by path."""
        self.tried: Counter[str] = Counter()
        """The server of each call."""
        self.swallowed: set[str] = set()
        """Paths of streams that lose all answers after the first."""
        self.change: Callable[[str, Message], None] = lambda path, answer: None
        """Called with each answer, which it may change."""

    def __call__(self, host: str) -> aio.Channel:
        """A channel to a server."""
        channel: Any = _Channel(self, host)
        return channel  # type: ignore[no-any-return]


class _Channel:
    def __init__(self, tap: Tap, host: str) -> None:
        self._tap = tap
        self._host = host
        self._channel = aio.insecure_channel(host, options=OPTIONS)

    def unary_unary(self, path: str, **codec: Any) -> Callable[..., Any]:
        multicallable: Any = self._channel.unary_unary(path, **codec)

        async def call(request: Message, **options: Any) -> Message:
            self._count(path)
            answer: Message = await multicallable(request, **options)
            self._tap.change(path, answer)
            return answer

        return call

    def stream_stream(self, path: str, **codec: Any) -> Callable[..., Any]:
        multicallable: Any = self._channel.stream_stream(path, **codec)

        def call(requests: Iterator[Message] | None = None, **options: Any) -> "_Stream":
            self._count(path)
            return _Stream(self._tap, path, multicallable(requests, **options))

        return call

    async def close(self) -> None:
        await self._channel.close()

    def _count(self, path: str) -> None:
        self._tap.calls[path] += 1
        self._tap.tried[self._host] += 1


class _Stream:
    def __init__(self, tap: Tap, path: str, call: Any) -> None:
        self._tap = tap
        self._path = path
        self._call = call
        self._answers = 0

    async def write(self, request: Message) -> None:
        await self._call.write(request)

    async def read(self) -> Any:
        while True:
            answer = await self._call.read()
            self._answers += 1
            if isinstance(answer, Message):
                if self._answers > 1 and self._path in self._tap.swallowed:
                    continue
                self._tap.change(self._path, answer)
            return answer

    def cancel(self) -> None:
        self._call.cancel()
