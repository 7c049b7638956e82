"""`licorne bench`: the speed of the core, over gRPC between two processes.

`scenarios` defines the loads, and `workload` creates the messages. `driver` is the RM's side over si.v1, and
`session_rm` over a session. `runs` measures a scenario as a `load`; `confirming` and `flood` have the larger
loads. `ceilings` measures the transport without a scheduler. `report` has the figures of runs and of pairs,
and `page` writes them to a page, with `pictures`. `targets` has the tables of all targets, for which
`older_core` runs the shim's benchmark.

`installation` chooses the server, `command` starts it from any checkout, and `gate` compares it with the
parent commit. `isolation` measures how RMs affect each other, `growth` how size affects cost, and
`utilisation` how much of a cluster is used.
"""
