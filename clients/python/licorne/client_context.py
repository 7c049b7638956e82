"""State of the client that outlives a stream: everything that one stream leaves to the next."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from licorne.answers import Answers
from licorne.cache import Cache
from licorne.callbacks import Callbacks
from licorne.errors import Closed, LicorneError
from licorne.inbox import Inbox
from licorne.options import GangOptions, Limits
from licorne.outgoing import Outgoing
from licorne.packer import Packer
from licorne.runners import CallbackRunners
from licorne.session import Session, Stamp
from licorne.stats import Stats
from licorne.v1.session_pb2 import PredicateAnswer, PreemptionAnswer, StateDump

M = TypeVar("M")

ACK_EVERY = 64
"""Responses dealt with that are acknowledged without delay. Fewer wait for `ACK_DELAY`."""


class ClientContext:
    """The cache, the session and the queues of one client."""

    def __init__(
        self, session: Session, limits: Limits, callbacks: Callbacks, gangs: GangOptions
    ) -> None:
        """Start without state."""
        self.session = session
        self.cache = Cache()
        self.answers = Answers(self.cache, gangs, self.queue)
        self.stats = Stats()
        self.callbacks = CallbackRunners(
            callbacks, self._answer, self._dump, self.stats, limits.events
        )
        self.wake = asyncio.Event()
        """Set when the writer of the stream may have something to do."""
        self.outgoing = Outgoing(limits.outgoing)
        self.inbox = Inbox(limits.events, self.consumed)
        self.live = asyncio.Event()
        """Set while a stream is up with a session that needs no replay; for ever after the end."""
        self.leaving = asyncio.Event()
        """Set when the caller closes the client."""
        self.unregister = False
        """True if the goodbye of the closing client asks the server to forget the RM."""
        self.failure: LicorneError | None = None
        """The error of every method after the end; None before."""

    def consumed(self, stamp: Stamp, number: int) -> None:
        """The caller has dealt with a response."""
        self.session.consumed(stamp, number)
        # The first response starts the writer's `ACK_DELAY`, the last one of many ends it.
        if self.session.unacknowledged in (1, ACK_EVERY):
            self.wake.set()

    def leave(self, *, unregister: bool) -> None:
        """Make the stream say goodbye when everything is sent, and open no further one."""
        self.unregister = unregister
        self.leaving.set()
        self.wake.set()

    def end(self, failure: LicorneError | None) -> None:
        """End the client for good. The first call counts, with its reason."""
        if self.failure is not None:
            return
        self.failure = failure or Closed("the client was closed")
        self.callbacks.stop()
        self.outgoing.close()
        self.inbox.close(failure)
        self.live.set()

    def check(self) -> None:
        """Raise what ended the client, if something has."""
        if self.failure is not None:
            raise self.failure

    def queue(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """Queue items for the session.

        Without a session nothing is queued: the replay of the next one takes all from the cache.
        """
        if self.outgoing.is_open:
            add(self.outgoing.packer, items)
            self.wake.set()

    async def send(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """Queue items for the session, and wait while too much is queued."""
        self.check()
        if not self.outgoing.is_open:
            return
        self.queue(add, items)
        if not await self.outgoing.room():
            # Too much is queued and no stream takes it.
            self.give_up_session()
        self.check()

    def give_up_session(self) -> None:
        """Make the next stream begin with a replay. The cache has everything that is queued."""
        self.session.forget()
        self.outgoing.close()

    def _answer(self, stamp: Stamp, answer: PredicateAnswer | PreemptionAnswer) -> None:
        """Send an answer, unless the session of its question has ended."""
        if stamp == self.session.stamp and self.outgoing.is_open:
            self.outgoing.answer(answer)
            self.wake.set()

    def _dump(self, stamp: Stamp, dump: StateDump) -> None:
        """The same for the state of the caller."""
        if stamp == self.session.stamp and self.outgoing.is_open:
            self.outgoing.dump(dump)
            self.wake.set()
