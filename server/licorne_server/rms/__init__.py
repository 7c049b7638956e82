"""The RMs of a server: their streams and sessions, and what waits in both directions.

In: messages from streams. Out: commands for the engine, and messages back, in order and bounded.
`registry.py` has all RMs, `rm.py` one, `admission.py` and `eviction.py` let them in and forget them,
`intake.py` and `outbox.py` hold what waits, `streams.py` and `sessions.py` are its ways.

Caller: `services/` (one call a stream), and the engine (effects).
"""
