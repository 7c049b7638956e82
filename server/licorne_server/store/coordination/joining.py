"""A server as a member: its store, and its place among the others. Backends are imported when used."""

import random
import time
from collections.abc import Callable, Mapping

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import Address, Settings
from licorne_server.store.coordination.lease import SystemMemberClock
from licorne_server.store.coordination.load import Load
from licorne_server.store.coordination.membership import Membership
from licorne_server.store.coordination.ownership import Alone, Ownership
from licorne_server.store.coordination.store import Member, MemberId, Store

PROTOCOLS: tuple[int, ...] = (1,)
"""Versions of the protocol between members that this one speaks."""


def open_store(options: Coordination) -> Store:
    """The store, not connected yet.

    Raises:
        SettingsError: the options do not suit the backend, or a package for it is missing.
    """
    match options.backend:
        case "etcd":
            from licorne_server.store.coordination.etcd import EtcdStore

            return EtcdStore(options)
        case "kubernetes":
            from licorne_server.store.coordination.kubernetes import KubernetesStore

            return KubernetesStore(options)
        case _:
            from licorne_server.store.coordination.local import LocalStore

            return LocalStore(options)


def ownership_of(
    settings: Settings, version: str, now: Callable[[], float], worked: Callable[[], Mapping[RmId, float]]
) -> Ownership:
    """The ownership of RMs by this server, which has yet to start.

    `now` gives unix seconds, and `worked` the engine's seconds for each RM.

    Raises:
        SettingsError: see `open_store`.
    """
    options = settings.coordination
    if options is None:
        # In microseconds it is below 2^53 until 2255, as JavaScript needs it.
        return Alone(int(now() * 1e6))
    clock = SystemMemberClock()
    me = Member(
        id=MemberId(""),
        name=options.name or options.advertise,
        address=options.advertise,
        http=options.advertise_http,
        version=version,
        protocols=PROTOCOLS,
        started=time.time(),
    )
    load = Load(worked, time.process_time, clock.elapsed)
    store = open_store(options)
    # Members that start together must not draw the same numbers.
    randomness = random.Random(random.SystemRandom().getrandbits(64))
    return Membership(store, me, clock, randomness, load, renew=options.renew)


def http_url(settings: Settings, http_address: str) -> str:
    """The URL of a server's HTTP for other members; empty for a server without HTTP.

    A worker has a socket for the others, whatever it serves to all.

    Where it listens on all interfaces, its host is that of the advertised gRPC address.
    """
    if settings.coordination is not None and settings.shares_ports:
        return settings.coordination.advertise_http
    if not http_address:
        return ""
    address = Address.parse(http_address)
    if address.is_wildcard and settings.coordination is not None:
        host = Address.parse(settings.coordination.advertise).host
        address = Address(host=host, port=address.port)
    return f"{'http' if settings.http_tls is None else 'https'}://{address}"
