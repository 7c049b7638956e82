"""Telemetry of the server: logs, traces and measures.

In: calls of the other rooms. Out: lines on stderr, spans to a collector, numbers for a scrape.
No call of this room makes its caller wait or fail.

Callers: every room but `process/` and `wire/`, which are below it.
"""
