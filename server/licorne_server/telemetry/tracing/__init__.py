"""Traces of OpenTelemetry, for a server that was told where to send them (the extra `otel`).

`settings` has what it was told, `counts` the figures, `trace_context` reads what callers send.
`calls` keeps the context of the call that is under way, and `starting` begins with it all. The
other modules load OpenTelemetry, and are loaded by a server that makes traces only: `tracing` is
what the rest of the server talks to, and `defects` keeps from it what fails in here. `followed` has
the asks that are followed: `ask_begins` begins with them, `looking` says when `ask_looks` looks at
them, `check_spans` has what their RMs are being asked about them, and `ask_ends` ends them.
`configuration_spans` and `server_spans` have what the server itself does, `spans` begins spans,
`ends` ends those of asks little by little, and `exporting` sends them.
"""
