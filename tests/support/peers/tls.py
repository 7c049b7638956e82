"""Credentials: certificates of the tests, and channels that present one or carry a bearer token."""

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from licorne_server.assembly.server import Server
from licorne_server.process.settings import Tls

FILES = Path(__file__).parents[2] / "data" / "tls"
SPIFFE = "spiffe://test/rm"
"""The alternative name in the certificate `rm`."""


def tls(folder: Path = FILES, *, mutual: bool = True) -> Tls:
    """The files of a server."""
    return Tls(
        cert=folder / "server.pem",
        key=folder / "server.key",
        client_ca=folder / "ca.pem" if mutual else None,
    )


@asynccontextmanager
async def connected_as(name: str, server: Server) -> AsyncIterator[grpc.aio.Channel]:
    """A channel with the certificate of that name; an empty name means none."""
    credentials = grpc.ssl_channel_credentials(
        root_certificates=(FILES / "ca.pem").read_bytes(),
        private_key=(FILES / f"{name}.key").read_bytes() if name else None,
        certificate_chain=(FILES / f"{name}.pem").read_bytes() if name else None,
    )
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.secure_channel(server.grpc_address, credentials, options) as channel:
        yield channel


def https(name: str = "", folder: Path = FILES) -> ssl.SSLContext:
    """The settings of an HTTP client: the authority, and the certificate of that name if given."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    if name:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


class Bearing:
    """A channel that adds a token to all calls."""

    def __init__(self, channel: grpc.aio.Channel, *values: str) -> None:
        """Send each of these values as `authorization`."""
        self._channel: Any = channel
        self._metadata = tuple(("authorization", value) for value in values)

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        """The method that opens calls of a kind, such as `unary_unary`."""

        def multicallable(*args: Any, **options: Any) -> Any:
            call = getattr(self._channel, kind)(*args, **options)
            return partial(call, metadata=self._metadata)

        return multicallable
