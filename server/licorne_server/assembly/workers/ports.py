"""Addresses shared by several processes: the kernel spreads connections over them (SO_REUSEPORT)."""

import socket
from collections.abc import Sequence
from typing import Any

from licorne_server.process.settings import Address, SettingsError


class Reservation:
    """A port reserved for the workers of one supervisor, until `close`."""

    address: Address
    """The address with the port that was bound."""

    def __init__(self, address: Address) -> None:
        """Bind the port without listening. Port 0 means any free one.

        Raises:
            SettingsError: the address is in use, or cannot be used.
        """
        self._sockets: list[socket.socket] = []
        self.address = address
        try:
            found = socket.getaddrinfo(
                address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, kind, protocol, _, where in found:
                self._bind(socket.socket(family, kind, protocol), where)
        except OSError as error:
            self.close()
            raise SettingsError(f"cannot listen on {address}: {error.strerror or error}") from None

    def close(self) -> None:
        """Release the port."""
        for each in self._sockets:
            each.close()

    def _bind(self, bound: socket.socket, where: Sequence[Any]) -> None:
        self._sockets.append(bound)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        host, _, *rest = where
        # First bind without sharing: a port in use is refused, even if its user shares it.
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, self.address.port, *rest))
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self.address = self.address.with_port(bound.getsockname()[1])
