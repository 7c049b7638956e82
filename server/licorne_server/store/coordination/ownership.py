"""Ownership of RMs, as the services of a server see it.

`Alone` is a server without coordination. `membership.Membership` is one of several members.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from licorne_core.values.ids import RmId
from licorne_server.store.coordination.placing import told_to
from licorne_server.store.coordination.store import SHARED, Member, MemberId, Snapshot, Store
from licorne_server.wire.errors import invalid_argument

MAX_EPOCH = 2**53 - 2**32
"""The highest epoch that an RM may name: a number of JavaScript holds it, and many above it."""


DRAIN = f"{SHARED}drain/"
"""Prefix of the documents that drain members. The name of the member follows; the value is JSON with
``by`` and ``why``, texts, and ``time``, in unix seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a member has done since its start."""

    renewals: int = 0
    failures: int = 0
    """Renewals that failed."""
    fenced: int = 0
    """Times that it stopped deciding because it could not renew in time."""
    moved: int = 0
    """RMs that it gave to other members."""


class Ownership(ABC):
    """Decides which RMs this server serves, and under which epoch."""

    store: Store | None = None
    """The store of the deployment; None for a server that is alone."""
    on_lost: Callable[[RmId, str], Awaitable[None]]
    """Called when an RM must not be served here any more, with the reason. Its streams end at once,
    before the first pause, and its books are gone when this returns. It does not fail."""
    on_handover: Callable[[RmId, str], Awaitable[None]]
    """Called before an RM is given to another member. Nothing new is decided, everything decided is
    sent, its streams end, and then its books are gone. It takes a bounded time, and does not fail."""

    on_failure: Callable[[str], None]
    """Called with the reason when only a restart of the process will help."""

    @abstractmethod
    def may_decide(self) -> bool:
        """True while this server's decisions count, by its own clock. Cheap: asked for each message."""

    @abstractmethod
    async def take(self, rm_id: RmId, named: int = 0) -> "int | Member":
        """Serve the RM here: its epoch, above `named` unless it is served here already. Or its owner.

        `named` is the highest epoch that the RM knows, 0 for none.

        Raises:
            CallError: UNAVAILABLE, the store does not answer or this server is draining; or
                INVALID_ARGUMENT, `named` is too high.
        """

    @abstractmethod
    def epoch(self, rm_id: RmId) -> int:
        """The epoch under which the RM is served here; 0 if it is not."""

    @abstractmethod
    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that serves the RM, as known here; None if this one or nobody does."""

    def others(self) -> list[Member]:
        """The other members with a living lease, as known here."""
        return [member for key, member in self.snapshot().members.items() if key != self.me()]

    def told(self, rm_id: RmId) -> tuple[str, ...]:
        """The addresses of the other members that an RM is told, as known here; see `told_to`."""
        return told_to(rm_id, self.snapshot(), self.me())

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Members and owners as last read."""

    @abstractmethod
    def forget(self, rm_id: RmId) -> None:
        """The RM has unregistered or was evicted: as soon as possible nobody owns it any more.

        An RM that is not served here is ignored.
        """

    def me(self) -> MemberId:
        """Id of this member at present; empty for a server that is alone."""
        return MemberId("")

    def counts(self) -> Counts:
        """What this member has done since its start."""
        return Counts()

    def problem(self) -> str:
        """The reason why ownership cannot change now, for health; empty while all is well."""
        return ""

    @abstractmethod
    async def start(self, address: str, http: str) -> None:
        """Join the other members. The addresses are where this server listens.

        A member that advertises others publishes those.
        """

    async def joined(self) -> None:
        """Return once RMs can be served here, or that takes too long to wait for."""
        return

    @abstractmethod
    async def stop(self) -> None:
        """Leave the other members. No RM has a stream here any more."""


class Alone(Ownership):
    """A server that shares its RMs with nobody."""

    def __init__(self, epoch: int) -> None:
        """Serve all RMs; `epoch` rises with every start of the server."""
        self._epoch = epoch
        # Epochs of RMs that named a higher one: the clock went back, or the server has moved.
        self._raised: dict[RmId, int] = {}
        self.on_lost = self.on_handover = _never

    def may_decide(self) -> bool:
        """Always true."""
        return True

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """The epoch of the RM, which stays the same unless the RM names a higher one."""
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
        """No members."""
        return Snapshot()

    async def start(self, address: str, http: str) -> None:
        """There is nobody to join."""

    async def stop(self) -> None:
        """There is nobody to leave."""

    def forget(self, rm_id: RmId) -> None:
        """Drop the epoch that the RM raised: it will name it again."""
        self._raised.pop(rm_id, None)


async def _never(rm_id: RmId, reason: str) -> None:
    """Default listener; a server that is alone loses no RM."""


def check_epoch(named: int) -> None:
    """Refuse an epoch that no server can have given.

    Raises:
        CallError: INVALID_ARGUMENT.
    """
    if named > MAX_EPOCH:
        raise invalid_argument(f"epoch {named} was given by no server", "hello.epoch")
