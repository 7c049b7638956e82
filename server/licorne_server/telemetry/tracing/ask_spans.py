"""Spans of sampled asks, from read to end: placed, rejected, released, or their RM unregistered.

If many asks end together, `spans.py` ends their spans in small steps. Pending asks are looked at in
time slices among readers: a span gets an event whenever the blocker of its ask changes.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from time import thread_time

from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode

from licorne_core.messages.commands import ReleaseRequest
from licorne_core.messages.effects import AllocationsMade, AllocationsRejected, AllocationsReleased, Effect
from licorne_core.values.asks import NO_TAGS, Ask
from licorne_core.values.ids import RmId
from licorne_core.values.rule_kinds import tag_value
from licorne_core.views import Standing
from licorne_server.process.clock import Clock
from licorne_server.process.fair import TimeSlices
from licorne_server.process.loop import stop_task
from licorne_server.telemetry.tracing.followed import CheckSpans, FollowedAsk, FollowedAsks, Key, Stands
from licorne_server.telemetry.tracing.spans import PEER, RM_ID, Ends, Spans, nanoseconds
from licorne_server.telemetry.tracing.starting import TraceCounts
from licorne_server.wire.asks import STATE_TAG, TAG, TraceContext, read_context

ALLOCATED = "allocated"
REJECTED = "rejected"
RELEASED = "released"
GONE = "gone"
UNREGISTERED = "rm gone"

MAX_RESOURCES = 32
"""Resources named in a span, the first by name; an ask may request thousands."""

SPAN = "ask"


class AskSpans:
    """Spans of sampled asks; each ask is followed until it has ended."""

    def __init__(
        self,
        spans: Spans,
        counts: TraceCounts,
        followed: FollowedAsks,
        checks: CheckSpans,
        stands: Stands,
        ends: Ends,
    ) -> None:
        """Malformed contexts are counted in `counts`. The open check of an ask ends with the ask."""
        self._spans = spans
        self._counts = counts
        self._followed = followed
        self._checks = checks
        self._stands = stands
        self._ends = ends
        # Spans of asks placed since the last turn, for the links of its span.
        self._placed: dict[tuple[RmId, Key], SpanContext] = {}

    def begin(self, rm_id: RmId, asks: Iterable[Ask], call: TraceContext | None) -> Iterator[None]:
        """Follow the sampled asks among new ones; yields None after each.

        `call` is the context of the call that brought them.
        """
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
                yield None

    def _parent(self, tags: Mapping[str, str], call: TraceContext | None) -> TraceContext | None:
        """Parent context of an ask with these tags."""
        text = tag_value(tags, TAG)
        if not text:
            return call
        context = read_context(text, tag_value(tags, STATE_TAG))
        if context is None:
            self._counts.malformed += 1
            return call
        return context

    def _follow(self, rm_id: RmId, ask: Ask, parent: TraceContext | None) -> None:
        key = (ask.app_id, ask.key)
        if not self._followed.admit(rm_id, key):
            return
        time = ask.read_time or self._spans.now()
        attributes: dict[str, str | int | bool] = {
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
        span = self._spans.begin(SPAN, time, parent, attributes, kind=SpanKind.CONSUMER)
        if span.is_recording():
            self._followed.add(rm_id, key, FollowedAsk(ask, span, time))

    def told(self, effect: Effect) -> None:
        """End the spans of asks that are ended by this effect."""
        rm_id = effect.rm_id
        match effect:
            case AllocationsMade(allocations=made):
                for allocation in made:
                    ask = allocation.ask
                    found = self._followed.take(rm_id, (ask.app_id, ask.key))
                    if found is not None:
                        self._placed[rm_id, (ask.app_id, ask.key)] = found.span.get_span_context()
                        about: dict[str, str] = {"licorne.node_id": allocation.node_id}
                        self._end(rm_id, found, ALLOCATED, about=about)
            case AllocationsReleased(releases=releases):
                for release in releases:
                    found = self._followed.take(rm_id, (release.app_id, release.key))
                    if found is not None:
                        about = {"licorne.termination": release.termination.name}
                        self._end(rm_id, found, RELEASED, release.message, about)
            case AllocationsRejected(rejections=rejections):
                for refused in rejections:
                    found = self._followed.take(rm_id, (refused.app_id, refused.key))
                    if found is not None:
                        about = {"licorne.rejection": refused.code.value}
                        self._end(rm_id, found, REJECTED, refused.reason, about)
            case _:
                pass

    def take_placed(self, effects: Sequence[Effect]) -> list[SpanContext]:
        """Spans of asks placed by these effects of a turn; all other placed spans are dropped."""
        if not self._placed:
            return []
        placed, self._placed = self._placed, {}
        found = []
        for effect in effects:
            if isinstance(effect, AllocationsMade):
                for allocation in effect.allocations:
                    ask = allocation.ask
                    context = placed.get((effect.rm_id, (ask.app_id, ask.key)))
                    if context is not None:
                        found.append(context)
        return found

    def releasing(self, rm_id: RmId, releases: Iterable[ReleaseRequest]) -> None:
        """Note releases of the RM, before the core gets them."""
        of_rm = self._followed.of(rm_id)
        for release in releases:
            found = of_rm.get((release.app_id, release.key))
            if found is not None:
                found.release = release

    def released(self, rm_id: RmId, releases: Iterable[ReleaseRequest]) -> None:
        """End the pending asks of these releases, which the core has carried out."""
        for release in releases:
            key = (release.app_id, release.key)
            found = self._followed.of(rm_id).get(key)
            if found is not None:
                is_there = self._stands_now(rm_id, found.ask) is not None
                found.release = None if is_there else release
                if not is_there:
                    self.gone(rm_id, key)

    def gone(self, rm_id: RmId, key: Key) -> None:
        """End an ask that left the core without an effect."""
        found = self._followed.take(rm_id, key)
        if found is None:
            return
        if found.release is not None:
            self._end(rm_id, found, RELEASED, found.release.message)
        else:
            self._end(rm_id, found, GONE)

    def forget(self, rm_id: RmId) -> None:
        """End all asks of an RM that was removed or registers anew."""
        gone, time = self._followed.take_all(rm_id), self._spans.now()

        def end_one() -> bool:
            _, found = gone.popitem()
            self._end_span(rm_id, found, time, UNREGISTERED)
            return bool(gone)

        if gone:
            self._checks.forget(rm_id)
            self._ends.add(end_one)

    def _end(
        self,
        rm_id: RmId,
        found: FollowedAsk,
        outcome: str,
        message: str = "",
        about: Mapping[str, str] = NO_TAGS,
    ) -> None:
        """End the span of an ask that is no longer followed, with an outcome and attributes."""
        self._checks.drop(rm_id, found)
        time = self._spans.now()
        self._ends.add(partial(self._end_span, rm_id, found, time, outcome, message, about))

    def _end_span(
        self,
        rm_id: RmId,
        found: FollowedAsk,
        time: float,
        outcome: str,
        message: str = "",
        about: Mapping[str, str] = NO_TAGS,
    ) -> None:
        self._checks.write_open(rm_id, found, time)
        span = found.span
        # An RM that registered anew may have another ask of the same name.
        if not found.queue and outcome != UNREGISTERED:
            stands = self._stands_now(rm_id, found.ask)
            if stands is not None:
                found.note_queue(stands)
        span.set_attributes({**about, "licorne.outcome": outcome})
        if message:
            span.set_attribute("licorne.message", message)
        if outcome == REJECTED:
            span.set_status(Status(StatusCode.ERROR, message))
        span.end(nanoseconds(time))
        self._followed.close(rm_id)

    def _stands_now(self, rm_id: RmId, ask: Ask) -> Standing | None:
        return self._stands(rm_id, ask.partition, ask.app_id, ask.key)


UNKNOWN_SECONDS = 10.0
"""Seconds after which an ask that has not reached the core counts as gone."""

REASON_EVENT = "reason"


LOOK_SECONDS = 1.0
"""Seconds between two looks at each followed ask, even without a change."""

PAUSE_FACTOR = 50.0
"""Pause between two looks at an ask, as a multiple of the duration of all looks."""

MAX_PAUSE = 2.0
"""Longest pause of this kind, in seconds."""


class Looking:
    """The task that looks at followed asks. It sleeps while no ask is followed."""

    def __init__(
        self,
        followed: FollowedAsks,
        stands: Stands,
        asks: AskSpans,
        time_slices: TimeSlices,
        clock: Clock,
        on_defect: Callable[[], None],
    ) -> None:
        """Nothing runs before `start`.

        `stands` gives the blocker of an ask. Asks that left the core are ended. `on_defect` is
        called in the handler of an exception that ends this task.
        """
        self._followed = followed
        self._stands = stands
        self._asks = asks
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
        if self._followed.rm_ids():
            self._news.set()

    def changed(self, rm_id: RmId) -> None:
        """Note a change of the RM's books."""
        if self._followed.has(rm_id):
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
            await self._clock.wait(due if self._followed.rm_ids() else None, self._news)
            self._news.clear()
            changed, self._changed = list(self._changed), {}
            if self._clock.now() >= due:
                changed = self._followed.rm_ids()
                due = self._clock.now() + LOOK_SECONDS
            spent = await self._look_at(changed)
            # CPU time of the thread: a busy machine does not lengthen the pause.
            if spent:
                await asyncio.sleep(min(MAX_PAUSE, PAUSE_FACTOR * spent))

    async def _look_at(self, rm_ids: list[RmId]) -> float:
        """Look at the asks of these RMs; returns the CPU seconds used."""
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
        """Look at all followed asks of these RMs; yields None after each."""
        for rm_id in rm_ids:
            for key, found in list(self._followed.of(rm_id).items()):
                if self._followed.of(rm_id).get(key) is found:
                    self._look(rm_id, key, found)
                yield None

    def _look(self, rm_id: RmId, key: Key, found: FollowedAsk) -> None:
        now, ask = self._clock.now(), found.ask
        stands = self._stands(rm_id, ask.partition, ask.app_id, ask.key)
        if stands is None:
            if found.known or now - found.time > UNKNOWN_SECONDS:
                self._asks.gone(rm_id, key)
            return
        if not stands.reason:
            # The core had the ask before this message: no effect will follow.
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
