"""Spans of sampled asks, from their arrival to their end: placed, rejected, released, or unregistered with
their RM.

The spans of an ask's predicate checks are children of its span.
"""

from collections.abc import Callable, Iterable, Mapping

from licorne_core.messages.commands import ReleaseRequest
from licorne_core.messages.effects import (
    AllocationsMade,
    AllocationsRejected,
    AllocationsReleased,
    Effect,
    PredicatesAsked,
)
from licorne_core.values.asks import NO_TAGS, Ask
from licorne_core.values.ids import AllocationKey, AppId, RmId
from licorne_core.values.rule_kinds import tag_value
from licorne_core.views import Standing
from licorne_server.telemetry.tracing.spans import RM_ID, Parent, Span, Spans, Value
from licorne_server.telemetry.tracing.starting import TOO_MANY_ASKS, TraceCounts
from licorne_server.wire.asks import STATE_TAG, TAG, read_context

Key = tuple[AppId, AllocationKey]
"""Key of an ask within its RM."""

Stands = Callable[[RmId, str, str, str], Standing | None]
"""Type of `Views.standing`."""

MAX_FOLLOWED = 10_000
"""Asks with open spans, at most."""

MAX_OF_RM = MAX_FOLLOWED // 2
"""Asks of one RM with open spans, so that room is left for other RMs."""

MAX_RESOURCES = 32
"""Resources named in a span, the first by name; an ask may request thousands."""

ALLOCATED = "allocated"
REJECTED = "rejected"
RELEASED = "released"
GONE = "gone"
UNREGISTERED = "rm gone"

ANSWERED = "answered"
NO_ANSWER = "no answer"

CHECK = "licorne.check"
OUTCOME = "licorne.outcome"


class FollowedAsk:
    """An ask with an open span, and its unanswered predicate check."""

    __slots__ = ("ask", "check", "known", "queue", "reason", "span")

    def __init__(self, ask: Ask, span: Span) -> None:
        """Start in an unknown state."""
        self.ask = ask
        self.span = span
        self.known = False
        """True once the ask was seen in the core."""
        self.reason = ""
        """Its blocker when it was last examined."""
        self.queue = ""
        self.check: Span | None = None
        """Span of its open predicate check, one at most; None without one."""

    def note_queue(self, stands: Standing) -> None:
        """Record the ask's queue, in the span too."""
        self.queue = stands.queue
        self.span.attributes["licorne.partition"] = stands.partition
        self.span.attributes["licorne.queue"] = stands.queue


class AskSpans:
    """Followed asks: sampled asks with open spans, by RM, in bounded number."""

    def __init__(self, spans: Spans, counts: TraceCounts, stands: Stands) -> None:
        """Start without asks. `stands` gives queue and blocker of an ask."""
        self._spans = spans
        self._counts = counts
        self._stands = stands
        self._of_rms: dict[RmId, dict[Key, FollowedAsk]] = {}
        # Followed asks with open checks, by RM and number of the check.
        self._checked: dict[RmId, dict[int, FollowedAsk]] = {}

    def has(self, rm_id: RmId) -> bool:
        """True if asks of the RM are followed."""
        return rm_id in self._of_rms

    def rm_ids(self) -> list[RmId]:
        """The RMs with followed asks."""
        return list(self._of_rms)

    def of(self, rm_id: RmId) -> Mapping[Key, FollowedAsk]:
        """The followed asks of the RM; copy them before adding or removing any."""
        return self._of_rms.get(rm_id, {})

    def begin(self, rm_id: RmId, asks: Iterable[Ask], call: Parent | None) -> None:
        """Follow the sampled asks among new ones; `call` is the trace context of their call."""
        tags: Mapping[str, str] = NO_TAGS
        parent = call
        for ask in asks:
            if ask.node_id is not None:
                continue
            # Asks of one message often share their tags, as one object.
            if ask.tags is not tags:
                tags = ask.tags
                parent = self._parent(tags, call)
            if self._spans.wanted(parent):
                self._follow(rm_id, ask, parent)

    def _parent(self, tags: Mapping[str, str], call: Parent | None) -> Parent | None:
        """Parent context of an ask with these tags."""
        text = tag_value(tags, TAG)
        if not text:
            return call
        context = read_context(text, tag_value(tags, STATE_TAG))
        if context is None:
            self._counts.malformed += 1
            return call
        return context

    def _follow(self, rm_id: RmId, ask: Ask, parent: Parent | None) -> None:
        """Follow an ask, unless it is followed already, or too many are."""
        of_rm = self.of(rm_id)
        key = (ask.app_id, ask.key)
        if key in of_rm:
            return
        if len(of_rm) >= MAX_OF_RM or self._counts.followed >= MAX_FOLLOWED:
            self._counts.dropped[TOO_MANY_ASKS] += 1
            return
        attributes: dict[str, Value] = {
            RM_ID: rm_id,
            "licorne.application_id": ask.app_id,
            "licorne.allocation_key": ask.key,
            "licorne.priority": ask.priority,
            "licorne.placeholder": ask.placeholder,
        }
        if ask.task_group:
            attributes["licorne.task_group"] = ask.task_group
        for name, amount in ask.ask_class.items[:MAX_RESOURCES]:
            attributes[f"licorne.resource.{name}"] = amount
        span = Span("ask", ask.read_time or self._spans.now(), parent, attributes)
        self._of_rms.setdefault(rm_id, {})[key] = FollowedAsk(ask, span)
        self._counts.followed += 1

    def told(self, effect: Effect) -> list[Span]:
        """Record an effect sent to an RM; returns the spans of asks that it has placed."""
        rm_id = effect.rm_id
        placed: list[Span] = []
        match effect:
            case AllocationsMade(allocations=made):
                for allocation in made:
                    key = (allocation.ask.app_id, allocation.ask.key)
                    found = self._end(rm_id, key, ALLOCATED, {"licorne.node_id": allocation.node_id})
                    if found is not None:
                        placed.append(found.span)
            case AllocationsReleased(releases=releases):
                for release in releases:
                    about = {"licorne.termination": release.termination.name}
                    self._end(rm_id, (release.app_id, release.key), RELEASED, about, release.message)
            case AllocationsRejected(rejections=rejections):
                for refused in rejections:
                    about = {"licorne.rejection": refused.code.value}
                    self._end(rm_id, (refused.app_id, refused.key), REJECTED, about, refused.reason)
            case PredicatesAsked():
                self._ask_checks(effect)
            case _:
                pass
        return placed

    def released(self, rm_id: RmId, releases: Iterable[ReleaseRequest]) -> None:
        """End the pending asks of these releases of the RM, which the core has carried out."""
        for release in releases:
            key = (release.app_id, release.key)
            found = self.of(rm_id).get(key)
            if found is not None and self._stands_now(rm_id, found.ask) is None:
                self._end(rm_id, key, RELEASED, message=release.message)

    def gone(self, rm_id: RmId, key: Key) -> None:
        """End an ask that was removed from the core without an effect."""
        self._end(rm_id, key, GONE)

    def forget(self, rm_id: RmId) -> None:
        """End all asks of an RM that was removed or registers anew."""
        for key in list(self.of(rm_id)):
            self._end(rm_id, key, UNREGISTERED)

    def drop(self, rm_id: RmId, key: Key) -> FollowedAsk | None:
        """Stop following an ask, whose span stays open; None if it was not followed.

        An open check of the ask ends unanswered.
        """
        of_rm = self._of_rms.get(rm_id)
        found = None if of_rm is None else of_rm.pop(key, None)
        if found is not None:
            self._counts.followed -= 1
            if not of_rm:
                del self._of_rms[rm_id]
            self._end_check(rm_id, found, NO_ANSWER)
        return found

    def _end(
        self, rm_id: RmId, key: Key, outcome: str, about: Mapping[str, str] = NO_TAGS, message: str = ""
    ) -> FollowedAsk | None:
        """End an ask with an outcome and attributes; returns None if it was not followed."""
        found = self.drop(rm_id, key)
        if found is None:
            return None
        # An RM that registered anew may have another ask of the same name.
        if not found.queue and outcome != UNREGISTERED:
            stands = self._stands_now(rm_id, found.ask)
            if stands is not None:
                found.note_queue(stands)
        attributes = found.span.attributes
        attributes.update(about)
        attributes[OUTCOME] = outcome
        if message:
            attributes["licorne.message"] = message
        self._spans.end(found.span, message if outcome == REJECTED else None)
        return found

    def _stands_now(self, rm_id: RmId, ask: Ask) -> Standing | None:
        return self._stands(rm_id, ask.partition, ask.app_id, ask.key)

    def _ask_checks(self, asked: PredicatesAsked) -> None:
        """Begin the checks of followed asks; earlier open ones end unanswered."""
        rm_id, of_rm = asked.rm_id, self.of(asked.rm_id)
        for check in asked.checks:
            found = of_rm.get((check.app_id, check.key))
            if found is None:
                continue
            self._end_check(rm_id, found, NO_ANSWER)
            attributes: dict[str, Value] = {
                RM_ID: rm_id,
                "licorne.partition": asked.partition,
                CHECK: check.check,
                "licorne.nodes": len(check.nodes),
            }
            found.check = Span("predicate check", self._spans.now(), found.span, attributes)
            self._checked.setdefault(rm_id, {})[check.check] = found

    def answered(self, rm_id: RmId, checks: Iterable[int]) -> None:
        """End the checks that the RM has answered, of followed and other asks."""
        of_rm = self._checked.get(rm_id)
        if of_rm is not None:
            for check in checks:
                found = of_rm.get(check)
                if found is not None:
                    self._end_check(rm_id, found, ANSWERED)

    def _end_check(self, rm_id: RmId, found: FollowedAsk, outcome: str) -> None:
        """End the open check of an ask, if there is one."""
        span, found.check = found.check, None
        if span is not None:
            of_rm = self._checked[rm_id]
            del of_rm[int(span.attributes[CHECK])]
            if not of_rm:
                del self._checked[rm_id]
            span.attributes[OUTCOME] = outcome
            self._spans.end(span)
