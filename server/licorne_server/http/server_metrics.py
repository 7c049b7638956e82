"""Metrics of the server: its engine, its loop, its calls, its logs, and the connections of its RMs.

A histogram has some twenty samples. So only some RMs have histograms of their own, and the others
share common ones: the totals stay right.
"""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from licorne_core.values.errors import NotFound
from licorne_core.values.rm_caps import RmCaps, RmCounts
from licorne_core.views import Views
from licorne_server.http.families import Families, Labels
from licorne_server.http.health import Heartbeat
from licorne_server.http.sources import EventFigures, Figures, RmFigures
from licorne_server.process.build_info import build_info
from licorne_server.process.loop import SlowSteps
from licorne_server.telemetry.measures import OLDER, RESULTS, Calls, Histogram, RmMeasures
from licorne_server.telemetry.tracing.starting import REASONS, TraceCounts

_CALL = ("grpc_service", "grpc_method", "grpc_type")


def add_server(
    figures: Figures, heartbeat: Heartbeat, families: Families, *, ready: bool, uptime: float
) -> None:
    """Add them; `uptime` is in seconds."""
    for name, text, value in (
        ("licorne_ready", "1 when RMs may be sent here.", 1 if ready else 0),
        ("licorne_uptime_seconds", "Since the start.", uptime),
        (
            "licorne_audit_findings",
            "What did not agree in the books when they were added up last.",
            figures.audit_findings,
        ),
        ("licorne_inbox", "Commands that wait for the core.", figures.inbox),
        ("licorne_memory_bytes", "Resident memory.", figures.memory),
        (
            "licorne_memory_limit_bytes",
            "Resident memory above which new work is refused; 0 for any.",
            figures.memory_limit,
        ),
        (
            "licorne_memory_shortage",
            "1 while new work is refused for want of memory, 2 while everything is.",
            figures.shortage,
        ),
        (
            "licorne_loop_lag_seconds",
            "The most that the event loop was late since the last scrape.",
            heartbeat.worst_lag(),
        ),
        (
            "licorne_rm_outbox_max_bytes",
            "Bytes for one RM above which what waits is dropped, and it has to replay.",
            figures.outbox_max,
        ),
    ):
        families.gauge(name, text, (), {(): value})
    for name, text, value in (
        ("licorne_commands_total", "Commands handled.", figures.commands),
        ("licorne_turns_total", "Turns of scheduling.", figures.turns),
        ("licorne_turn_seconds_total", "Time spent in turns.", figures.turn_seconds),
        ("licorne_audits_total", "Times that all books were added up.", figures.audits),
        ("licorne_defects_total", "Failures inside the core.", figures.defects),
        (
            "licorne_idle_collections_total",
            "Full passes of the garbage collector in idle moments.",
            figures.collections,
        ),
        (
            "licorne_idle_collection_seconds_total",
            "Time spent in these.",
            figures.collection_seconds,
        ),
    ):
        families.counter(name, text, (), {(): value})
    if figures.certificate_end:
        text = "Until when the server's certificate is valid, in unix seconds."
        name = "licorne_tls_certificate_end_timestamp_seconds"
        families.gauge(name, text, (), {(): figures.certificate_end})
    text = "How late the event loop was, four times a second."
    families.histogram("licorne_loop_delay_seconds", text, (), {(): heartbeat.delays})
    text = "Log lines that were not written."
    dropped: dict[Labels, float] = {(why,): n for why, n in figures.log_lines_dropped.items()}
    families.counter("licorne_log_lines_dropped_total", text, ("reason",), dropped)
    _add_slow(figures.slow, families)
    _add_build(families)
    _add_traces(figures.traces, families)
    _add_calls(figures.calls, families)


def _add_slow(steps: SlowSteps, families: Families) -> None:
    text = "Steps that stood in the way of everybody for more than 50 ms."
    slow: dict[Labels, float] = {(step,): n for step, n in steps.count.items()}
    families.counter("licorne_slow_steps_total", text, ("step",), slow)
    text = "Time that these took."
    slow = {(step,): seconds for step, seconds in steps.seconds.items()}
    families.counter("licorne_slow_step_seconds_total", text, ("step",), slow)


def _add_build(families: Families) -> None:
    info = build_info()
    labels = ("version", "form", "python", "optimized")
    values = (info.version, info.form, info.python, str(info.optimized).lower())
    families.gauge("licorne_build_info", "1, with what runs in the labels.", labels, {values: 1})


def _add_traces(traces: TraceCounts, families: Families) -> None:
    text = "Spans that the collector has taken."
    families.counter("licorne_traces_exported_total", text, (), {(): traces.exported})
    text = "Spans that were dropped, and asks that were not followed."
    dropped: dict[Labels, float] = {(why,): traces.dropped[why] for why in REASONS}
    families.counter("licorne_traces_dropped_total", text, ("reason",), dropped)
    text = "Trace contexts that callers have sent and that cannot be read."
    families.counter("licorne_traces_malformed_total", text, (), {(): traces.malformed})
    text = "Asks that are followed for traces."
    families.gauge("licorne_traces_asks_followed", text, (), {(): traces.followed})


def _add_calls(calls: Calls, families: Families) -> None:
    """Calls by method, under the names that dashboards of gRPC servers know."""
    text = "Calls that came in; a stream is one."
    started: dict[Labels, float] = {tuple(method): n for method, n in calls.started.items()}
    families.counter("grpc_server_started_total", text, _CALL, started)
    text = "Calls that are over, by status."
    handled: dict[Labels, float] = {(*method, code): n for (method, code), n in calls.handled.items()}
    families.counter("grpc_server_handled_total", text, (*_CALL, "grpc_code"), handled)
    text = "How long unary calls took."
    seconds = {tuple(method): histogram for method, histogram in calls.seconds.items()}
    families.histogram("grpc_server_handling_seconds", text, _CALL, seconds)


_COUNTED = tuple(field.name for field in fields(RmCaps) if "memory" not in field.name)


def gather_rms(views: Views, figures: Figures, families: Families) -> Iterator[None]:
    """Add the metrics of all RMs, one at a step. The caller may let others run between two."""
    caps = views.caps
    families.gauge("licorne_rm_items_max", "How many one RM may have.", ("kind",), _by_kind((), caps))
    text = "Bytes that one RM may have, as the core reckons them."
    families.gauge("licorne_rm_memory_max_bytes", text, (), {(): caps.memory})
    text = "Bytes of these for applications that are over."
    families.gauge("licorne_rm_ended_memory_max_bytes", text, (), {(): caps.ended_memory})
    families.gauge("licorne_rms", "RMs that are registered.", (), {(): len(figures.rms)})
    text = "RMs that were forgotten because they were gone."
    families.counter("licorne_rms_forgotten_total", text, (), {(): figures.rms_forgotten})
    for rm in figures.rms:
        yield
        _connection(rm, families)
        try:
            counts = views.rm(rm.rm_id).counts
        except NotFound:
            continue  # it went away since the figures were made
        where = (str(rm.rm_id),)
        text = "How many the RM has; ended are applications that are over and can still be seen."
        families.gauge("licorne_rm_items", text, ("rm", "kind"), _by_kind(where, counts))
        text = "Bytes that the RM has, as the core reckons them."
        families.gauge("licorne_rm_memory_bytes", text, ("rm",), {where: counts.memory})
        text = "Bytes of these that applications have that are over."
        families.gauge("licorne_rm_ended_memory_bytes", text, ("rm",), {where: counts.ended_memory})


def _by_kind(where: Labels, amounts: RmCounts | RmCaps) -> dict[Labels, float]:
    return {(*where, kind): getattr(amounts, kind) for kind in _COUNTED}


def _connection(rm: RmFigures, families: Families) -> None:
    where = (str(rm.rm_id),)
    for name, text, value in (
        ("licorne_rm_connected", "1 when the RM has a session.", int(rm.connected)),
        ("licorne_rm_outbox_messages", "Messages that wait.", rm.outbox_messages),
        ("licorne_rm_outbox_bytes", "Bytes that wait.", rm.outbox_bytes),
        (
            "licorne_rm_outbox_age_seconds",
            "For how long the oldest message has waited that is not written yet.",
            rm.outbox_age,
        ),
        ("licorne_rm_events_kept", "Events that can still be read.", rm.events.kept),
        ("licorne_rm_events_memory_bytes", "Bytes that these take.", rm.events.memory),
        ("licorne_rm_event_watchers", "Those who watch events.", rm.events.watchers),
    ):
        families.gauge(name, text, ("rm",), {where: value})
    text = "Replays wanted because the outbox was full."
    families.counter("licorne_rm_resyncs_total", text, ("rm",), {where: rm.resyncs})
    _older_events(where, rm.events, families)


def _older_events(where: Labels, events: EventFigures, families: Families) -> None:
    """The older core's gauges: here an event that was made is in the ring at once."""
    made = dict.fromkeys(("created", "channeled", "processed", "stored"), events.noted)
    for what, count in {**made, "not_channeled": 0, "not_stored": 0}.items():
        text = f"Events of the RM's registration that were {what.replace('_', ' ')}."
        families.gauge(f"yunikorn_event_total_{what}", text, ("rm",), {where: count})
    text = "Events that the RM itself was told."
    families.gauge("yunikorn_event_total_collected", text, ("rm",), {where: events.told})


MAX_RMS = 100
"""RMs with histograms of their own, those that registered first."""

OTHERS = "(others)"
"""Id that stands for the other RMs."""

HISTOGRAMS = {
    "allocation": (
        "licorne_allocation_latency_seconds",
        "From when an ask was read to when its allocation was put into the outbox.",
    ),
    "turn": (
        "licorne_turn_duration_seconds",
        "Turns of the RM's partitions, with the routing of what came of them.",
    ),
    "answers": (
        "licorne_predicate_answer_seconds",
        "From when a check was written to when the RM's answer was read.",
    ),
    "sending": (
        "licorne_rm_outbox_wait_seconds",
        "How long messages waited for their RM until they were written.",
    ),
    "configuring": (
        "licorne_configuration_update_seconds",
        "From when a new configuration was read to when it was in force or refused.",
    ),
}
"""Name and text of each, by its attribute of `RmMeasures`."""

_SCHEDULER = "yunikorn_scheduler_"
OLDER_HISTOGRAMS = (
    (f"{_SCHEDULER}scheduling_latency_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}scheduling_cycle_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}trynode_latency_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trynode_evaluation_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trypreemption_latency_milliseconds", "searching", "Searches, in seconds."),
)
"""The names that say milliseconds and mean seconds, as they always did (spec § 12.3)."""

SORTING = f"{_SCHEDULER}node_sorting_latency_milliseconds"


def gather_timing(rms: Sequence[RmFigures], families: Families) -> Iterator[None]:
    """Add the measures of all RMs, one at a step."""
    for rm in rms:
        yield
        _counts(str(rm.rm_id), rm.measures, families)
    for rm in rms[:MAX_RMS]:
        yield
        yield from _histograms(str(rm.rm_id), [rm.measures], families)
    others = [rm.measures for rm in rms[MAX_RMS:]]
    if others:
        yield
        yield from _histograms(OTHERS, others, families)


def _histograms(rm: str, measured: list[RmMeasures], families: Families) -> Iterator[None]:
    """Add the histograms of RMs together, one at a step: there may be a thousand RMs."""
    for key, (name, text) in HISTOGRAMS.items():
        families.histogram(name, text, ("rm",), {(rm,): _together(measured, key)})
        yield
    for name, key, text in OLDER_HISTOGRAMS:
        older = _together(measured, key).coarser(OLDER)
        families.histogram(name, text, ("rm",), {(rm,): older})
        yield
    # Queues and applications are kept in order, and there is no sorting to be timed.
    nothing: dict[Labels, Histogram] = {(rm, level): Histogram(OLDER) for level in ("app", "queue")}
    families.histogram(SORTING, "Always empty: nothing is sorted.", ("rm", "level"), nothing)


def _together(measured: list[RmMeasures], key: str) -> Histogram:
    first: Histogram = getattr(measured[0], key)
    if len(measured) == 1:
        return first
    together = Histogram(first.bounds)
    for measures in measured:
        together.add(getattr(measures, key))
    return together


def _counts(rm: str, measures: RmMeasures, families: Families) -> None:
    text = "Items that were not taken, by kind and reason."
    rejections: dict[Labels, float] = {
        (rm, item, code.value): count for (item, code), count in measures.rejections.items()
    }
    families.counter("licorne_rejections_total", text, ("rm", "item", "reason"), rejections)
    text = "New configurations by what came of them."
    results: dict[Labels, float] = {(rm, result): measures.configurations[result] for result in RESULTS}
    families.counter("licorne_configuration_updates_total", text, ("rm", "result"), results)
    text = "1 when the last configuration was refused, so that one before it is in force."
    refused: dict[Labels, float] = {(rm,): int(measures.is_refused)}
    families.gauge("licorne_configuration_refused", text, ("rm",), refused)
    text = "Times that the RM connected, having had no stream."
    families.counter("licorne_rm_connections_total", text, ("rm",), {(rm,): measures.connections})
