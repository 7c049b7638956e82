"""The options of a client's connection."""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import grpc

from licorne.errors import Unauthorized
from licorne.values import flag, seconds, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsConfig:
    """Certificate files in PEM. They can be replaced at any time, because every new channel reads them again.

    `certificate` and `key` are needed for mutual TLS, in which the server authenticates the client.
    """

    ca: Path | None = None
    """The trusted certificate authorities; None for the default ones of gRPC."""
    certificate: Path | None = None
    """The client's certificate chain."""
    key: Path | None = None
    """The private key of the client's certificate."""
    server_name: str = ""
    """The name expected in the server's certificate; empty for the host name of the target."""

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files. Raises OSError if a file cannot be read."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.certificate),
        )


Token = Path | Callable[[], str]
"""A bearer token: a file that contains it, or a function that returns it and must not block. It can be
replaced at any time, because every new stream and call reads it again."""


def authorization(token: Token | None) -> tuple[tuple[str, str], ...]:
    """The metadata that sends the token with a call.

    Raises OSError if the file cannot be read, and Unauthorized for a malformed token.
    """
    if token is None:
        return ()
    said = token() if callable(token) else token.read_bytes().decode("ascii", errors="replace")
    said = said.strip()
    if not (said and said.isascii() and said.isprintable() and " " not in said):
        raise Unauthorized("the token must be printable ASCII without blanks, and not empty")
    return (("authorization", f"Bearer {said}"),)


def check_token(token: object, tls: TlsConfig | None, target: str) -> None:
    """Refuse to send a token over an unencrypted network.

    Raises TypeError if the token is neither a file nor a function, and ValueError for a target on another
    machine without TLS.
    """
    if token is None:
        return
    if not (isinstance(token, Path) or callable(token)):
        raise TypeError(f"token is {shown(token)}: it must be a Path or a function")
    if tls is None and not _is_local(target):
        raise ValueError(f"target is {shown(target)}: a token is sent there over TLS only")


def _is_local(target: str) -> bool:
    host = target.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(path: Path | None) -> bytes | None:
    return None if path is None else path.read_bytes()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryConfig:
    """The back-off between attempts. All times are in seconds.

    The wait is random, between 0 and three quarters of a ceiling. The ceiling starts at `initial` and doubles
    with every failure. With the defaults no wait is longer than 1.5 s, so that clients return within 2 s
    after the server does. If the server requests a wait, the client waits between 1 and 1.5 times as long,
    at random.

    Raises ValueError for a time that is negative or not a number.
    """

    initial: float = 0.1
    """The ceiling of the first wait, in seconds."""
    maximum: float = 2.0
    """The highest ceiling, in seconds."""
    exhausted: float = 30.0
    """The highest ceiling while the server reports a lack of capacity (``RESOURCE_EXHAUSTED``), in seconds;
    ignored below `maximum`.
    """
    stable: float = 2.0
    """Seconds that a stream must last to reset the ceiling to `initial`. Without this, clients would overrun
    a server that welcomes and then drops them.
    """
    give_up_after: float | None = None
    """Seconds without a session after which the client ends with `ConnectionLost`; None for never."""

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid time."""
        for name in ("initial", "maximum", "exhausted", "stable", "give_up_after"):
            value = getattr(self, name)
            unset = name == "give_up_after" and value is None
            if not unset and (problem := seconds(name, value)):
                raise ValueError(problem)


class Confirm(Enum):
    """Allocations whose end the client confirms by itself when the scheduler requests it.

    The scheduler then reuses their resources immediately. So allocations that have to be stopped first must
    not be included.
    """

    NOTHING = "nothing"
    """No allocations: for a resource manager whose placeholders run something, such as pause pods."""
    PLACEHOLDERS = "placeholders"
    """Only placeholders: for a resource manager that runs nothing in placeholders. This is the default."""
    EVERYTHING = "everything"
    """All allocations, also preempted ones: for simulations and tests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangOptions:
    """The client's automatic actions for gangs and preemption.

    Raises ValueError for a value of another type.
    """

    confirm: Confirm = Confirm.PLACEHOLDERS
    """Allocations whose end the client confirms by itself."""
    resubmit: bool = False
    """True to submit the dropped members of a ``Soft`` gang again."""

    def __post_init__(self) -> None:
        """Raise ValueError for a value of another type."""
        if not isinstance(self.confirm, Confirm):
            raise ValueError(f"confirm is {shown(self.confirm)}: it must be a Confirm")
        if problem := flag("resubmit", self.resubmit):
            raise ValueError(problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of the client's memory for outgoing and incoming items.

    Raises ValueError for a limit that is not a whole number of at least 1.
    """

    outgoing: int = 50_000
    """Number of items that may wait to be sent. If there are more, the client's methods wait."""
    resend: int = 1_000
    """Number of sent requests that are retained for a resumption. If more are lost, a replay is needed."""
    events: int = 50_000
    """Number of events that may wait for their reader. If there are more, the client stops reading from the
    server, which then stops scheduling for this RM.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid limit."""
        for name in ("outgoing", "resend", "events"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} is {shown(value)}: it must be a whole number, 1 or more")
