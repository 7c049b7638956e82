"""`licorne bench`: how fast the core is, over gRPC between two processes.

`scenarios` defines the loads, `workload` makes the messages, `driver` is the RM's side over si.v1 and
`session_rm` over a session. `runs` measures a scenario as a `load`; `confirming` and `flood` have the larger
ones. `ceilings` finds what the transport alone would do. `report` has the numbers of runs and of pairs, and
`page` puts them on a page, with `pictures`; `targets` has the tables of all targets, for which `kubernetes`
runs the shim's benchmark.

`installation` chooses the server, `command` starts it from any checkout, and `gate` compares it with the
commit before. `isolation` measures what RMs cost each other, `growth` what size costs, and `utilisation` how
much of a cluster is used.
"""
