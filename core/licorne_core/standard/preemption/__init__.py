"""Preemption: stops allocations so that each queue gets its guarantee (spec § 9).

Modules, the lowest first:

    laws            the laws of spec § 9.1, each a function of queues and amounts
    ledger          records of the last victims, and losses of leaves in the last hour
    victims         the order of victims, in each leaf and in all, and what-if books
    victim_index    caches of searches: contents of nodes, least numbers of victims, orders of leaves
    leaves          leaves with possible victims of one ask
    units           members of gangs that are stopped together
    candidates      possible victims of one ask
    hosts           nodes that could be reserved for the ask
    covering        the smallest sufficient set of victims, on a node and on other nodes
    planning        the best victims for each node, and the best nodes
    standing        whether victims that an RM was asked about are still to be stopped
    search          the whole search, and the reasons for finding no plan

The package reads the live books and never changes them. The caller carries a plan out: it asks the
RM to stop the victims, books them as preempting (`books.book_preempting`) and notes the losses of
their leaves (`Losses.add`).

Caches follow the versions of nodes and the counters of leaves, so no caller has to report changes.
"""
