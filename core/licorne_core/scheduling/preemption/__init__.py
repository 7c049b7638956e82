"""Preemption: stops allocations so that each queue gets its guarantee (spec § 9).

The pages, from the inside out:

    laws            the laws of spec § 9.1, each a function of queues and amounts
    losses          losses of leaves in the last hour
    ranks           the order of victims
    whatif          victims taken off and put back
    hosts           nodes that could be reserved for the ask
    node_contents   contents of each node and leaf, kept from search to search
    victim_counts   least number of victims on each node, kept from search to search
    victims         possible victims of one ask
    covering        the smallest set of victims on a node that is enough
    other_nodes     the smallest set of victims on other nodes that is enough
    planning        the best victims for each node, and the best nodes
    plans           results of a search
    refusing        reasons without a plan
    search          the search as a whole
    required_node   victims for an ask that may run on one node only
    quota_change    enforcement of a changed maximum: its time and victims
    ledger          the records of the last victims

Nothing in here changes a book. The caller carries a plan out: it asks the RM to stop the victims,
books them as preempting (`books.book_preempting`) and notes the losses of their leaves (`Losses.add`).

Data kept from search to search follows the versions of nodes and the counters of leaves, so that no
caller has to report changes.
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
