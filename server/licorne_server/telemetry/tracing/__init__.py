"""Traces of OpenTelemetry, for a server with a collector (the extra `otel`).

`starting.py` has the figures, the shield from failures in here, and the start, which loads all else
and OpenTelemetry if traces are on. `tracing.py` is the interface for the rest of the server.
`ask_spans.py` has the spans of asks, and looks at them; `followed.py` has the asks that are followed,
with their predicate checks. `server_spans.py` has the server's own work and the context of the call
under way. `spans.py` begins spans and ends them little by little; `exporting.py` sends them.
"""
