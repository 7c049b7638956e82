"""A channel whose every call carries a bearer token."""

from typing import Any, NamedTuple

import grpc


class _Details(NamedTuple):
    """The details of a call, as gRPC takes them."""

    method: str
    timeout: float | None
    metadata: Any
    credentials: Any
    wait_for_ready: Any
    compression: Any


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds the token to the metadata."""

    def __init__(self, value: str) -> None:
        self._pair = ("authorization", value)

    def intercept_unary_unary(
        self, continuation: Any, client_call_details: Any, request: Any
    ) -> Any:
        return continuation(self._extended(client_call_details), request)

    def intercept_unary_stream(
        self, continuation: Any, client_call_details: Any, request: Any
    ) -> Any:
        return continuation(self._extended(client_call_details), request)

    def _extended(self, details: Any) -> _Details:
        return _Details(
            details.method,
            details.timeout,
            (*(details.metadata or ()), self._pair),
            details.credentials,
            details.wait_for_ready,
            details.compression,
        )


def bearing(channel: grpc.Channel, value: str) -> grpc.Channel:
    """The channel, with that value of `authorization` on every call."""
    return grpc.intercept_channel(channel, _Bearer(value))
