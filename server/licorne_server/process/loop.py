"""The event loop that the server runs on: asyncio's own, with one fault of grpc.aio mended.

A thread of grpc.aio writes a byte into a socket for every event, and blocks while the socket is
full. The loop's side reads one byte and then handles any number of events. So under load bytes
pile up until the thread blocks, and no message gets in or out for a hundred rounds of the loop.
This loop takes all bytes but one before grpc.aio reads. Other sockets are not touched.

Also here:

* Tasks that run to completion even if their caller is cancelled.
"""

import asyncio
import fcntl
import functools
import selectors
import socket
import struct
import termios
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

import structlog

_Args = TypeVarTuple("_Args")
_INT = struct.calcsize("i")


class ServerLoop(asyncio.SelectorEventLoop):
    """A selector loop that keeps the wake-up socket of grpc.aio from filling."""

    def __init__(self) -> None:
        """Use the best selector of this system."""
        super().__init__(selectors.DefaultSelector())

    def add_reader(self, fd: Any, callback: Callable[[*_Args], Any], *args: *_Args) -> None:
        """Watch a file descriptor; grpc.aio's own is drained each time before it is read."""
        if isinstance(fd, socket.socket) and _is_of_grpc(callback):
            super().add_reader(fd, _serve_drained, fd, functools.partial(callback, *args))
        else:
            super().add_reader(fd, callback, *args)


def _is_of_grpc(callback: Callable[..., Any]) -> bool:
    handler = callback.func if isinstance(callback, functools.partial) else callback
    return getattr(handler, "__name__", "") == "_handle_events"


def _serve_drained(wakes: socket.socket, serve: Callable[[], Any]) -> None:
    """Take all bytes but the one that `serve` expects, then call it."""
    waiting: int = struct.unpack("i", fcntl.ioctl(wakes, termios.FIONREAD, bytes(_INT)))[0]
    if waiting > 1:
        wakes.recv(waiting - 1)
    serve()


log = structlog.get_logger("core.undisturbed")
T = TypeVar("T")


class RunToCompletion:
    """Runs work in tasks of its own: a caller that is cancelled leaves after the work's end."""

    def __init__(self, what: str) -> None:
        """Start without work. `what` names it in the log."""
        self._what = what
        self._begun: set[asyncio.Task[Any]] = set()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out the work to its end; returns or raises its result.

        Raises:
            CancelledError: the caller was cancelled meanwhile.
        """
        task = asyncio.get_running_loop().create_task(work, name=self._what)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is None:
            return task.result()
        if not task.cancelled() and (failure := task.exception()) is not None:
            log.warning(f"{self._what} failed, its caller has gone", error=str(failure))
        raise cancelled

    async def stop(self) -> None:
        """Wait until all that has begun is carried out."""
        if self._begun:
            await asyncio.wait(self._begun)
