"""Traces of OpenTelemetry, for a server with a collector (the extra `otel`).

`starting.py` has the counts, the protection against defects of this package, and the start, which loads the
other modules and OpenTelemetry if traces are on. `tracing.py` is the interface for other packages.
`ask_spans.py` has the spans of asks and of their predicate checks, and follows the blockers of pending asks.
`server_spans.py` has the spans of the server's own work, and the context of the current call. All of them
record spans in the form of `spans.py`; `exporting.py` converts them to OpenTelemetry's, and sends them.
"""
