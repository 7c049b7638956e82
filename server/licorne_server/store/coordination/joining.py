"""Makes a server a member: its store, its ownership of RMs, and the load of each RM for balance.

The module of a backend is imported when it is used.
"""

import random
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from math import exp

from licorne_core.values.ids import RmId
from licorne_server.process.coordination import Coordination
from licorne_server.process.settings import Address, Settings
from licorne_server.store.coordination.lease import SystemMemberClock
from licorne_server.store.coordination.membership import Membership
from licorne_server.store.coordination.ownership import Alone, Ownership
from licorne_server.store.coordination.store import Member, MemberId, Store
from licorne_server.store.documents.disk import Disk
from licorne_server.store.documents.documents import Documents
from licorne_server.store.documents.kept import Kept

MEMORY_SECONDS = 120.0
"""Time constant of the mean: within this time the load of an idle RM falls to about a third."""


class Load:
    """CPU of each RM over the last minutes, in cores.

    The CPU time of the process is divided in proportion to the engine's work for each RM, because other work,
    such as reading and writing messages, grows with it.
    """

    def __init__(
        self,
        worked: Callable[[], Mapping[RmId, float]],
        cpu: Callable[[], float],
        elapsed: Callable[[], float],
    ) -> None:
        """`worked` returns the engine's seconds for each RM, `cpu` those of the process, since the start.

        `elapsed` returns seconds of a monotonic clock.
        """
        self._worked, self._cpu, self._elapsed = worked, cpu, elapsed
        self._time, self._used = elapsed(), cpu()
        self._seen: dict[RmId, float] = {}
        self._mean: dict[RmId, float] = {}

    def __call__(self) -> Mapping[RmId, float]:
        """The current means of the RMs that are served here."""
        worked = self._worked()
        now, used = self._elapsed(), self._cpu()
        seconds = now - self._time
        if seconds <= 0:
            return self._mean
        new = {rm_id: max(0.0, spent - self._seen.get(rm_id, 0.0)) for rm_id, spent in worked.items()}
        cores_per_second = (used - self._used) / seconds / (sum(new.values()) or 1.0)
        keep = exp(-seconds / MEMORY_SECONDS)
        self._mean = {
            rm_id: keep * self._mean.get(rm_id, 0.0) + (1 - keep) * spent * cores_per_second
            for rm_id, spent in new.items()
        }
        self._time, self._used, self._seen = now, used, dict(worked)
        return self._mean


PROTOCOLS: tuple[int, ...] = (1,)
"""Versions of the protocol between members that this one supports."""


def open_store(options: Coordination) -> Store:
    """Make the store, which is not connected yet.

    Raises:
        SettingsError: the options do not suit the backend, or a package for it is missing.
    """
    backend = import_module(f"licorne_server.store.coordination.{options.backend}")
    store: Store = backend.STORE(options)
    return store


def ownership_of(
    settings: Settings, version: str, now: Callable[[], float], worked: Callable[[], Mapping[RmId, float]]
) -> Ownership:
    """Create the ownership of RMs by this server; it is not started yet.

    `now` gives unix seconds, and `worked` the engine's seconds of work for each RM.

    Raises:
        SettingsError: see `open_store`.
    """
    options = settings.coordination
    if options is None:
        # In microseconds the time is below 2^53 until 2255, so JavaScript can represent it.
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
    # The supervisor of workers stores their documents if it has a state directory.
    store.persistent = not options.on_one_host or settings.state_dir is not None
    # Members that start together must not draw the same random numbers.
    randomness = random.Random(random.SystemRandom().getrandbits(64))
    return Membership(store, me, clock, randomness, load, renew=options.renew)


def documents_of(ownership: Ownership, settings: Settings) -> Documents:
    """The documents of the server: in the store that members share, or else in the state directory."""
    if ownership.store is not None:
        return ownership.store
    return Kept(None if settings.state_dir is None else Disk(settings.state_dir))


def http_url(settings: Settings, http_address: str) -> str:
    """The URL of a server's HTTP, as shown to operators; empty for a server without HTTP.

    It is also empty for a worker, whose port may lead to another worker. If the server listens on all
    interfaces, the host is that of the advertised gRPC address.
    """
    if settings.shares_ports or not http_address:
        return ""
    address = Address.parse(http_address)
    if address.is_wildcard and settings.coordination is not None:
        host = Address.parse(settings.coordination.advertise).host
        address = Address(host=host, port=address.port)
    return f"{'http' if settings.http_tls is None else 'https'}://{address}"
