"""The interface for ownership of RMs, and the states of workers, which are the members on one host.

`Alone` is for a server without coordination, `membership.Membership` for one of several members.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.placing import told_to
from licorne_server.store.coordination.store import Gone, Member, MemberId, Snapshot, Store
from licorne_server.store.documents.documents import SHARED
from licorne_server.store.documents.encoding import decode
from licorne_server.wire.errors import invalid_argument

MAX_EPOCH = 2**53 - 2**32
"""The highest epoch that an RM may name. JavaScript can represent it, and many higher epochs."""


DRAIN = f"{SHARED}drain/"
"""Prefix of the documents that drain members. The name of the member follows; the value is JSON with the
texts ``by`` and ``why``, and ``time`` in unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of a member since its start."""

    renewals: int = 0
    failures: int = 0
    """Number of renewals that failed."""
    fenced: int = 0
    """Number of times that the member stopped deciding because it could not renew its lease in time."""
    moved: int = 0
    """Number of RMs that the member gave to other members."""


class Ownership(ABC):
    """Decides which RMs this server serves, and under which epoch."""

    gone: Mapping[MemberId, Gone] = MappingProxyType({})
    """Members whose lease has ended, by the last snapshot: missed members, and former owners."""
    store: Store | None = None
    """The store of the deployment; None for a server without other members."""
    on_lost: Callable[[RmId, str], Awaitable[None]]
    """Called with the reason when an RM must no longer be served here. The RM's streams end immediately,
    before the first pause, and its books are dropped when the call returns. The call does not fail."""
    on_handover: Callable[[RmId, str], Awaitable[None]]
    """Called before an RM is given to another member. The call makes no new decisions, sends all earlier
    ones, ends the streams of the RM, and then drops its books. It takes a bounded time, and does not fail."""

    on_failure: Callable[[str], None]
    """Called with the reason when only a restart of the process will help."""

    @abstractmethod
    def may_decide(self) -> bool:
        """True while this server's decisions are valid, by its own clock. It is called for each message."""

    @abstractmethod
    async def take(self, rm_id: RmId, named: int = 0) -> "int | Member":
        """Serve the RM here and return its epoch, or return its owner.

        The epoch is above `named`, unless the RM is served here already; `named` is the highest epoch that
        the RM has seen, 0 if there is none.

        Raises:
            CallError: UNAVAILABLE, the store does not answer or this server is draining; or
                INVALID_ARGUMENT, `named` is too high.
        """

    @abstractmethod
    def epoch(self, rm_id: RmId) -> int:
        """The epoch under which the RM is served here; 0 if it is not."""

    @abstractmethod
    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that serves the RM, by the last snapshot; None if this member or none does."""

    def others(self) -> list[Member]:
        """The other members with a valid lease, by the last snapshot."""
        return [member for key, member in self.snapshot().members.items() if key != self.me()]

    def told(self, rm_id: RmId) -> tuple[str, ...]:
        """The addresses of other members to send to an RM, by the last snapshot; see `told_to`."""
        return told_to(rm_id, self.snapshot(), self.me())

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Members and owners by the last snapshot."""

    @abstractmethod
    def forget(self, rm_id: RmId) -> None:
        """Release an RM that has unregistered or was evicted, as soon as possible.

        An RM that is not served here is ignored.
        """

    def me(self) -> MemberId:
        """Current id of this member; empty for a server without others."""
        return MemberId("")

    def counts(self) -> Counts:
        """Counts of this member since its start."""
        return Counts()

    def problem(self) -> str:
        """The reason why ownership cannot change now, for health checks; empty if there is none."""
        return ""

    @abstractmethod
    async def start(self, address: str, http: str) -> None:
        """Join the other members. The addresses are those on which this server listens.

        A member with advertised addresses publishes those instead.
        """

    async def joined(self) -> None:
        """Wait until RMs can be served here, but not for long."""
        return

    @abstractmethod
    async def stop(self) -> None:
        """Leave the other members. To be called when no RM has a stream here."""


class Alone(Ownership):
    """A server that shares its RMs with no other."""

    def __init__(self, epoch: int) -> None:
        """Serve all RMs; `epoch` rises with every start of the server."""
        self._epoch = epoch
        # Epochs of RMs that named a higher epoch: the clock was set back, or the server runs on another host.
        self._raised: dict[RmId, int] = {}
        self.on_lost = self.on_handover = _never

    def may_decide(self) -> bool:
        """Always true."""
        return True

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """The epoch of the RM; it changes only if the RM names a higher epoch."""
        check_epoch(named)
        epoch = self.epoch(rm_id)
        if named > epoch:
            epoch = self._raised[rm_id] = named + 1
        return epoch

    def epoch(self, rm_id: RmId) -> int:
        """The epoch of the RM."""
        return self._raised.get(rm_id, self._epoch)

    def owner_of(self, rm_id: RmId) -> Member | None:
        """Always None."""
        return None

    def snapshot(self) -> Snapshot:
        """An empty snapshot."""
        return Snapshot()

    async def start(self, address: str, http: str) -> None:
        """Do nothing: there are no other members."""

    async def stop(self) -> None:
        """Do nothing: there are no other members."""

    def forget(self, rm_id: RmId) -> None:
        """Drop the raised epoch of the RM, because the RM will name it again."""
        self._raised.pop(rm_id, None)


async def _never(rm_id: RmId, reason: str) -> None:
    """Default callback: a server without others loses no RM."""


def check_epoch(named: int) -> None:
    """Refuse an epoch that no server can have assigned.

    Raises:
        CallError: INVALID_ARGUMENT.
    """
    if named > MAX_EPOCH:
        raise invalid_argument(f"epoch {named} was given by no server", "hello.epoch")


STATUS = f"{SHARED}workers"
"""Key of the document with the states of all workers: the supervisor writes it, and each worker reads it."""


@dataclass(frozen=True, slots=True)
class Known:
    """The supervisor's report on a worker."""

    worker: int
    """Number of the worker."""
    state: str
    restarts: int
    """Number of restarts of the worker since the supervisor's start."""
    looping: bool
    """True if the worker fails again and again."""


def known_workers(snapshot: Snapshot) -> list[Known]:
    """All workers, by the supervisor's last report; empty for a server that is no worker."""
    document = snapshot.documents.get(STATUS)
    return [] if document is None else decode(document.value, list[Known])
