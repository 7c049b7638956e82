"""Opens a command's channel, with its credentials, to the first of its targets that has a server."""

import argparse
import queue
import time
from typing import Any

import grpc

from licorne.errors import Unauthorized
from licorne.options import TlsConfig, authorization, check_token
from licorne_cli.connection.tls import channel_credentials, tls_of
from licorne_cli.failures import UsageError

OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    # A command that follows events must detect that the server disappeared without closing.
    ("grpc.keepalive_time_ms", 30_000),
)


class _Bearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor):
    """Adds the token to the metadata."""

    def __init__(self, value: str) -> None:
        self._pair = ("authorization", value)

    def intercept_unary_unary(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._extended(client_call_details), request)

    def intercept_unary_stream(self, continuation: Any, client_call_details: Any, request: Any) -> Any:
        return continuation(self._extended(client_call_details), request)

    def _extended(self, details: Any) -> Any:
        return details._replace(metadata=(*(details.metadata or ()), self._pair))


def open_channel(args: argparse.Namespace) -> grpc.Channel:
    """A channel to the target, with the token if there is one; of several targets, the first with a server.

    Raises:
        TlsFilesError: a file of the TLS options is unusable.
        UsageError: the token is unusable, or must not be sent to this target.
    """
    tls = tls_of(args)
    if args.token is None:
        return _first_channel(args, tls)
    try:
        for target in args.targets:
            check_token(args.token, tls, target)
        [(_, value)] = authorization(args.token)
    except OSError as error:
        raise UsageError(f"cannot read {args.token}: {error.strerror}") from None
    except (ValueError, Unauthorized) as error:
        raise UsageError(f"--token {args.token}: {error}") from None
    return grpc.intercept_channel(_first_channel(args, tls), _Bearer(value))


def _first_channel(args: argparse.Namespace, tls: TlsConfig | None) -> grpc.Channel:
    """A channel to the first target with a server, which becomes the target in use."""
    if len(args.targets) > 1:
        for target in args.targets:
            channel = _channel(target, tls)
            if _connects(channel, args.timeout / len(args.targets)):
                args.target = target
                return channel
            channel.close()
    return _channel(args.targets[0], tls)


def _connects(channel: grpc.Channel, patience: float) -> bool:
    """True if a channel connects within this number of seconds."""
    states: queue.SimpleQueue[grpc.ChannelConnectivity] = queue.SimpleQueue()
    ends = time.monotonic() + patience
    note = states.put
    channel.subscribe(note, try_to_connect=True)
    try:
        while (state := states.get(timeout=max(0.0, ends - time.monotonic()))) in _NOT_YET:
            pass
    except queue.Empty:
        return False
    finally:
        channel.unsubscribe(note)
    return state is grpc.ChannelConnectivity.READY


_NOT_YET = frozenset({grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.CONNECTING})


def _channel(where: str, tls: TlsConfig | None) -> grpc.Channel:
    if tls is None:
        return grpc.insecure_channel(where, options=OPTIONS)
    options: tuple[tuple[str, int | str], ...] = OPTIONS
    if tls.server_name:
        options = (*OPTIONS, ("grpc.ssl_target_name_override", tls.server_name))
    return grpc.secure_channel(where, channel_credentials(tls), options=options)
