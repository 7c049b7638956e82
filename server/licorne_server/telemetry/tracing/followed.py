"""Followed asks: those with open spans."""

from collections.abc import Callable, Mapping

from opentelemetry.trace import Span

from licorne_core.messages.commands import ReleaseRequest
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_core.views import Standing
from licorne_server.telemetry.tracing.defects import TOO_MANY_ASKS, TraceCounts

MAX_FOLLOWED = 10_000
"""Asks of a server with open spans, at most."""

MAX_OF_RM = MAX_FOLLOWED // 2
"""Asks of one RM, so that none leaves no room for the others."""

Key = tuple[AppId, AllocationKey]
"""Key of an ask within its RM."""

Stands = Callable[[RmId, str, str, str], Standing | None]
"""`Views.standing`."""


class OpenCheck:
    """A predicate check that is under way. Its span is made when it is over."""

    __slots__ = ("nodes", "number", "partition", "time")

    def __init__(self, number: int, partition: PartitionName, nodes: int, time: float) -> None:
        """A question to the RM about so many nodes at that time, in unix seconds."""
        self.number = number
        self.partition = partition
        self.nodes = nodes
        self.time = time


class FollowedAsk:
    """An ask with an open span, and the question about it that its RM has not answered."""

    __slots__ = ("ask", "check", "known", "queue", "reason", "release", "span", "time")

    def __init__(self, ask: Ask, span: Span, time: float) -> None:
        """Start in an unknown state; the ask came in at that time, in unix seconds."""
        self.ask = ask
        self.span = span
        self.time = time
        self.known = False
        """True if the core has it, or had."""
        self.reason = ""
        """Its blocker at the last look."""
        self.queue = ""
        self.check: OpenCheck | None = None
        """The open question to the RM about it; one at most."""
        self.release: ReleaseRequest | None = None
        """Its release by its RM, until the core has carried that out."""

    def note_queue(self, stands: Standing) -> None:
        """Note in which queue it is, for its span too."""
        self.queue = stands.queue
        self.span.set_attribute("licorne.partition", stands.partition)
        self.span.set_attribute("licorne.queue", stands.queue)


class FollowedAsks:
    """All followed asks, by RM; and the bounded number of open spans of asks."""

    def __init__(self, counts: TraceCounts) -> None:
        """Start without asks."""
        self._counts = counts
        self._of_rms: dict[RmId, dict[Key, FollowedAsk]] = {}
        # How many spans of each RM are open: of asks that are followed, and of those that have
        # ended and wait for their spans to end. There are no zeros.
        self._open: dict[RmId, int] = {}

    def has(self, rm_id: RmId) -> bool:
        """True if asks of the RM are followed."""
        return rm_id in self._of_rms

    def rm_ids(self) -> list[RmId]:
        """The RMs with followed asks."""
        return list(self._of_rms)

    def of(self, rm_id: RmId) -> Mapping[Key, FollowedAsk]:
        """The followed asks of the RM; copy them before adding or removing any."""
        return self._of_rms.get(rm_id, {})

    def admit(self, rm_id: RmId, key: Key) -> bool:
        """True if an ask is to be followed: it is not yet, and there is room for it.

        Where there is no room it is counted as dropped.
        """
        if key in self._of_rms.get(rm_id, {}):
            return False
        if self._open.get(rm_id, 0) >= MAX_OF_RM or self._counts.followed >= MAX_FOLLOWED:
            self._counts.dropped[TOO_MANY_ASKS] += 1
            return False
        return True

    def add(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        """Follow an ask that was admitted."""
        self._of_rms.setdefault(rm_id, {})[key] = found
        self._open[rm_id] = self._open.get(rm_id, 0) + 1
        self._counts.followed += 1

    def take(self, rm_id: RmId, key: Key) -> FollowedAsk | None:
        """Follow an ask no longer; None if it was not followed. Its span is open still."""
        of_rm = self._of_rms.get(rm_id)
        found = None if of_rm is None else of_rm.pop(key, None)
        if not of_rm:
            self._of_rms.pop(rm_id, None)
        return found

    def take_all(self, rm_id: RmId) -> dict[Key, FollowedAsk]:
        """The same for all asks of an RM."""
        return self._of_rms.pop(rm_id, {})

    def close(self, rm_id: RmId) -> None:
        """The span of an ask of the RM, which was taken, is open no more."""
        self._counts.followed -= 1
        number = self._open[rm_id] - 1
        if number:
            self._open[rm_id] = number
        else:
            del self._open[rm_id]
