"""Telemetry of the server: logs, traces and measures.

In: calls of the other rooms. Out: lines on stderr, spans to a collector, numbers for a scrape.
Nothing here makes a caller wait, and nothing here fails it.

Caller: every room.
"""
