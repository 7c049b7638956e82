"""`licorne bench growth`: the cost of an allocation while one dimension grows tenfold, twice.

The *dimensions* are listed in `catalogue`. For each size a `world` is built in a process of its own, and the
CPU time of the core alone is measured, without wire and server, except for the watchers of events. `measure`
collects the points, `report` prints them, `picture` draws them.

To add a dimension, write a function that builds the world of a size, beside those of `of_queues`
and `of_cluster`, and an entry in `catalogue`.
"""
