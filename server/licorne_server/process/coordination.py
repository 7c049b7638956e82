"""The options of coordination: the store's address, the member's own, and the lease."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from licorne_server.process.settings import Address, SettingsError

LEASES = {"etcd": 6.0, "kubernetes": 15.0, "local": 6.0}
"""Seconds of a lease, by backend, unless an option says otherwise."""

RENEW_SECONDS = 1.0
"""Seconds between two renewals, unless an option says otherwise."""

WORKER = "worker-"
"""Prefix of the name of a worker as a member; its number follows."""

LEAST_LEASE = 2.0
MOST_LEASE = 600.0

LEAST_RENEWALS = 3
"""Renewals in the time of a lease, at the least: one or two may fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """A store and this member's place in it. Times are in seconds."""

    backend: str
    """``etcd``, ``kubernetes`` or ``local``."""
    hosts: tuple[str, ...] = ()
    """``HOST:PORT`` of each server of the store; for ``local`` the path of its socket."""
    prefix: str = "licorne"
    """Prefix of all keys, so that several deployments share a store. For ``kubernetes`` it is
    ``NAMESPACE/NAME``; without a namespace it is that of the pod."""
    advertise: str = ""
    """``HOST:PORT`` at which RMs and other members reach this one; of a worker ``unix:PATH``, at which it
    listens for the others too."""
    advertise_http: str = ""
    """``http://HOST:PORT`` or ``https://HOST:PORT`` at which other members reach its HTTP services; of a
    worker ``unix:PATH``, at which it listens for the others too."""
    name: str = ""
    """Name of the member for people; the advertised address without one."""
    lease: float = 6.0
    """Seconds without a renewal after which the member counts as gone."""
    renew: float = RENEW_SECONDS
    """Seconds between two renewals."""
    ca: Path | None = None
    """CA of the store's certificates; with it, or with a certificate, the connection has TLS."""
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
        """True for a worker: it shares its ports with others, and has Unix sockets of its own."""
        return self.backend == "local"

    @property
    def worker(self) -> int:
        """Number of the worker; 0 for a member that is none."""
        return worker_number(self.name) if self.on_one_host else 0

    def problem(self) -> str:
        """The problem with the options, and its remedy; empty for none."""
        if not LEAST_LEASE <= self.lease <= MOST_LEASE:
            return f"--lease must be from {LEAST_LEASE:g} to {MOST_LEASE:g} seconds: {self.lease:g}"
        if not 0 < self.renew <= self.lease / LEAST_RENEWALS:
            most = self.lease / LEAST_RENEWALS
            return f"--renew must be above 0, and at most {most:g}, a third of the lease: {self.renew:g}"
        if (self.cert is None) != (self.key is None):
            return "--coordination-cert and --coordination-key are needed together"
        if (self.password is None) != (not self.user):
            return "--coordination-user and --coordination-password are needed together"
        if self.on_one_host and not all(
            where.startswith("unix:") for where in (self.advertise, self.advertise_http)
        ):
            return "--coordination local: needs --advertise unix:PATH and --advertise-http unix:PATH"
        if self.advertise and not (self.on_one_host or _is_reachable(self.advertise)):
            return f"--advertise: HOST:PORT was expected, of a host that others reach: {self.advertise!r}"
        return ""


def worker_name(number: int) -> str:
    """The name as a member of the worker with this number, from 1 up."""
    return f"{WORKER}{number}"


def worker_number(name: str) -> int:
    """The number of the worker with this name as a member; 0 for a member that is none."""
    number = name.removeprefix(WORKER)
    return int(number) if number != name and number.isdecimal() else 0


def _is_reachable(text: str) -> bool:
    """True for ``HOST:PORT`` with a host that is no wildcard, and with a port."""
    try:
        address = Address.parse(text)
    except SettingsError:
        return False
    return not address.is_wildcard and address.port > 0


def read_coordination(text: str) -> Coordination:
    """The store at ``etcd://HOST:PORT,HOST:PORT/PREFIX``, ``kubernetes://NAMESPACE/NAME`` or
    ``local:PATH``, with the usual lease of its backend.

    Raises:
        SettingsError: the text is no such address.
    """
    scheme, colon, rest = text.partition(":")
    if not colon or scheme not in LEASES:
        raise SettingsError(
            "--coordination: etcd://HOST:PORT,.../PREFIX, kubernetes://NAMESPACE/NAME or local:PATH "
            f"was expected: {text!r}"
        )
    lease = LEASES[scheme]
    if scheme == "local":
        if not rest:
            raise SettingsError(f"--coordination: the path of a socket is missing: {text!r}")
        return Coordination(backend=scheme, hosts=(rest,), lease=lease)
    parts = urlsplit(text)
    prefix = parts.path.strip("/")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise SettingsError(f"--coordination: nothing may follow the prefix, and no user precede: {text!r}")
    if scheme == "kubernetes":
        name = "/".join(part for part in (parts.netloc, prefix) if part)
        return Coordination(backend=scheme, prefix=name or "licorne", lease=lease)
    hosts = tuple(parts.netloc.split(","))
    for host in hosts:
        name, _, port = host.rpartition(":")
        if not name or not port.isdecimal() or not 0 < int(port) < 65536:
            raise SettingsError(f"--coordination: HOST:PORT was expected for each server of etcd: {host!r}")
    return Coordination(backend=scheme, hosts=hosts, prefix=prefix or "licorne", lease=lease)
