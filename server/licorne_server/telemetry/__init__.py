"""Telemetry of the server: logs, traces and measures.

In: calls from the other packages. Out: lines on stderr, spans to a collector, numbers for a scrape. No call
into this package makes its caller wait or fail.

Callers: every package of the server but `process/` and `wire/`, which are below it.
"""
