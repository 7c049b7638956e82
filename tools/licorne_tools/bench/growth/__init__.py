"""`licorne bench growth`: the cost of an allocation while one dimension grows tenfold, twice.

`catalogue` lists the *dimensions*. For each size a `world` is built in its own process. Only the CPU time of
the core is measured, without wire and server, except for watchers of events. `measure` collects the points,
`report` prints them, `picture` draws them.

To add a dimension, write a function that builds the world of a size, beside those of `of_queues`
and `of_cluster`, and an entry in `catalogue`.
"""
