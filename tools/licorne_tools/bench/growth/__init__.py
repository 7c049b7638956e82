"""`licorne bench growth`: what an allocation costs while one thing grows tenfold, twice.

A *dimension* is one thing that grows (listed in `catalogue`). For each of its sizes a
`world` is built, in a process of its own, and the CPU time of the core alone is measured:
no wire and no server, but for the watchers of events, which need both. `measure` collects the
points, `report` prints them, `picture` draws them.

To add a dimension, write a function that builds the world of a size, beside those of `of_queues`
and `of_cluster`, and an entry in `catalogue`.
"""
