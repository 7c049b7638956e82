"""Options of members that share the RMs: the address of their store, their own address, and the lease."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from licorne_server.process.settings import Address, SettingsError


class Backend(NamedTuple):
    """A kind of store. Its module in `store/coordination` has the same name."""

    url: str
    """The form of its address; empty for the store of workers, which only their supervisor can choose."""
    lease: float
    """Default duration of a lease, in seconds."""


BACKENDS = {
    "etcd": Backend("etcd://HOST:PORT,.../PREFIX", lease=6.0),
    "kubernetes": Backend("kubernetes://NAMESPACE/NAME", lease=15.0),
    "local": Backend("", lease=6.0),
}

RENEW_SECONDS = 1.0
"""Default seconds between two renewals."""

WORKER = "worker-"
"""Prefix of the name of a worker as a member; its number follows."""

LEAST_LEASE = 2.0
MOST_LEASE = 600.0

LEAST_RENEWALS = 3
"""Minimum number of renewals within the duration of a lease, so that one or two may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """A store, and this member's identity in it. Times are in seconds."""

    backend: str
    """Name of the backend in `BACKENDS`."""
    hosts: tuple[str, ...] = ()
    """``HOST:PORT`` of each server of the store; for ``local`` the path of its socket."""
    prefix: str = "licorne"
    """Prefix of all keys, so that several deployments share a store. For ``kubernetes`` it is
    ``NAMESPACE/NAME``, where the namespace is by default that of the pod."""
    advertise: str = ""
    """``HOST:PORT`` at which RMs and other members reach this one. For a worker it is ``unix:PATH``, a socket
    on which it listens for the others."""
    advertise_http: str = ""
    """``http://HOST:PORT`` or ``https://HOST:PORT`` of its HTTP services, as shown to operators."""
    name: str = ""
    """Name of the member in texts for people; if empty, the advertised address."""
    lease: float = 6.0
    """Seconds without a renewal after which the member counts as gone."""
    renew: float = RENEW_SECONDS
    """Seconds between two renewals."""
    ca: Path | None = None
    """CA of the store's certificates. The connection has TLS if there is a CA or a certificate."""
    cert: Path | None = None
    key: Path | None = None
    user: str = ""
    password: Path | None = None
    """File with the password of `user`."""

    @property
    def tls(self) -> bool:
        """True if the connection to the store has TLS."""
        return self.ca is not None or self.cert is not None

    @property
    def on_one_host(self) -> bool:
        """True for a worker, which shares its ports with other workers and also listens on a Unix socket."""
        return self.backend == "local"

    @property
    def worker(self) -> int:
        """Number of the worker; 0 for a member that is no worker."""
        return worker_number(self.name) if self.on_one_host else 0


def worker_name(number: int) -> str:
    """The member name of the worker with this number, from 1 up."""
    return f"{WORKER}{number}"


def worker_number(name: str) -> int:
    """The number of the worker with this member name; 0 for a member that is no worker."""
    number = name.removeprefix(WORKER)
    return int(number) if number != name and number.isdecimal() else 0


def is_reachable(text: str) -> bool:
    """True for ``HOST:PORT`` with a port, and with a host that is no wildcard."""
    try:
        address = Address.parse(text)
    except SettingsError:
        return False
    return not address.is_wildcard and address.port > 0


def read_coordination(text: str) -> Coordination:
    """The store at ``etcd://HOST:PORT,HOST:PORT/PREFIX`` or ``kubernetes://NAMESPACE/NAME``, with the default
    lease of its backend.

    Raises:
        SettingsError: the text is no such address.
    """
    scheme, colon, _ = text.partition(":")
    urls = {name: backend.url for name, backend in BACKENDS.items() if backend.url}
    if not colon or scheme not in urls:
        raise SettingsError(f"{' or '.join(urls.values())} was expected")
    lease = BACKENDS[scheme].lease
    parts = urlsplit(text)
    prefix = parts.path.strip("/")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError("nothing may follow the prefix, and no user precede")
    if scheme == "kubernetes":
        name = "/".join(part for part in (parts.netloc, prefix) if part)
        return Coordination(backend=scheme, prefix=name or "licorne", lease=lease)
    hosts = tuple(parts.netloc.split(","))
    for host in hosts:
        name, _, port = host.rpartition(":")
        if not name or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SettingsError(f"HOST:PORT was expected for each server of etcd, and not {host!r}")
    return Coordination(backend=scheme, hosts=hosts, prefix=prefix or "licorne", lease=lease)
