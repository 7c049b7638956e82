"""Applies the server's messages about ends of allocations and asks, gangs among them.

The server reports ends, and it wants ends: those the resource manager has to confirm. For a
placeholder nothing has to be stopped in most resource managers, so the client confirms by itself.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from licorne.cache import Cache
from licorne.events import AskDropped, Event, Released, ReleaseRequested
from licorne.known import AppKey, KnownAsk
from licorne.model import Termination
from licorne.options import Confirm, GangOptions
from licorne.packer import Packer
from licorne.si.v1 import si_pb2 as si

RELEASE_REQUESTS = {
    si.TIMEOUT: Termination.TIMEOUT,
    si.PREEMPTED_BY_SCHEDULER: Termination.PREEMPTED,
    si.PLACEHOLDER_REPLACED: Termination.REPLACED,
}
"""The releases that are to be confirmed, and the termination that confirms each."""
FAILING = "Failing"
"""The state of a gang that has failed: none of it is asked for again."""

M = TypeVar("M")


class Queue(Protocol):
    """Queues items for the session, if there is one."""

    def __call__(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """`add` is the method of the packer that takes them."""


def nowhere(add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
    """The queue of a cache without a session: the next replay says everything."""


class Endings:
    """Applies releases to a cache, and queues what follows from them."""

    def __init__(self, cache: Cache, options: GangOptions, queue: Queue) -> None:
        """Follow the options in the client's automatic actions."""
        self._cache = cache
        self._options = options
        self._queue = queue

    def released(self, released: si.AllocationRelease) -> Iterator[Event]:
        """Apply one end, reported or wanted by the server."""
        cache = self._cache
        key = released.allocationKey
        known = cache.asks.get(key)
        wanted = RELEASE_REQUESTS.get(released.terminationType)
        if wanted is not None:
            # An unknown one was released while this was on its way: the server hears of it.
            if known is not None and known.node_id:
                yield self._requested(known, wanted, released.message)
            elif known is not None and wanted is Termination.TIMEOUT:
                yield self._dropped(known, released.message)
            return
        ours = cache.releasing.pop(key, None)
        if ours is not None:
            yield dataclasses.replace(ours, message=released.message)
        elif known is not None:
            cache.drop(key)
            ask = known.ask
            yield Released(
                key, ask.application_id, known.node_id, released.message, ask.placeholder
            )

    def _requested(self, known: KnownAsk, wanted: Termination, message: str) -> Event:
        """The server wants an allocation to end."""
        ask = known.ask
        confirm = self._options.confirm
        confirmed = confirm is Confirm.EVERYTHING or (
            confirm is Confirm.PLACEHOLDERS and ask.placeholder
        )
        if confirmed:
            self._queue(Packer.releases, self._cache.release([ask.key], wanted))
        return ReleaseRequested(
            ask.key,
            ask.application_id,
            known.node_id,
            wanted,
            message,
            placeholder=ask.placeholder,
            confirmed=confirmed,
        )

    def _dropped(self, known: KnownAsk, message: str) -> Event:
        """The server has dropped a pending ask: nothing is to be confirmed."""
        cache, ask = self._cache, known.ask
        cache.drop(ask.key)
        application = cache.applications.get((ask.partition, ask.application_id))
        failing = (
            application is not None
            and application.heard is not None
            and application.heard.state == FAILING
        )
        resubmitted = self._options.resubmit and not ask.placeholder and not failing
        if resubmitted:
            cache.dropped.add(known)
        return AskDropped(
            ask.key,
            ask.application_id,
            message,
            placeholder=ask.placeholder,
            resubmitted=resubmitted,
        )

    def accepted(self, application: AppKey) -> None:
        """Note that an application is Accepted, so that its dropped asks can be scheduled again."""
        dropped = self._cache.dropped.take(application)
        if dropped:
            self._queue(Packer.allocations, self._cache.ask_again(dropped))
