"""The RMs of a server: their streams and sessions, and the queues in both directions.

In: messages from streams. Out: commands for the engine, and messages back, in order and bounded.
`registry.py` has all RMs, `rm.py` one with its session. `admission.py` and `eviction.py` admit and
evict them, `intake.py` and `outbox.py` are the queues, `streams.py` the connections.

Caller: `services/` (one call a stream), and the engine (effects).
"""
