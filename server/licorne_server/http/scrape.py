"""The answer to a scrape, made in time slices, and the metrics of the server and of RMs.

A histogram has some twenty samples. So only a bounded number of RMs have histograms of their own. All others
share one set, which keeps totals correct.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import partial
from time import monotonic

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.exposition import generate_latest as write_plain
from prometheus_client.openmetrics.exposition import generate_latest as write_openmetrics

from licorne_core.values.counters import Histogram
from licorne_core.values.errors import NotFound
from licorne_core.values.rm_caps import RmCaps
from licorne_core.views import Views
from licorne_server.http.families import Families, Labels, counter, gauge, merged, texts_of_others
from licorne_server.http.health import Heartbeat
from licorne_server.http.metrics import DEPLOYMENT, gather, gather_budgets
from licorne_server.http.stream import BY_MEMBER, Together, send_bytes, sliced
from licorne_server.process.build_info import build_info
from licorne_server.reads.findings import of_status
from licorne_server.reads.sources import Figures, RmFigures, Sources
from licorne_server.reads.verdict import is_ready
from licorne_server.store.coordination.ownership import known_workers
from licorne_server.telemetry.measures import OLDER, RESULTS, RmMeasures
from licorne_server.telemetry.tracing.starting import REASONS

_CALL = ("grpc_service", "grpc_method", "grpc_type")
_COUNTED = tuple(field.name for field in fields(RmCaps) if "memory" not in field.name)

SERVER = (
    gauge(
        "licorne_audit_findings",
        "What did not agree in the books when they were added up last.",
        "audit_findings",
    ),
    gauge("licorne_inbox", "Commands that wait for the core.", "inbox"),
    gauge("licorne_memory_bytes", "Resident memory.", "memory"),
    gauge(
        "licorne_memory_limit_bytes",
        "Resident memory above which new work is refused; 0 for any.",
        "memory_limit",
    ),
    gauge(
        "licorne_memory_shortage",
        "1 while new work is refused for want of memory, 2 while everything is.",
        "shortage",
    ),
    gauge(
        "licorne_rm_outbox_max_bytes",
        "Bytes for one RM above which what waits is dropped, and it has to replay.",
        "outbox_max",
    ),
    gauge("licorne_rms", "RMs that are registered.", lambda figures: len(figures.rms)),
    counter(
        "licorne_rms_forgotten_total", "RMs that were forgotten because they were gone.", "rms_forgotten"
    ),
    counter("licorne_commands_total", "Commands handled.", "commands"),
    counter("licorne_turns_total", "Turns of scheduling.", "turns"),
    counter("licorne_turn_seconds_total", "Time spent in turns.", "turn_seconds"),
    counter("licorne_audits_total", "Times that all books were added up.", "audits"),
    counter("licorne_defects_total", "Failures inside the core.", "defects"),
    counter(
        "licorne_idle_collections_total",
        "Full passes of the garbage collector in idle moments.",
        "collections",
    ),
    counter("licorne_idle_collection_seconds_total", "Time spent in these.", "collection_seconds"),
    counter(
        "licorne_log_lines_dropped_total",
        "Log lines that were not written.",
        "log_lines_dropped",
        "reason",
    ),
    counter(
        "licorne_slow_steps_total",
        "Steps that stood in the way of everybody for more than 50 ms.",
        "slow.count",
        "step",
    ),
    counter("licorne_slow_step_seconds_total", "Time that these took.", "slow.seconds", "step"),
    counter("licorne_traces_exported_total", "Spans that the collector has taken.", "traces.exported"),
    counter(
        "licorne_traces_dropped_total",
        "Spans that were dropped, and asks that were not followed.",
        lambda figures: {why: figures.traces.dropped[why] for why in REASONS},
        "reason",
    ),
    counter(
        "licorne_traces_malformed_total",
        "Trace contexts that callers have sent and that cannot be read.",
        "traces.malformed",
    ),
    gauge("licorne_traces_asks_followed", "Asks that are followed for traces.", "traces.followed"),
    # Metrics of calls have the names that dashboards of gRPC servers use.
    counter("grpc_server_started_total", "Calls that came in; a stream is one.", "calls.started", *_CALL),
    counter(
        "grpc_server_handled_total",
        "Calls that are over, by status.",
        lambda figures: {(*method, code): n for (method, code), n in figures.calls.handled.items()},
        *_CALL,
        "grpc_code",
    ),
)
"""Metrics of `Figures`."""

JOURNAL = (
    gauge(
        "licorne_journal_writing",
        "1 while the journal is written; 0 since it has stopped. Not there without a journal.",
        lambda state: int(not state.problem),
    ),
    gauge("licorne_journal_bytes", "Bytes of the journal on disk, old runs included.", "size"),
    counter("licorne_journal_inputs_total", "Commands noted in the journal.", "inputs"),
)
"""Metrics of `JournalState`."""

CAPS = (
    gauge("licorne_rm_items_max", "How many one RM may have.", {one: one for one in _COUNTED}, "kind"),
    gauge("licorne_rm_memory_max_bytes", "Bytes that one RM may have, as the core reckons them.", "memory"),
    gauge(
        "licorne_rm_ended_memory_max_bytes",
        "Bytes of these for applications that are over.",
        "ended_memory",
    ),
)
"""Metrics of `RmCaps`."""

COUNTS = (
    gauge(
        "licorne_rm_items",
        "How many the RM has; ended are applications that are over and can still be seen.",
        {one: one for one in _COUNTED},
        "kind",
    ),
    gauge("licorne_rm_memory_bytes", "Bytes that the RM has, as the core reckons them.", "memory"),
    gauge(
        "licorne_rm_ended_memory_bytes",
        "Bytes of these that applications have that are over.",
        "ended_memory",
    ),
)
"""Metrics of `RmCounts`."""

RMS = (
    gauge("licorne_rm_connected", "1 when the RM has a session.", lambda rm: int(rm.connected)),
    gauge("licorne_rm_outbox_messages", "Messages that wait.", "outbox_messages"),
    gauge("licorne_rm_outbox_bytes", "Bytes that wait.", "outbox_bytes"),
    gauge(
        "licorne_rm_outbox_age_seconds",
        "For how long the oldest message has waited that is not written yet.",
        "outbox_age",
    ),
    gauge("licorne_rm_events_kept", "Events that can still be read.", "events.kept"),
    gauge("licorne_rm_events_memory_bytes", "Bytes that these take.", "events.memory"),
    gauge("licorne_rm_event_watchers", "Those who watch events.", "events.watchers"),
    counter("licorne_rm_resyncs_total", "Replays wanted because the outbox was full.", "resyncs"),
    # The older core's gauges of its event channel; here every event is in the ring immediately.
    *(
        gauge(
            f"yunikorn_event_total_{what}",
            f"Events of the RM's registration that were {what.replace('_', ' ')}.",
            (lambda _: 0) if what.startswith("not") else "events.noted",
        )
        for what in ("created", "channeled", "processed", "stored", "not_channeled", "not_stored")
    ),
    gauge("yunikorn_event_total_collected", "Events that the RM itself was told.", "events.told"),
    counter(
        "licorne_rejections_total",
        "Items that were not taken, by kind and reason.",
        lambda rm: {(item, code.value): n for (item, code), n in rm.measures.rejections.items()},
        "item",
        "reason",
    ),
    counter(
        "licorne_configuration_updates_total",
        "New configurations by what came of them.",
        lambda rm: {result: rm.measures.configurations[result] for result in RESULTS},
        "result",
    ),
    gauge(
        "licorne_configuration_refused",
        "1 when the last configuration was refused, so that one before it is in force.",
        lambda rm: int(rm.measures.is_refused),
    ),
    counter(
        "licorne_rm_connections_total",
        "Times that the RM connected, having had no stream.",
        "measures.connections",
    ),
)
"""Metrics of `RmFigures`."""


def add_server(
    figures: Figures, heartbeat: Heartbeat, families: Families, *, ready: bool, uptime: float
) -> None:
    """Add the metrics of the server as a whole; `uptime` is in seconds."""
    families.add(SERVER, figures)
    for name, text, value in (
        ("licorne_ready", "1 when RMs may be sent here.", 1 if ready else 0),
        ("licorne_uptime_seconds", "Since the start.", uptime),
        (
            "licorne_loop_lag_seconds",
            "The most that the event loop was late since the last scrape.",
            heartbeat.worst_lag(),
        ),
    ):
        families.put("gauge", name, text, (), {(): value})
    if figures.certificate_end:
        text = "Until when the server's certificate is valid, in unix seconds."
        name = "licorne_tls_certificate_end_timestamp_seconds"
        families.put("gauge", name, text, (), {(): figures.certificate_end})
    text = "How late the event loop was, four times a second."
    families.histogram("licorne_loop_delay_seconds", text, (), {(): heartbeat.delays})
    info = build_info()
    labels = ("version", "form", "python", "optimized")
    values = (info.version, info.form, info.python, str(info.optimized).lower())
    families.put("gauge", "licorne_build_info", "1, with what runs in the labels.", labels, {values: 1})
    text = "How long unary calls took."
    seconds = {tuple(method): histogram for method, histogram in figures.calls.seconds.items()}
    families.histogram("grpc_server_handling_seconds", text, _CALL, seconds)


def gather_rms(views: Views, rms: Sequence[RmFigures], families: Families) -> Iterator[None]:
    """Add the metrics of all RMs, one RM at each step; the caller may pause at each."""
    families.add(CAPS, views.caps)
    for rm in rms:
        yield
        where = (str(rm.rm_id),)
        families.add(RMS, rm, ("rm",), where)
        with suppress(NotFound):  # the RM was removed since the figures were made
            families.add(COUNTS, views.rm(rm.rm_id).counts, ("rm",), where)
    yield from _gather_timing(rms, families)


MAX_RMS = 100
"""Maximum number of RMs with their own histograms; these are the RMs that registered first."""

OTHERS = "(others)"
"""Label of all other RMs."""

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
"""Name and text of each histogram, by its attribute of `RmMeasures`."""

_SCHEDULER = "yunikorn_scheduler_"
OLDER_HISTOGRAMS = (
    (f"{_SCHEDULER}scheduling_latency_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}scheduling_cycle_milliseconds", "turn", "Turns, in seconds."),
    (f"{_SCHEDULER}trynode_latency_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trynode_evaluation_milliseconds", "trying", "Tries of asks, in seconds."),
    (f"{_SCHEDULER}trypreemption_latency_milliseconds", "searching", "Searches, in seconds."),
)
"""Older names, ending in milliseconds but counting seconds, as in the older core (spec § 12.3)."""

SORTING = f"{_SCHEDULER}node_sorting_latency_milliseconds"


def _gather_timing(rms: Sequence[RmFigures], families: Families) -> Iterator[None]:
    """Add the histograms of all RMs, one RM at each step."""
    for rm in rms[:MAX_RMS]:
        yield
        yield from _histograms(str(rm.rm_id), [rm.measures], families)
    others = [rm.measures for rm in rms[MAX_RMS:]]
    if others:
        yield
        yield from _histograms(OTHERS, others, families)


def _histograms(rm: str, measured: list[RmMeasures], families: Families) -> Iterator[None]:
    """Add up several RMs' histograms, one at each step: there may be a thousand RMs."""
    for key, (name, text) in HISTOGRAMS.items():
        families.histogram(name, text, ("rm",), {(rm,): _together(measured, key)})
        yield
    for name, key, text in OLDER_HISTOGRAMS:
        older = _together(measured, key).coarser(OLDER)
        families.histogram(name, text, ("rm",), {(rm,): older})
        yield
    # Queues and applications are always kept sorted, so no sorting time is measured.
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


PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

FRESH_SECONDS = 1.0
"""Seconds for which an answer is reused, so that many scrapers cost as much as one."""


PEER = "metrics"
"""Peer that is charged for the time slices of an answer, because all scrapers share the answer."""


class Scrape:
    """``/metrics``: plain text, or OpenMetrics for scrapers that accept it.

    The registry belongs only to this server, so that one process can run several servers.
    """

    def __init__(self, sources: Sources, heartbeat: Heartbeat) -> None:
        """Publish metrics of `sources`, of `heartbeat` and of this process."""
        self._sources = sources
        self._heartbeat = heartbeat
        self._process = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._process)
        PlatformCollector(registry=self._process)
        GCCollector(registry=self._process)
        self._together = Together[bytes]()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one scrape: of this server, or of all workers of its host."""
        if self._sources.worker and BY_MEMBER not in request:
            body = await self._together.get(None, self._make_all)
            return await send_bytes(request, PLAIN, body)
        openmetrics = _takes_openmetrics(request.headers.get("Accept", ""))
        body = await self._together.get(openmetrics, partial(self._make, openmetrics))
        return await send_bytes(request, OPENMETRICS if openmetrics else PLAIN, body)

    async def _make(self, openmetrics: bool) -> tuple[bytes, float]:
        chunks = sliced(self._lines(openmetrics), self._sources.time_slices, PEER)
        return b"".join([chunk async for chunk in chunks]), monotonic() + FRESH_SECONDS

    async def _make_all(self) -> tuple[bytes, float]:
        """The metrics of all workers as plain text, which is simpler to merge."""
        sources = self._sources
        own, _ = await self._make(openmetrics=False)
        texts = {sources.worker: own.decode()}
        if sources.members is not None:
            texts |= await texts_of_others(sources.members)
        pieces = merged(texts, known_workers(sources.ownership.snapshot()))
        chunks = sliced(pieces, sources.time_slices, PEER)
        return b"".join([chunk async for chunk in chunks]), monotonic() + FRESH_SECONDS

    def _lines(self, openmetrics: bool) -> Iterator[str]:
        families = Families()
        names = self._sources.queue_names
        for _ in gather(self._sources.views, families, queue_names=names):
            yield ""
        figures = self._sources.figures()
        for _ in gather_rms(self._sources.views, figures.rms, families):
            yield ""
        for _ in gather_budgets(self._sources.budgets(), families):
            yield ""
        add_server(
            figures,
            self._heartbeat,
            families,
            ready=is_ready(of_status(self._sources.status)),
            uptime=self._sources.now() - self._sources.started_time,
        )
        families.add(DEPLOYMENT, self._sources.ownership)
        if self._sources.journal is not None:
            families.add(JOURNAL, self._sources.journal)
        yield from families.lines(openmetrics=openmetrics)
        write = write_openmetrics if openmetrics else write_plain
        yield write(self._process).decode()


def _takes_openmetrics(accept: str) -> bool:
    try:
        return choose_encoder(accept)[1].startswith("application/openmetrics-text")
    except (TypeError, ValueError):  # the version is no number
        return False
