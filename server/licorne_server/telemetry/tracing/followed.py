"""Followed asks, which have open spans, and the spans of their predicate checks."""

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
"""Asks with open spans, at most."""

MAX_OF_RM = MAX_FOLLOWED // 2
"""Asks of one RM with open spans, so that room is left for other RMs."""

Key = tuple[AppId, AllocationKey]
"""Key of an ask within its RM."""

Stands = Callable[[RmId, str, str, str], Standing | None]
"""`Views.standing`."""


class OpenCheck:
    """A predicate check under way. Its span is made at its end."""

    __slots__ = ("nodes", "number", "partition", "time")

    def __init__(self, number: int, partition: PartitionName, nodes: int, time: float) -> None:
        """A check of `nodes` nodes, asked at `time` in unix seconds."""
        self.number = number
        self.partition = partition
        self.nodes = nodes
        self.time = time


class FollowedAsk:
    """An ask with an open span, and its unanswered predicate check."""

    __slots__ = ("ask", "check", "known", "queue", "reason", "release", "span", "time")

    def __init__(self, ask: Ask, span: Span, time: float) -> None:
        """Start in an unknown state; `time` is the read time of the ask, in unix seconds."""
        self.ask = ask
        self.span = span
        self.time = time
        self.known = False
        """True once the core has had the ask."""
        self.reason = ""
        """Its blocker at the last look."""
        self.queue = ""
        self.check: OpenCheck | None = None
        """Its open predicate check, one at most."""
        self.release: ReleaseRequest | None = None
        """Its release by the RM, until the core has carried out the release."""

    def note_queue(self, stands: Standing) -> None:
        """Note its queue, in its span too."""
        self.queue = stands.queue
        self.span.set_attribute("licorne.partition", stands.partition)
        self.span.set_attribute("licorne.queue", stands.queue)


class FollowedAsks:
    """All followed asks, by RM, and the bounded number of their open spans."""

    def __init__(self, counts: TraceCounts) -> None:
        """Start without asks."""
        self._counts = counts
        self._of_rms: dict[RmId, dict[Key, FollowedAsk]] = {}
        # Open spans by RM, without zeros: of followed asks, and of ended asks whose spans wait for
        # their end.
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
        """True if a new ask is to be followed: there is room for it, and it is not followed yet.

        Without room the ask is counted as dropped.
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
        """Stop following an ask, whose span stays open; None if the ask was not followed."""
        of_rm = self._of_rms.get(rm_id)
        found = None if of_rm is None else of_rm.pop(key, None)
        if not of_rm:
            self._of_rms.pop(rm_id, None)
        return found

    def take_all(self, rm_id: RmId) -> dict[Key, FollowedAsk]:
        """Stop following all asks of an RM, whose spans stay open."""
        return self._of_rms.pop(rm_id, {})

    def close(self, rm_id: RmId) -> None:
        """Count the end of the span of an ask that was taken."""
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
    """Open predicate checks of followed asks."""

    def __init__(self, spans: Spans, followed: FollowedAsks, ends: Ends) -> None:
        """Start without open checks."""
        self._spans = spans
        self._followed = followed
        self._ends = ends
        # Followed asks with open checks, by RM and number of the check.
        self._asked: dict[RmId, dict[int, FollowedAsk]] = {}

    def asked(self, asked: PredicatesAsked) -> None:
        """Note checks asked of an RM, for followed and other asks."""
        of_rm = self._followed.of(asked.rm_id)
        for check in asked.checks:
            found = of_rm.get((check.app_id, check.key))
            if found is not None:
                self._begin(asked, check, found)

    def _begin(self, asked: PredicatesAsked, check: AskedCheck, found: FollowedAsk) -> None:
        """Begin a check of a followed ask; an earlier open check ends unanswered."""
        self._end(asked.rm_id, found, NO_ANSWER)
        number, nodes = check.check, len(check.nodes)
        found.check = OpenCheck(number, asked.partition, nodes, self._spans.now())
        self._asked.setdefault(asked.rm_id, {})[number] = found

    def answered(self, rm_id: RmId, checks: Iterable[int]) -> None:
        """Note checks answered by the RM, for followed and other asks."""
        open_checks = self._asked.get(rm_id, {})
        for check in checks:
            found = open_checks.get(check)
            if found is not None:
                self._end(rm_id, found, ANSWERED)

    def drop(self, rm_id: RmId, found: FollowedAsk) -> None:
        """Expect no answer to an open check any more; `write_open` follows."""
        of_rm = self._asked.get(rm_id)
        if of_rm is not None and found.check is not None:
            of_rm.pop(found.check.number, None)
            if not of_rm:
                del self._asked[rm_id]

    def forget(self, rm_id: RmId) -> None:
        """Expect no answers of an RM any more."""
        self._asked.pop(rm_id, None)

    def write_open(self, rm_id: RmId, found: FollowedAsk, time: float) -> None:
        """Write the span of the open check, if any, of an ask that ended at `time`.

        The check ends unanswered.
        """
        if found.check is not None:
            self._write(rm_id, found, found.check, NO_ANSWER, time)

    def _end(self, rm_id: RmId, found: FollowedAsk, outcome: str) -> None:
        """End the open check of an ask, if there is one."""
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
