"""What a client can be told about its connection."""

from dataclasses import dataclass
from pathlib import Path

import grpc


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Certificate files in PEM. They are read again for every new channel, so they can be renewed.

    Without `ca` the roots of gRPC are trusted; `certificate` and `key` make it mutual TLS.
    `server_name` is the name to expect in the server's certificate where it is not the target's.
    """

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials as the files are now. Raises OSError when one cannot be read."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.certificate),
        )


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """When to try again; all times in seconds.

    The wait is random below a ceiling that starts at `initial`, doubles up to `maximum` and
    starts over after `stable` seconds of connection. `give_up_after` seconds without a
    session the client fails with `ConnectionLost`; None, the default, means never.
    """

    initial: float = 0.1
    maximum: float = 30.0
    stable: float = 60.0
    give_up_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much the client keeps in memory on the way out and on the way in.

    `outgoing` items may wait to be sent before calls wait; `resend` sent requests are kept for a
    resumption (beyond it a lost stream costs a replay); `events` may wait for their consumer
    before the client stops reading, which in the end makes the server hold this RM.
    """

    outgoing: int = 50_000
    resend: int = 1_000
    events: int = 50_000
