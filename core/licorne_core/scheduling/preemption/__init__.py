"""Preemption: which allocations have to go so that each queue gets what is its own (spec § 9).

The pages, from the inside out:

    laws            the laws of spec § 9.1, each a function of queues and amounts
    losses          what leaves lost in the last hour
    ranks           who goes first among those who may go
    whatif          victims taken off and put back
    hosts           nodes that could be kept for the ask
    node_contents   what is on each node and in each leaf, kept from search to search
    victim_counts   how many victims each node takes at least, kept from search to search
    victims         who may be a victim of one ask
    covering        the smallest set of victims on a node that is enough
    other_nodes     the smallest set of victims on other nodes that is enough
    planning        the best victims for each node, and the best nodes
    plans           what a search answers
    refusing        why there is no plan
    search          the search as a whole
    required_node   victims for an ask that may run on one node only
    quota_change    when a changed maximum is enforced, and the victims of that
    ledger          the records of the last victims

Nothing in here changes a book. Who carries a plan out tells the RM, books the victims as going
(`books.book_preempting`) and notes what their leaves lose (`Losses.add`).

What is kept from search to search follows the versions of nodes and the counters of leaves, so that
nobody has to say what has changed.
"""

from licorne_core.scheduling.preemption.laws import Law, Out, is_within_guarantee
from licorne_core.scheduling.preemption.losses import Losses, loss_of
from licorne_core.scheduling.preemption.plans import Plan, Refusal
from licorne_core.scheduling.preemption.ranks import seconds_run
from licorne_core.scheduling.preemption.required_node import required_node_victims
from licorne_core.scheduling.preemption.search import PreemptionSearch
from licorne_core.scheduling.preemption.whatif import Victim

__all__ = [
    "Law",
    "Losses",
    "Out",
    "Plan",
    "PreemptionSearch",
    "Refusal",
    "Victim",
    "is_within_guarantee",
    "loss_of",
    "required_node_victims",
    "seconds_run",
]
