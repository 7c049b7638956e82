"""`licorne bench`: how fast the core is, over gRPC between two processes.

`scenarios` says what is measured, `workload` makes the messages, `driver` is the RM's side over
si.v1 and `session_rm` over a session, `runs` measures with a `meter`. `ceiling` and `echo` find
what the transport alone would do, against a `bare_server`. `report` prints.
`isolation` measures what RMs cost each other.
"""
