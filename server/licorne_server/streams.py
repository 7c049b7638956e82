"""One open bidirectional call: a reader, exactly one writer, and how they end together.

In grpc.aio two tasks that write to one stream break it, a lost client and a half-closed one
look alike to a reader, and swallowing a cancellation leaks native memory (ecosystem § 1.2). Hence:
all writes come from one coroutine, the end of input only ends a stream once what
waits is written, and cancellation always goes on up. A request that was begun is the exception:
the core cannot take half of it back, so it is carried out to its end and counted before the
stream counts as closed.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import grpc

from licorne_server.errors import CallError, unavailable

FIRST_SECONDS = 30.0
"""How long a stream may be open without a word; nobody knows yet whose it is."""

FLUSH_SECONDS = 5.0
"""How long what waits may still be written after the RM's side has ended."""

PACE_SECONDS = 0.002
ENOUGH_ITEMS = 256
FEW_ITEMS = 8
"""Who got no more than that the last time is not being flooded, and should not wait."""


class Stream:
    """A call that somebody else may have to end: a newer one, a drain, a failure of the core."""

    def __init__(self, context: Any) -> None:
        """Over a `grpc.aio` servicer context."""
        self._context = context
        self._ended: asyncio.Future[CallError | None] = asyncio.get_running_loop().create_future()
        self._last_word: CallError | None = None
        self._wake: Callable[[], None] | None = None
        self._reading_since: float | None = None
        self._uncut = False
        self._over = False
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

    async def first(self) -> bytes | None:
        """The first message of the RM; None when its side has ended without one.

        Raises:
            CallError: UNAVAILABLE, it did not come in time.
        """
        try:
            async with asyncio.timeout(FIRST_SECONDS):
                return await self.read()
        except TimeoutError:
            message = f"nothing was said for {FIRST_SECONDS:.0f} s after the stream was opened"
            raise unavailable(message, 0.0) from None

    async def read(self) -> bytes | None:
        """The next message of the RM; None when the stream or its side of it has ended."""
        if self._over:
            return None
        self._reading_since = asyncio.get_running_loop().time()
        raw = await self._context.read()
        self._reading_since = None
        return None if raw is grpc.aio.EOF else raw

    @contextmanager
    def uncut(self) -> Iterator[None]:
        """What the reader begins inside it also ends, whatever becomes of the stream meanwhile."""
        self._uncut = True
        try:
            yield
        finally:
            self._uncut = False

    def silence(self) -> float:
        """Seconds for which a message of the RM has been waited for."""
        since = self._reading_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    async def write(self, raw: bytes) -> None:
        """Send a message; only the stream's one writer may."""
        self.wrote_at = asyncio.get_running_loop().time()
        await self._context.write(raw)

    async def more_may_come(self, items: int, *, busy: bool) -> bool:
        """Wait a moment before a small message if another has just gone out and work goes on.

        A message costs the same whatever is in it: under load few big ones are sent, while what
        comes alone leaves at once. True after a wait: the outbox has to be looked at again.
        """
        if items >= ENOUGH_ITEMS or self.wrote_items < FEW_ITEMS or not busy:
            return False
        pause = self.wrote_at + PACE_SECONDS - asyncio.get_running_loop().time()
        if pause <= 0:
            return False
        await asyncio.sleep(pause)
        return True

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
            self._over = True
            writer.cancel()
            if not self._uncut:
                reader.cancel()
            await self._settle(both)
        if self._ended.done():
            error = self._ended.result()
            if error is not None:
                raise error
        for task in both:
            if not task.cancelled() and (failure := task.exception()) is not None:
                raise failure
        if self._last_word is not None:
            raise self._last_word

    async def _settle(self, both: tuple[asyncio.Future[Any], ...]) -> None:
        """Wait for both to end; `closed` tells the truth even if this is cancelled meanwhile."""
        settled = asyncio.ensure_future(asyncio.wait(both))
        try:
            await asyncio.shield(settled)
        except asyncio.CancelledError:
            settled.add_done_callback(lambda _: self.closed.set())
            raise
        self.closed.set()
