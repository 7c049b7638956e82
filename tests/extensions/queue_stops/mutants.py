"""Stops of queues: asks that leave their blockers, and new tries after the start."""

from mutants.defect import Defect
from mutants.operators import drop

QUEUE_STOPS = (
    Defect(
        "a-start-wakes-nobody",
        "queue_stops:_start",
        drop("mark_queue"),
        "asks of a queue that is started again wait for another change",
        ("extensions/queue_stops/test_queue_stops",),
    ),
    Defect(
        "a-stop-keeps-waits",
        "_QueueStop._let_go",
        drop("give_up_waits"),
        "a reservation of a stopped queue keeps its node",
        ("extensions/queue_stops/test_queue_stops",),
    ),
    Defect(
        "a-stop-is-forgotten",
        "_QueueStop.steps",
        drop("stopped"),
        "a queue that is stopped is active again after its RM has registered anew",
        ("extensions/queue_stops/test_queue_stops",),
        nth=2,
    ),
)
