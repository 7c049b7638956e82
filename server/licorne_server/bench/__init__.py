"""`licorne bench`: how fast the core is, over gRPC between two processes.

`scenarios` says what is measured, `workload` makes the messages, `driver` is the RM's side (`asked`
where it decides about nodes), `runs` measures, `ceiling` finds what the transport alone would do,
`report` prints.
"""
