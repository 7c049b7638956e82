"""RPC services, one module each.

In: requests of `si.v1` and `licorne.v1`. Out: their answers, or a status with a typed detail.
`scheduler.py` and `session.py` are the two ways of an RM, `state.py` reads, `admin/` changes.

Caller: gRPC, through `assembly/grpc_server.py`. `calls.py` intercepts calls, and makes errors into statuses.
"""
