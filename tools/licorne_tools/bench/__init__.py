"""`licorne bench`: how fast the core is, over gRPC between two processes.

`scenarios` says what is measured, `workload` makes the messages, `driver` is the RM's side over
si.v1 and `session_rm` over a session, `runs` measures with a `meter`. `ceiling` and `echo` find
what the transport alone would do, against a `bare_server`. `report` prints.
`isolation` measures what RMs cost each other, and `utilisation` how much of a cluster is used.

`against` finds another `installation` to compare with, and `command` starts the server of any of
them. `pairs` has the turns of both and their ratios, `pair_report` prints them, and `gate` judges
those of CI. `spread` quotes figures, and `progress` knows how far a run is.

A report is a `page` of `markdown` with `pictures`: whoever measures something else puts a section
of its own there with `markdown.put_section`.
"""
