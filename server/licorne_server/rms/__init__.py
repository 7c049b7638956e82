"""The RMs of a server: their streams and sessions, and the queues in both directions.

In: messages from streams. Out: commands for the engine, and messages back, in order and bounded.
`registry.py` has all RMs, `rm.py` one with its session. `admission.py` and `eviction.py` admit and
evict them. `exchange.py` is an open stream, over the call of `streams.py`; `outbox.py` is
the queue of messages to an RM.

Caller: `services/` (one call a stream), and the engine (effects).
"""
