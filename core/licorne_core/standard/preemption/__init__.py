"""Preemption: stops allocations so that each queue gets its guarantee (spec § 9).

Modules, the lowest first:

    laws            the laws of spec § 9.1, each a function of queues and amounts
    losses          losses of leaves in the last hour
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
    requests        the asks that may preempt others, and when they are tried
    decisions       what is decided, and what the RM is asked about it
    remedy          when victims are searched for, and what keeps that up
    extension       all of that in one partition
    stopping        victims are told to stop, which an extension may put off
    handlers        decisions and answers of the RM are carried out
    reports         how far that is for an ask, in explanations

Up to `remedy` all modules read the live books and never change them. `handlers` has the RM stop the
victims, books them as preempting (`books.book_preempting`) and notes the losses of their leaves
(`Losses.add`). Records of stops are the kernel's (`ledger/stops.py`), as drains and quotas have them
too, and so are allocations that run on for a while (`scheduling/stays.py`).

Caches follow the versions of nodes and the counters of leaves, so no caller has to report changes.
"""
