"""Checks of followed asks, one after another: their presence, and their blockers.

`looking.py` schedules them. An event is added to the span of an ask whenever its blocker changes.
"""

from collections.abc import Iterable, Iterator

from licorne_core.values.ids import RmId
from licorne_server.telemetry.tracing.ask_ends import AskEnds
from licorne_server.telemetry.tracing.followed import FollowedAsk, FollowedAsks, Key, Stands
from licorne_server.telemetry.tracing.spans import Spans, nanoseconds

UNKNOWN_SECONDS = 10.0
"""Seconds that an ask may be on its way to the core; then it is taken for gone."""

REASON_EVENT = "reason"


class AskLooks:
    """Looks at asks that are followed."""

    def __init__(self, spans: Spans, followed: FollowedAsks, stands: Stands, ends: AskEnds) -> None:
        """`stands` gives the blocker of an ask, and `ends` ends those that are gone."""
        self._spans = spans
        self._followed = followed
        self._stands = stands
        self._ends = ends

    def at(self, rm_ids: Iterable[RmId]) -> Iterator[None]:
        """Look at all followed asks of these RMs, with a None after each."""
        for rm_id in rm_ids:
            for key, found in list(self._followed.of(rm_id).items()):
                if self._followed.of(rm_id).get(key) is found:
                    self._look(rm_id, key, found)
                yield None

    def _look(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        now, ask = self._spans.now(), found.ask
        stands = self._stands(rm_id, ask.partition, ask.app_id, ask.key)
        if stands is None:
            if found.known or now - found.time > UNKNOWN_SECONDS:
                self._ends.gone(rm_id, key)
            return
        if not stands.reason:
            # It was there before it was sent this time: there is nothing to be told of.
            self._followed.take(rm_id, key)
            self._followed.close(rm_id)
            return
        found.known = True
        if stands.reason != found.reason:
            about = {"licorne.reason": stands.reason}
            if found.reason:
                about["licorne.reason.before"] = found.reason
            found.reason = stands.reason
            found.span.add_event(REASON_EVENT, about, nanoseconds(now))
        if stands.queue != found.queue:
            found.note_queue(stands)
