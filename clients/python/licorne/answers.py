"""Applies the scheduler's answers to the cache, and turns them into the caller's events.

A replay makes the server answer for everything once more: it accepts nodes and applications,
reports their states and echoes allocations. The caller has had these events before. So a replay
makes events only of answers that differ.

A rejection of an accepted item is about a repetition or a change of it, and the item stays. Only in
a replay can the server reject an item that it had accepted before, as its books are new.
"""

import logging
from collections.abc import Iterator

from licorne.cache import Cache
from licorne.endings import Endings, Queue, nowhere
from licorne.events import (
    Allocated,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationStateChanged,
    AskRejected,
    Event,
    NodeAccepted,
    NodeRejected,
)
from licorne.known import AppKey, KnownApplication
from licorne.options import GangOptions
from licorne.si.v1 import si_pb2 as si

LOG = logging.getLogger("licorne")

ENDED = frozenset({"Completed", "Failed", "Expired"})
"""The states in which the server forgets an application."""


class Answers:
    """Applies responses to a cache and makes events of them."""

    def __init__(
        self, cache: Cache, options: GangOptions | None = None, queue: Queue = nowhere
    ) -> None:
        """Apply the answers to `cache`. The client's own replies to some are queued."""
        self._cache = cache
        self._endings = Endings(cache, options or GangOptions(), queue)
        self.replaying = False
        """True while a replay is under way that the server has not found complete yet."""

    def begin_replay(self) -> list[Event]:
        """The server has dropped everything: returns the releases under way as events."""
        self.replaying = True
        return [*self._cache.begin_replay()]

    def end_replay(self) -> list[Event]:
        """The server has everything again: returns the changed states of applications."""
        self.replaying = False
        events: list[Event] = []
        for known in self._cache.applications.values():
            if known.heard is not None and known.heard.state != known.told_state:
                known.told_state = known.heard.state
                events.append(known.heard)
        return events

    def nodes(self, response: si.NodeResponse) -> list[Event]:
        """Nodes that the server accepted or rejected."""
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
        """Applications that the server accepted or rejected, and changes of their states."""
        events: list[Event] = []
        doubtful = self._doubtful(response)
        # Acceptances first: what one message accepts it has not rejected.
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

        They cannot be told apart if neither runs, so both stay known. To forget the accepted one
        would leave it out of the next replay, which would end its allocations. The server rejects
        the other one again in that replay, which does no harm.
        """
        if not response.rejected:
            return set()
        accepted = {item.applicationID for item in response.accepted}
        both = accepted.intersection(item.applicationID for item in response.rejected)
        return {
            name for name in both if sum(not self._runs(key) for key in self._waiting(name)) > 1
        }

    def _application_rejected(
        self, rejected: si.RejectedApplication, doubtful: set[str]
    ) -> Iterator[Event]:
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
        """Note the placeholders of a rejected application, whose rejections make no events."""
        cache = self._cache
        for ask_key in cache.by_application.get(key, ()):
            known = cache.asks[ask_key]
            if known.ask.placeholder and not known.node_id:
                cache.orphans.add(ask_key)

    def _waiting(self, application_id: str) -> list[AppKey]:
        """The applications of that id that the server has not accepted yet, oldest first.

        The server answers in the order of the requests, so its next answer is about the oldest.
        """
        return [key for key, known in self._matching(application_id) if not known.accepted]

    def _runs(self, key: AppKey) -> bool:
        """True if an application has an allocation. A replay forces it then: it is accepted."""
        cache = self._cache
        return any(cache.asks[ask].node_id for ask in cache.by_application.get(key, ()))

    def _matching(self, application_id: str) -> list[tuple[AppKey, KnownApplication]]:
        """The applications of that id, at most one for each partition, oldest first.

        Answers of `si.v1` do not say which partition they are about.
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
            # With namesakes it is unknown which of them has ended. An application that is not
            # accepted yet was submitted again, and the end is that of its predecessor.
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
        """Asks that were allocated or rejected, and allocations that ended or should end."""
        events: list[Event] = []
        cache = self._cache
        for new in response.new:
            key, node_id = new.allocationKey, new.nodeID
            known = cache.asks.get(key)
            # An unknown ask was released while the answer was on its way.
            if known is None:
                continue
            if known.node_id == node_id:
                cache.unconfirmed.discard(key)
                cache.place(key, node_id)
                continue
            cache.place(key, node_id)
            if node_id in cache.nodes:
                ask = known.ask
                events.append(
                    Allocated(key, ask.application_id, node_id, ask.partition, ask.placeholder)
                )
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
        # A refused change is taken back. Something the server has stays as it is.
        if known is None or cache.undo(key):
            pass
        elif not known.node_id or self.replaying or key in cache.unconfirmed:
            cache.drop(key)
        placeholder = known is not None and known.ask.placeholder
        return AskRejected(key, rejected.applicationID, rejected.reason, placeholder)
