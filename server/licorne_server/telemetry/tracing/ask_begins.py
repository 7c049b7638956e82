"""Begins the spans of sampled asks, from the time at which they were read."""

from collections.abc import Iterable, Iterator, Mapping

from opentelemetry.trace import SpanKind

from licorne_core.values.asks import NO_TAGS, Ask
from licorne_core.values.ids import RmId
from licorne_core.values.tags import tag_value
from licorne_server.telemetry.tracing.counts import TraceCounts
from licorne_server.telemetry.tracing.followed import FollowedAsk, FollowedAsks
from licorne_server.telemetry.tracing.spans import RM_ID, Spans
from licorne_server.wire.trace_context import (
    STATE_TAG,
    TAG,
    TraceContext,
    read_context,
)

MAX_RESOURCES = 32
"""Resources of an ask that its span names, the first by name; an ask may want thousands."""

SPAN = "ask"


class AskBegins:
    """Begins to follow asks, each with a span of its own."""

    def __init__(self, spans: Spans, counts: TraceCounts, followed: FollowedAsks) -> None:
        """Asks are `followed` from now on; contexts that cannot be read are counted."""
        self._spans = spans
        self._counts = counts
        self._followed = followed

    def begin(self, rm_id: RmId, asks: Iterable[Ask], call: TraceContext | None) -> Iterator[None]:
        """Follow those of new asks that are to be traced, with a None after each.

        `call` is how they came.
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
        """The context that an ask with these tags belongs to."""
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
