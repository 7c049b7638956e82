"""Traces of OpenTelemetry, for a server with a collector (the extra `otel`).

`settings` and `counts` have the settings and the figures, `trace_context` reads contexts of
callers. `calls` has the context of the call under way, and `starting` loads the rest if traces are
on. The other modules load OpenTelemetry: `tracing` is the interface for the rest of the server, and
`defects` shields it from failures in here. `followed` has the traced asks: `ask_begins` begins
them, `looking` schedules their checks by `ask_looks`, `check_spans` has the open questions to their
RMs, and `ask_ends` ends them. `configuration_spans` and `server_spans` have the server's own work,
`spans` begins spans, `ends` ends those of asks little by little, and `exporting` sends them.
"""
