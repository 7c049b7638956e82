"""The gRPC interface of services, and its implementations.

`interface` has the contexts of calls, and the interface of a server, as grpc.aio has it. `loop/` has a
server on the event loop itself, which needs a separate wheel. Only one line in `process/settings.py` and the
assembly of the server name `loop/`, so that it can be left out.
"""
