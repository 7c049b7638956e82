"""The environment of tests, independent of the caller of pytest and of other programs on the machine."""

import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import grpc
import pytest

from licorne_cli.connection.target import DEFAULT_PORT
from licorne_cli.server.healthcheck import HERE

CLOSED = "127.0.0.1:1"
"""An address without a listener."""

DEFAULT_PORTS = frozenset({DEFAULT_PORT, urlsplit(HERE[0]).port})
"""The default ports, where a user's own server may listen."""

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1", "[::1]"})
_KEPT = frozenset({"LICORNE_REWRITE", "LICORNE_HELM", "LICORNE_CHECK", "LICORNE_BIN"})
"""Variables by which the caller of the tests configures them."""
_MEANT_FOR_OTHERS = frozenset({"NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "DISABLE_RESERVATION"})


def is_meant_for_others(name: str) -> bool:
    """True if an environment variable would change the commands under test."""
    return (
        name in _MEANT_FOR_OTHERS
        or name.lower().endswith("_proxy")
        or (name.startswith("LICORNE_") and name not in _KEPT)
    )


def guard_default_addresses(patch: pytest.MonkeyPatch) -> None:
    """Fail a test that connects to a default address of this machine from this process.

    It fails with or without a listener there, and nothing is sent.
    """
    for module in (grpc, grpc.aio):
        for name in ("insecure_channel", "secure_channel"):
            patch.setattr(module, name, _guarded(getattr(module, name)))
    connect = socket.socket.connect

    def guarded(sock: socket.socket, address: Any) -> None:
        try:
            if isinstance(address, tuple):
                _check(address[0], address[1])
        except pytest.fail.Exception:
            sock.close()
            raise
        connect(sock, address)

    patch.setattr(socket.socket, "connect", guarded)


def _guarded(make: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(target: str, *args: Any, **options: Any) -> Any:
        host, _, port = target.rpartition(":")
        _check(host, int(port) if port.isdecimal() else 0)
        return make(target, *args, **options)

    return guarded


def _check(host: str, port: int) -> None:
    if host in _LOOPBACK and port in DEFAULT_PORTS:
        pytest.fail(f"the test turns to {host}:{port}, where somebody's own server may listen")
