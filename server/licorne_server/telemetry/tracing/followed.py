"""Followed asks, those with open spans, and the spans of the predicate checks about them."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from opentelemetry.trace import Span

from licorne_core.messages.commands import ReleaseRequest
from licorne_core.messages.effects import AskedCheck, PredicatesAsked
from licorne_core.values.asks import Ask
from licorne_core.values.ids import AllocationKey, AppId, PartitionName, RmId
from licorne_core.views import Standing
from licorne_server.telemetry.tracing.spans import RM_ID, Ends, Spans, nanoseconds
from licorne_server.telemetry.tracing.starting import TOO_MANY_ASKS, TraceCounts

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


SPAN = "predicate check"

ANSWERED = "answered"
NO_ANSWER = "no answer"


class CheckSpans:
    """The checks that are under way of asks that are followed."""

    def __init__(self, spans: Spans, followed: FollowedAsks, ends: Ends) -> None:
        """Start without open checks."""
        self._spans = spans
        self._followed = followed
        self._ends = ends
        # Whom each RM is being asked about, by the number of the check.
        self._asked: dict[RmId, dict[int, FollowedAsk]] = {}

    def asked(self, asked: PredicatesAsked) -> None:
        """An RM is asked about nodes, for asks that are followed and for others."""
        of_rm = self._followed.of(asked.rm_id)
        for check in asked.checks:
            found = of_rm.get((check.app_id, check.key))
            if found is not None:
                self._begin(asked, check, found)

    def _begin(self, asked: PredicatesAsked, check: AskedCheck, found: FollowedAsk) -> None:
        """An RM is asked about a followed ask; an earlier question was not answered."""
        self._end(asked.rm_id, found, NO_ANSWER)
        number, nodes = check.check, len(check.nodes)
        found.check = OpenCheck(number, asked.partition, nodes, self._spans.now())
        self._asked.setdefault(asked.rm_id, {})[number] = found

    def answered(self, rm_id: RmId, checks: Iterable[int]) -> None:
        """The RM has answered these checks, of asks that are followed and of others."""
        open_checks = self._asked.get(rm_id, {})
        for check in checks:
            found = open_checks.get(check)
            if found is not None:
                self._end(rm_id, found, ANSWERED)

    def drop(self, rm_id: RmId, found: FollowedAsk) -> None:
        """Drop an open check, whose answer is no longer expected; `write_open` is still to come."""
        of_rm = self._asked.get(rm_id)
        if of_rm is not None and found.check is not None:
            of_rm.pop(found.check.number, None)
            if not of_rm:
                del self._asked[rm_id]

    def forget(self, rm_id: RmId) -> None:
        """The same for all asks of an RM."""
        self._asked.pop(rm_id, None)

    def write_open(self, rm_id: RmId, found: FollowedAsk, time: float) -> None:
        """A followed ask has ended at that time: so has what its RM was asked about it, if it was.

        That was not answered.
        """
        if found.check is not None:
            self._write(rm_id, found, found.check, NO_ANSWER, time)

    def _end(self, rm_id: RmId, found: FollowedAsk, outcome: str) -> None:
        """End the RM's open check of an ask, if there is one."""
        self.drop(rm_id, found)
        check, found.check = found.check, None
        if check is not None:
            time = self._spans.now()
            self._ends.add(partial(self._write, rm_id, found, check, outcome, time))

    def _write(self, rm_id: RmId, found: FollowedAsk, check: OpenCheck, outcome: str, time: float) -> None:
        about: dict[str, str | int] = {
            RM_ID: rm_id,
            "licorne.partition": check.partition,
            "licorne.check": check.number,
            "licorne.nodes": check.nodes,
            "licorne.outcome": outcome,
        }
        span = self._spans.begin_below(SPAN, check.time, found.span, about)
        span.end(nanoseconds(time))
