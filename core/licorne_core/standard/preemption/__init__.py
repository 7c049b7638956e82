"""Preemption: stops allocations so that each queue gets its guarantee, or its fair share (spec § 9).

Modules, the lowest first:

    keys            the property that lets a queue preempt up to its fair share shares          fair shares of
        queues laws            the laws of spec § 9.1, each a function of queues and amounts losses
        losses of leaves in the last hour victims         the order of victims, in each leaf and in all, and
        what-if books victim_index    caches of searches: contents of nodes, least numbers of victims, orders
        of leaves leaves          leaves with possible victims of one ask units           members of gangs
        that are stopped together candidates      possible victims of one ask hosts           nodes that could
        be reserved for the ask covering        the smallest sufficient set of victims, on a node and on other
        nodes cheapest        the victims of least lost work planning        the best victims for each node,
        and the best nodes together        the best victims for several equal asks standing        whether the
        victims of an answered question are still to be stopped search          the whole search, and the
        reasons for finding no plan requests        the asks that may preempt others, and when they are tried
        decisions       decisions about victims, and questions to the RM about them remedy          when
        victims are searched for, and limits on the searches extension       preemption in one partition
        stopping        the stop of victims, which an extension may delay handlers        executes decisions
        and answers of the RM reports         the progress of preemption for an ask, in explanations

Up to `remedy` all modules read the live books and never change them. `handlers` has the RM stop the victims,
books them as preempting (`books.book_preempting`) and notes the losses of their leaves (`Losses.add`).
Records of stops belong to the kernel (`ledger/stops.py`), because drains and quota changes create them too,
and so do noticed victims (`scheduling/stays.py`).

Caches are updated by the versions of nodes and the counters of leaves, so no caller has to report changes.
"""
