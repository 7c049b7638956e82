"""RPC services, one module each.

In: requests of `si.v1` and `licorne.v1`. Out: their answers, or a status with a typed detail.
`scheduler.py` and `session.py` are the two protocols of an RM, `state.py` has the reads, `admin/` the
changes, and `members/` the calls to other members.

Caller: gRPC, through `assembly/grpc_server.py`. `calls.py` intercepts calls, and turns errors into statuses.
"""
