"""Spans of predicate checks: from the question to the RM to its answer or its end."""

from collections.abc import Iterable
from functools import partial

from licorne_core.messages.effects import AskedCheck, PredicatesAsked
from licorne_core.values.ids import RmId
from licorne_server.telemetry.tracing.followed import FollowedAsk, FollowedAsks, OpenCheck
from licorne_server.telemetry.tracing.spans import RM_ID, Ends, Spans, nanoseconds

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
