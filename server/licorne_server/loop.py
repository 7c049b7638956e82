"""The event loop that the server runs on: asyncio's own, with one fault of grpc.aio mended.

A thread of grpc.aio writes one byte into a socket for every event, and may block when that is
full; the loop's side takes one byte for any number of events. Under load the bytes pile
up until the thread stands still, and no message gets in or out for a hundred rounds of the
loop. Here all bytes but one are taken before grpc.aio looks. Whatever else is read is left alone.
"""

import asyncio
import fcntl
import functools
import selectors
import socket
import struct
import termios
from collections.abc import Callable
from typing import Any, TypeVarTuple

_Args = TypeVarTuple("_Args")
_INT = struct.calcsize("i")


class ServerLoop(asyncio.SelectorEventLoop):
    """A selector loop that keeps the wake-up socket of grpc.aio from filling."""

    def __init__(self) -> None:
        """With the selector that is best here."""
        super().__init__(selectors.DefaultSelector())

    def add_reader(self, fd: Any, callback: Callable[[*_Args], Any], *args: *_Args) -> None:
        """Watch a file descriptor; that of grpc.aio's events is drained before it is served."""
        if isinstance(fd, socket.socket) and _is_of_grpc(callback):
            super().add_reader(fd, _serve_drained, fd, functools.partial(callback, *args))
        else:
            super().add_reader(fd, callback, *args)


def _is_of_grpc(callback: Callable[..., Any]) -> bool:
    handler = callback.func if isinstance(callback, functools.partial) else callback
    return getattr(handler, "__name__", "") == "_handle_events"


def _serve_drained(wakes: socket.socket, serve: Callable[[], Any]) -> None:
    """Leave the one byte that is expected, and let the events be served."""
    waiting: int = struct.unpack("i", fcntl.ioctl(wakes, termios.FIONREAD, bytes(_INT)))[0]
    if waiting > 1:
        wakes.recv(waiting - 1)
    serve()
