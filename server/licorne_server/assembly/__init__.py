"""The composition root: it assembles a server from the server's other packages.

In: checked settings. Out: a running server. `server.py` makes all parts, in any event loop, and starts and
stops them in order; `grpc_server.py` has the services, `periodics.py` the periodic work. `workers/`
runs several servers on one host.

Callers: `commands/`, and `testing/`. No other package of the server imports it.
"""
