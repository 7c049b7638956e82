"""The server put together, and its RPC services, one module each.

In: requests of `si.v1` and `licorne.v1`. Out: their answers, or a status with a typed detail.
`scheduler.py` and `session.py` are the two ways of an RM, `state.py` reads, `admin/` changes. `server.py`
puts all parts together, in any event loop, and starts and stops them in order.

Caller: gRPC, through `grpc_server.py`. `calls.py` intercepts calls, and makes errors into statuses.
"""
