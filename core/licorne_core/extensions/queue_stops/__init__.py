"""Stops of queues by an operator: nothing in one is looked at, and nothing new comes (spec § 4.2).

The kernel knows that a queue is stopped (`QueueState.STOPPED`), and by whom (`QueueTree.stopped`). A stop
outlives its queue, and the registration of its RM.
"""

from typing import Final

NAME: Final = "queue_stops"
