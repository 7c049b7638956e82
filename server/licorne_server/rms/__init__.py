"""The RMs of a server: their streams and sessions, the queues in both directions, and their events.

In: messages from streams. Out: commands for the engine, and messages to the RMs, in order and bounded.
`registry.py` has all RMs, `rm.py` one with its session. `admission.py` and `eviction.py` admit and evict
them, `reloading.py` gives them a new default configuration, and `handover.py` ends their service.
`streams.py` is an open stream, and `outbox.py` the queue of messages to an RM. `event_log.py` is the bounded
ring of an RM's events, `event_watch.py` a reader at its own pace, and `event_blocks.py` the bytes that
readers share.

Callers: `services/` (one call a stream), the engine (effects), and the readers of events.
"""
