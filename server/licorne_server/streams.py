"""One open bidirectional call: a reader, exactly one writer, and how they end together.

In grpc.aio two tasks that write to one stream break it, a lost client and a half-closed one
look alike to a reader, and swallowing a cancellation leaks native memory (ecosystem § 1.2). Hence:
all writes come from one coroutine, the end of input only ends a stream once what
waits is written, and cancellation always goes on up.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import grpc

from licorne_server.errors import CallError

FLUSH_SECONDS = 5.0
"""How long what waits may still be written after the RM's side has ended."""


class Stream:
    """A call that somebody else may have to end: a newer one, a drain, a failure of the core."""

    def __init__(self, context: Any) -> None:
        """Over a `grpc.aio` servicer context."""
        self._context = context
        self._ended: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()
        self._last_word: CallError | None = None
        self._wake: Callable[[], None] | None = None
        self._reading_since: float | None = None
        self.wrote_at = 0.0
        self.wrote_items = 0
        self.finishing = asyncio.Event()
        self.closed = asyncio.Event()

    def end(self, error: CallError | None = None) -> None:
        """End the call from outside, with an error or in order; the first call counts."""
        if not self._ended.done():
            self._ended.set_result(error)

    def finish(self, error: CallError | None = None) -> None:
        """End the call, with an error or in order, once its writer has written what waits."""
        self._last_word = self._last_word or error
        self.finishing.set()
        if self._wake is not None:
            self._wake()

    async def read(self) -> bytes | None:
        """The next message of the RM; None when its side has ended, orderly or not."""
        self._reading_since = asyncio.get_running_loop().time()
        raw = await self._context.read()
        self._reading_since = None
        return None if raw is grpc.aio.EOF else raw

    def silence(self) -> float:
        """Seconds for which a message of the RM has been waited for."""
        since = self._reading_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def write(self, raw: bytes) -> None:
        """Send a message; only the stream's one writer may."""
        self.wrote_at = asyncio.get_running_loop().time()
        await self._context.write(raw)

    async def run(
        self,
        read: Coroutine[Any, Any, None],
        write: Coroutine[Any, Any, None],
        wake: Callable[[], None],
    ) -> None:
        """Run both sides until the reader is through and the writer has flushed, or one fails.

        `wake` makes a waiting writer look around.

        Raises:
            CallError: the call was ended from outside, or by one of the two.
        """
        self._wake = wake
        reader: asyncio.Future[Any] = asyncio.ensure_future(read)
        writer: asyncio.Future[Any] = asyncio.ensure_future(write)
        ended: asyncio.Future[Any] = self._ended
        both = (reader, writer)
        try:
            await asyncio.wait((*both, ended), return_when=asyncio.FIRST_COMPLETED)
            if reader.done() and not reader.exception() and not self._ended.done():
                self.finish()
                await asyncio.wait(
                    (writer, ended), timeout=FLUSH_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
        finally:
            for task in both:
                task.cancel()
            await asyncio.wait(both)
            self.closed.set()
        if self._ended.done():
            error = self._ended.result()
            if error is not None:
                raise error
        for task in both:
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure
        if self._last_word is not None:
            raise self._last_word
