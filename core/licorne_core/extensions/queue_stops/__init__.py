"""Stops of queues by an operator: their asks are not tried, and they accept no applications (spec § 4.2).

The kernel has the state (`QueueState.STOPPED`), and the operator's mark (`QueueTree.stopped`). A stop
outlives its queue, and the registration of its RM.
"""

from typing import Final

NAME: Final = "queue_stops"
