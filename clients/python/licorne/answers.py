"""Applies the scheduler's answers to the cache, and converts them to events for the caller.

In a replay the server answers all requests again: it accepts nodes and applications, reports states of
applications and echoes allocations. The caller already has these events, so during a replay an answer becomes
an event only if it differs.

The rejection of an accepted item refuses only a repetition or a change of the item; the item is retained. In
a replay it refuses the item itself, because the server starts with empty books.

The server reports that allocations have ended, and requests that the resource manager end and confirm others.
Most resource managers run nothing in placeholders, so by default the client confirms these by itself.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from licorne.cache import Cache
from licorne.events import (
    Allocated,
    AppKey,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskDropped,
    AskRejected,
    Event,
    KnownApplication,
    KnownAsk,
    NodeAccepted,
    NodeRejected,
    Released,
    ReleaseRequested,
)
from licorne.model import Termination
from licorne.options import Confirm, GangOptions
from licorne.outgoing import Packer
from licorne.si.v1 import si_pb2 as si

RELEASE_REQUESTS = {
    si.TIMEOUT: Termination.TIMEOUT,
    si.PREEMPTED_BY_SCHEDULER: Termination.PREEMPTED,
    si.PLACEHOLDER_REPLACED: Termination.REPLACED,
}
"""The releases that the RM has to confirm, each with the termination that confirms it."""
FAILING = "Failing"
"""The state of an application whose gang has failed; its dropped asks are not submitted again."""

M = TypeVar("M")


class Queue(Protocol):
    """Queues items for the session, if there is one."""

    def __call__(self, add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
        """Queue `items`, for which `add` is the method of the packer."""


def nowhere(add: Callable[[Packer, Iterable[M]], None], items: Iterable[M]) -> None:
    """Queue nothing, for a cache without a session: the next replay sends everything."""


class Endings:
    """Applies releases to a cache, and queues confirmations and resubmitted asks."""

    def __init__(self, cache: Cache, options: GangOptions, queue: Queue) -> None:
        """`options` control the client's automatic actions."""
        self._cache = cache
        self._options = options
        self._queue = queue

    def released(self, released: si.AllocationRelease) -> Iterator[Event]:
        """Apply the server's report that an allocation has ended, or its request to end one."""
        cache = self._cache
        key = released.allocationKey
        known = cache.asks.get(key)
        wanted = RELEASE_REQUESTS.get(released.terminationType)
        if wanted is not None:
            # An unknown ask was released while this answer was on its way; the server gets that release.
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
            yield Released(key, ask.application_id, known.node_id, released.message, ask.placeholder)

    def _requested(self, known: KnownAsk, wanted: Termination, message: str) -> Event:
        """Confirm a request to end an allocation, if the options demand it; returns the event."""
        ask = known.ask
        confirm = self._options.confirm
        confirmed = confirm is Confirm.EVERYTHING or (confirm is Confirm.PLACEHOLDERS and ask.placeholder)
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
        """Drop a pending ask that the server has dropped; returns the event. No confirmation is needed."""
        cache, ask = self._cache, known.ask
        cache.drop(ask.key)
        application = cache.applications.get((ask.partition, ask.application_id))
        failing = (
            application is not None and application.heard is not None and application.heard.state == FAILING
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
        """Submit the dropped asks of an application again, because it has become Accepted."""
        dropped = self._cache.dropped.take(application)
        if dropped:
            self._queue(Packer.allocations, self._cache.ask_again(dropped))


LOG = logging.getLogger("licorne")

ENDED = frozenset({"Completed", "Failed", "Expired"})
"""The states in which the server forgets an application."""


class Answers:
    """Applies responses to a cache and converts them to events."""

    def __init__(self, cache: Cache, options: GangOptions | None = None, queue: Queue = nowhere) -> None:
        """Apply the answers to `cache`; the client's own replies to some answers are queued in `queue`."""
        self._cache = cache
        self._endings = Endings(cache, options or GangOptions(), queue)
        self.replaying = False
        """True during a replay, until the server confirms that it is complete."""

    def begin_replay(self) -> list[Event]:
        """Begin a replay to a server without state; returns `Released` for each unconfirmed release."""
        self.replaying = True
        return [*self._cache.begin_replay()]

    def end_replay(self) -> list[Event]:
        """End a replay; returns an event for each application whose state has changed."""
        self.replaying = False
        events: list[Event] = []
        for known in self._cache.applications.values():
            if known.heard is not None and known.heard.state != known.told_state:
                known.told_state = known.heard.state
                events.append(known.heard)
        return events

    def nodes(self, response: si.NodeResponse) -> list[Event]:
        """Apply acceptances and rejections of nodes."""
        events: list[Event] = []
        for accepted in response.accepted:
            known = self._cache.nodes.get(accepted.nodeID)
            if known is not None and not known.accepted:
                known.accepted = True
                events.append(NodeAccepted(accepted.nodeID))
        for rejected in response.rejected:
            known = self._cache.nodes.get(rejected.nodeID)
            if known is not None and known.accepted and not self.replaying:
                LOG.warning("node %s stays as it is: %s", rejected.nodeID, rejected.reason)
                continue
            self._cache.nodes.pop(rejected.nodeID, None)
            events.append(NodeRejected(rejected.nodeID, rejected.reason))
        return events

    def applications(self, response: si.ApplicationResponse) -> list[Event]:
        """Apply acceptances, rejections and changed states of applications."""
        events: list[Event] = []
        doubtful = self._doubtful(response)
        # Acceptances are first: a message never accepts and rejects the same application.
        for accepted in response.accepted:
            events += self._application_accepted(accepted.applicationID)
        for rejected in response.rejected:
            events += self._application_rejected(rejected, doubtful)
        for updated in response.updated:
            events += self._state(updated)
        return events

    def _application_accepted(self, application_id: str) -> Iterator[Event]:
        waiting = self._waiting(application_id)
        if not waiting:
            return
        key = next(filter(self._runs, waiting), waiting[0])
        known = self._cache.applications[key]
        known.accepted = True
        if not known.told_accepted:
            known.told_accepted = True
            yield ApplicationAccepted(application_id)

    def _doubtful(self, response: si.ApplicationResponse) -> set[str]:
        """The ids that this message both accepts and rejects, for namesakes.

        Namesakes without allocations cannot be distinguished, so all are retained: without the accepted one,
        the next replay would be incomplete and end its allocations. In that replay the server rejects the
        other application again, which is harmless.
        """
        if not response.rejected:
            return set()
        accepted = {item.applicationID for item in response.accepted}
        both = accepted.intersection(item.applicationID for item in response.rejected)
        return {name for name in both if sum(not self._runs(key) for key in self._waiting(name)) > 1}

    def _application_rejected(self, rejected: si.RejectedApplication, doubtful: set[str]) -> Iterator[Event]:
        application_id = rejected.applicationID
        waiting = self._waiting(application_id)
        if application_id in doubtful:
            LOG.warning("an application %s was rejected: %s", application_id, rejected.reason)
        elif waiting:
            idle = (key for key in waiting if not self._runs(key))
            rejected_one = next(idle, waiting[0])
            self._note_orphans(rejected_one)
            self._forget_application(rejected_one)
        elif self._matching(application_id):
            LOG.warning("application %s stays: %s", application_id, rejected.reason)
            return
        yield ApplicationRejected(application_id, rejected.reason)

    def _note_orphans(self, key: AppKey) -> None:
        """Record the placeholders of a rejected application, whose rejections cause no events."""
        cache = self._cache
        for ask_key in cache.by_application.get(key, ()):
            known = cache.asks[ask_key]
            if known.ask.placeholder and not known.node_id:
                cache.orphans.add(ask_key)

    def _waiting(self, application_id: str) -> list[AppKey]:
        """The applications with this id that the server has not accepted yet, oldest first.

        The server answers in the order of the requests, so its next answer is for the oldest application.
        """
        return [key for key, known in self._matching(application_id) if not known.accepted]

    def _runs(self, key: AppKey) -> bool:
        """True if an application has an allocation, so that a replay forces its acceptance."""
        cache = self._cache
        return any(cache.asks[ask].node_id for ask in cache.by_application.get(key, ()))

    def _matching(self, application_id: str) -> list[tuple[AppKey, KnownApplication]]:
        """The applications with this id, at most one in each partition, oldest first.

        Answers of `si.v1` do not name their partition.
        """
        cache = self._cache
        keys = [(partition, application_id) for partition in cache.partitions]
        found = [(key, cache.applications[key]) for key in keys if key in cache.applications]
        return sorted(found, key=lambda item: item[1].number)

    def _state(self, updated: si.UpdatedApplication) -> list[Event]:
        heard = ApplicationStateChanged(
            updated.applicationID,
            updated.state,
            updated.stateTransitionTimestamp / 1e9,
            updated.message,
        )
        matching = self._matching(updated.applicationID)
        for key, known in matching:
            known.heard = heard
            if not self.replaying:
                known.told_state = heard.state
            # Among namesakes it is unknown which application has ended. If one of them is not accepted yet,
            # its predecessor of the same name has ended.
            if heard.state in ENDED and known.accepted and len(matching) == 1:
                self._forget_application(key)
            elif heard.state == "Accepted":
                self._endings.accepted(key)
        return [] if self.replaying else [heard]

    def _forget_application(self, key: AppKey) -> None:
        cache = self._cache
        del cache.applications[key]
        cache.dropped.take(key)
        for ask_key in list(cache.by_application.get(key, ())):
            cache.drop(ask_key)

    def allocations(self, response: si.AllocationResponse) -> list[Event]:
        """Apply allocations, rejected asks, and reported and requested releases."""
        events: list[Event] = []
        cache = self._cache
        for new in response.new:
            key, node_id = new.allocationKey, new.nodeID
            known = cache.asks.get(key)
            # The ask was released while the answer was on its way.
            if known is None:
                continue
            if known.node_id == node_id:
                cache.unconfirmed.discard(key)
                cache.place(key, node_id)
                continue
            cache.place(key, node_id)
            if node_id in cache.nodes:
                ask = known.ask
                events.append(Allocated(key, ask.application_id, node_id, ask.partition, ask.placeholder))
            else:
                # The node was removed while the answer was on its way; a release follows.
                cache.expect_release(key)
        for released in response.released:
            events += self._endings.released(released)
        for rejected in response.rejectedAllocations:
            if rejected.allocationKey in cache.orphans:
                cache.orphans.remove(rejected.allocationKey)
            else:
                events.append(self._rejected(rejected))
        return events

    def _rejected(self, rejected: si.RejectedAllocation) -> Event:
        cache = self._cache
        key = rejected.allocationKey
        known = cache.asks.get(key)
        # A refused change is undone. An item that the server has is retained.
        if known is None or cache.undo(key):
            pass
        elif not known.node_id or self.replaying or key in cache.unconfirmed:
            cache.drop(key)
        placeholder = known is not None and known.ask.placeholder
        return AskRejected(key, rejected.applicationID, rejected.reason, placeholder)
