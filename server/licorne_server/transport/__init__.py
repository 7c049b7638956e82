"""The gRPC interface of services, and its implementations.

`interface` has the contexts of calls, and the protocol of a server like that of grpc.aio. `loop/` has a
server on the event loop itself, with a wheel of its own; only a line in `process/settings.py` and the
assembly of the server name it, so that it can be left out.
"""
