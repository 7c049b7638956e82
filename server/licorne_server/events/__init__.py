"""Events: a bounded ring of facts for each RM, and its readers.

In: facts of the core. Out: records for gRPC, REST and sessions, made when a reader asks for them.
`log.py` is the ring, `watch.py` a reader at its own pace, `blocks.py` the bytes that readers share.

Caller: the engine adds; services and the web service read.
"""
