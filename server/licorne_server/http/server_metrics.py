"""Metrics of the server as a whole: its engine, its loop, its calls and its logs."""

from licorne_server.http.families import Families, Labels
from licorne_server.http.probes import Heartbeat
from licorne_server.http.sources import Figures
from licorne_server.process.build_info import build_info
from licorne_server.process.slow_steps import SlowSteps
from licorne_server.telemetry.measures import Calls
from licorne_server.telemetry.tracing.defects import REASONS, TraceCounts

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
