"""Traces of OpenTelemetry, for a server with a collector (the extra `otel`).

`starting.py` has the counts, the shield from defects of this room, and the start, which loads the
other modules and OpenTelemetry if traces are on. `tracing.py` is the interface for other rooms.
`ask_spans.py` has the spans of asks and the looks at them; `followed.py` has the followed asks
and their predicate checks. `server_spans.py` has the spans of the server's own work, and the context
of the current call. `spans.py` begins spans and ends them in small steps; `exporting.py` sends them.
"""
