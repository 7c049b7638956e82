"""Spans of sampled asks, from their arrival until they are placed, rejected, released or removed.

The spans of an ask's predicate checks are children of its span. A task examines followed asks, and adds an
event to a span whenever the blocker of its ask changes. The task works in time slices among readers, and
sleeps while no ask is followed.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import thread_time

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
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.telemetry.tracing.spans import RM_ID, Parent, Span, Spans, Value
from licorne_server.telemetry.tracing.starting import TOO_MANY_ASKS, TraceCounts
from licorne_server.wire.asks import STATE_TAG, TAG, read_context

Key = tuple[AppId, AllocationKey]
"""Key of an ask within its RM."""

Stands = Callable[[RmId, str, str, str], Standing | None]
"""Type of `Views.standing`."""

MAX_FOLLOWED = 10_000
"""Maximum number of asks with open spans."""

MAX_OF_RM = MAX_FOLLOWED // 2
"""Maximum number of asks of one RM with open spans, so that room is left for other RMs."""

MAX_RESOURCES = 32
"""Maximum number of resources that a span names, the first by name. An ask may request thousands."""

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
        """Start with an unknown state of the ask."""
        self.ask = ask
        self.span = span
        self.known = False
        """True once the ask was seen in the core."""
        self.reason = ""
        """The blocker of the ask when it was last examined."""
        self.queue = ""
        self.check: Span | None = None
        """Span of the ask's only open predicate check; None if there is none."""

    def note_queue(self, stands: Standing) -> None:
        """Record the ask's queue, also in the span."""
        self.queue = stands.queue
        self.span.attributes["licorne.partition"] = stands.partition
        self.span.attributes["licorne.queue"] = stands.queue


class AskSpans:
    """Followed asks, by RM: a bounded number of sampled asks with open spans."""

    def __init__(self, spans: Spans, counts: TraceCounts, stands: Stands) -> None:
        """Start without asks. `stands` returns queue and blocker of an ask."""
        self._spans = spans
        self._counts = counts
        self._stands = stands
        self._of_rms: dict[RmId, dict[Key, FollowedAsk]] = {}
        # Followed asks with open checks, by RM and by number of the check.
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
            # Asks of one message often have the same object of tags.
            if ask.tags is not tags:
                tags = ask.tags
                parent = self._parent(tags, call)
            if self._spans.wanted(parent):
                self._follow(rm_id, ask, parent)

    def _parent(self, tags: Mapping[str, str], call: Parent | None) -> Parent | None:
        """The parent context of an ask with these tags; `call` is the context of its call."""
        text = tag_value(tags, TAG)
        if not text:
            return call
        context = read_context(text, tag_value(tags, STATE_TAG))
        if context is None:
            self._counts.malformed += 1
            return call
        return context

    def _follow(self, rm_id: RmId, ask: Ask, parent: Parent | None) -> None:
        """Follow an ask, unless it is followed already, or too many asks are followed."""
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
        """Record an effect sent to an RM; returns the spans of the asks that the effect has placed."""
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
        """End the spans of the RM's pending asks with these releases, which the core has carried out."""
        for release in releases:
            key = (release.app_id, release.key)
            found = self.of(rm_id).get(key)
            if found is not None and self._stands_now(rm_id, found.ask) is None:
                self._end(rm_id, key, RELEASED, message=release.message)

    def gone(self, rm_id: RmId, key: Key) -> None:
        """End the span of an ask that was removed from the core without an effect."""
        self._end(rm_id, key, GONE)

    def forget(self, rm_id: RmId) -> None:
        """End the spans of all asks of an RM that was removed or registers again."""
        for key in list(self.of(rm_id)):
            self._end(rm_id, key, UNREGISTERED)

    def drop(self, rm_id: RmId, key: Key) -> FollowedAsk | None:
        """Stop following an ask, but leave its span open; None if it was not followed.

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
        """End the span of an ask with an outcome and attributes; return None if it was not followed."""
        found = self.drop(rm_id, key)
        if found is None:
            return None
        # An RM that has registered again may have another ask of the same name.
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
        """Begin the spans of checks of followed asks; spans of earlier open checks end as unanswered."""
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
        """End the spans of checks that the RM has answered, of followed and other asks."""
        of_rm = self._checked.get(rm_id)
        if of_rm is not None:
            for check in checks:
                found = of_rm.get(check)
                if found is not None:
                    self._end_check(rm_id, found, ANSWERED)

    def _end_check(self, rm_id: RmId, found: FollowedAsk, outcome: str) -> None:
        """End the span of an ask's open check, if there is one."""
        span, found.check = found.check, None
        if span is not None:
            of_rm = self._checked[rm_id]
            del of_rm[int(span.attributes[CHECK])]
            if not of_rm:
                del self._checked[rm_id]
            span.attributes[OUTCOME] = outcome
            self._spans.end(span)


UNKNOWN_SECONDS = 10.0
"""Seconds after which an ask that has not reached the core counts as gone."""

LOOK_SECONDS = 1.0
"""Seconds between two examinations of each followed ask, even without a change."""

PAUSE_FACTOR = 50.0
"""Minimum pause between two examinations of an ask, as a multiple of the duration of all examinations."""

MAX_PAUSE = 2.0
"""Longest pause due to `PAUSE_FACTOR`, in seconds."""

PEER = "traces"


class Looking:
    """Examines followed asks for changes of their blockers."""

    def __init__(
        self,
        asks: AskSpans,
        stands: Stands,
        time_slices: TimeSlices,
        clock: Clock,
        on_defect: Callable[[], None],
    ) -> None:
        """Create the task, which does not run before `start`.

        `stands` returns the blocker of an ask. Spans of asks that left the core are ended. `on_defect` is
        called in the handler of an exception that ends this task.
        """
        self._asks = asks
        self._stands = stands
        self._time_slices = time_slices
        self._clock = clock
        self._on_defect = on_defect
        self._changed: dict[RmId, None] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="traces")

    async def stop(self) -> None:
        """Stop the task."""
        await stop_task(self._task)

    def wake(self) -> None:
        """Wake the task if asks are followed."""
        if self._asks.rm_ids():
            self._news.set()

    def changed(self, rm_id: RmId) -> None:
        """Record a change of the RM's books."""
        if self._asks.has(rm_id):
            self._changed[rm_id] = None
            self._news.set()

    async def _run(self) -> None:
        try:
            await self._look_on()
        except Exception:
            self._on_defect()

    async def _look_on(self) -> None:
        due = 0.0
        while True:
            await self._clock.wait(due if self._asks.rm_ids() else None, self._news)
            self._news.clear()
            changed, self._changed = list(self._changed), {}
            if self._clock.now() >= due:
                changed = self._asks.rm_ids()
                due = self._clock.now() + LOOK_SECONDS
            spent = await self._look_at(changed)
            # This is CPU time of the thread, so that a busy machine does not lengthen the pause.
            if spent:
                await asyncio.sleep(min(MAX_PAUSE, PAUSE_FACTOR * spent))

    async def _look_at(self, rm_ids: list[RmId]) -> float:
        """Examine the asks of these RMs; returns the CPU seconds used."""
        looks = self._looks(rm_ids)
        spent = 0.0
        while rm_ids:
            async with self._time_slices.slice(PEER) as is_over:
                begin = thread_time()
                is_last = True
                for _ in looks:
                    if is_over():
                        is_last = False
                        break
                spent += thread_time() - begin
            if is_last:
                break
        return spent

    def _looks(self, rm_ids: Iterable[RmId]) -> Iterator[None]:
        """Examine all followed asks of these RMs; yields None after each ask."""
        for rm_id in rm_ids:
            for key, found in list(self._asks.of(rm_id).items()):
                if self._asks.of(rm_id).get(key) is found:
                    self._look(rm_id, key, found)
                yield None

    def _look(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        now, ask = self._clock.now(), found.ask
        stands = self._stands(rm_id, ask.partition, ask.app_id, ask.key)
        if stands is None:
            if found.known or now - found.span.time > UNKNOWN_SECONDS:
                self._asks.gone(rm_id, key)
            return
        if not stands.reason:
            # The core had the ask before this message, so no effect will follow.
            self._asks.drop(rm_id, key)
            return
        found.known = True
        if stands.reason != found.reason:
            about = {"licorne.reason": stands.reason}
            if found.reason:
                about["licorne.reason.before"] = found.reason
            found.reason = stands.reason
            found.span.add_event("reason", now, about)
        if stands.queue != found.queue:
            found.note_queue(stands)
