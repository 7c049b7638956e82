"""Ownership of RMs, as the services of a server see it.

`Alone` is a server without coordination. `membership.Membership` is one of several members.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

from licorne_core.values.ids import RmId
from licorne_server.coordination.store import Member, Snapshot
from licorne_server.wire.errors import invalid_argument

MAX_EPOCH = 2**53 - 2**32
"""The highest epoch that an RM may name: a number of JavaScript holds it, and many above it."""


class Ownership(ABC):
    """Decides which RMs this server serves, and under which epoch."""

    on_lost: Callable[[RmId, str], Awaitable[None]]
    """Called when an RM must not be served here any more, with the reason. Its streams have to end
    and its books to go; when this returns nothing of it is sent."""

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
    def owner_of(self, rm_id: RmId) -> Member | None:
        """The other member that serves the RM, as known here; None if this one or nobody does."""

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Members and owners as last read."""

    @abstractmethod
    async def forget(self, rm_id: RmId) -> None:
        """The RM has unregistered or was evicted: nobody owns it any more."""


class Alone(Ownership):
    """A server that shares its RMs with nobody."""

    def __init__(self, epoch: int) -> None:
        """Serve all RMs; `epoch` rises with every start of the server."""
        self._epoch = epoch
        # Epochs of RMs that named a higher one: the clock went back, or the server has moved.
        self._raised: dict[RmId, int] = {}

    def may_decide(self) -> bool:
        """Always true."""
        return True

    async def take(self, rm_id: RmId, named: int = 0) -> int | Member:
        """The epoch of the RM, which stays the same unless the RM names a higher one."""
        check_epoch(named)
        epoch = self._raised.get(rm_id, self._epoch)
        if named > epoch:
            epoch = self._raised[rm_id] = named + 1
        return epoch

    def owner_of(self, rm_id: RmId) -> Member | None:
        """Always None."""
        return None

    def snapshot(self) -> Snapshot:
        """No members."""
        return Snapshot()

    async def forget(self, rm_id: RmId) -> None:
        """Drop the epoch that the RM raised: it will name it again."""
        self._raised.pop(rm_id, None)


def check_epoch(named: int) -> None:
    """Refuse an epoch that no server can have given.

    Raises:
        CallError: INVALID_ARGUMENT.
    """
    if named > MAX_EPOCH:
        raise invalid_argument(f"epoch {named} was given by no server", "hello.epoch")
